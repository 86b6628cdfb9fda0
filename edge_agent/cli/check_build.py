"""What `edge-agent check` finds in `[build]`: what no plan could be made with, of itself or of this model."""

from __future__ import annotations

import contextlib
import mmap
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from edge_agent.config.optimization import BuildConfig, BuildProfile
from edge_agent.engine_host.build import profile as builders
from edge_agent.engine_host.control import Refused
from edge_agent.engines.plans.onnx_tensors import OnnxTensor, onnx_tensors
from edge_agent.errors import EngineLoadError
from edge_agent.serving.healing import recipe
from edge_agent.serving.repository import ModelEntry, VersionEntry

Fault = Tuple[str, str, str]

_QUANTIZED = (b"QuantizeLinear", b"DequantizeLinear")
#: as the builder has it: the model's largest batch, and its profiles
largest_batch: Callable[..., int] = builders.batch_size
_profiles: Callable[..., List[Any]] = builders.profiles
_FIRST = "[build] profile 1"
_CURE = "give the model's inputs sizes that they can have"


def build_faults(entry: ModelEntry) -> Iterator[Fault]:
    """ONNX files are read through where int8 has no calibration cache."""
    build = entry.config.build
    if build is None:
        return
    path = "models.%s.build." % entry.name
    calibration = entry.directory / build.calibration
    if build.calibration and not calibration.is_file():
        yield path + "calibration", "%s is not there" % calibration, "put the calibration cache there, or remove the key"
    if build.precision == "int8" and not build.calibration and not build.precision_fallback:
        for version in entry.versions:
            if version.onnx is not None and _is_plain(version.onnx):
                text = "int8 needs a calibration cache, or a model with QuantizeLinear and DequantizeLinear in it: %s has none"
                yield path + "precision", text % version.onnx, "name a cache in calibration, or take another precision"
    alone = list(_alone(path, build))
    yield from alone
    if not alone:
        for version in entry.versions:
            yield from _of_model(path, entry, version, build)


def build_notes(entry: ModelEntry) -> Iterator[str]:
    """Models of which no plan can be built while nobody says how large they are: ONNX Runtime serves them."""
    build = recipe.build_config(entry.config)
    for version in entry.versions if not build.profiles else ():
        asked = _asked(entry, version)
        if asked is not None:
            why = asked.refuses(asked.inputs, [])
            if why:
                yield "models.%s.%d: no plan can be built: %s" % (entry.name, version.number, why)


def _is_plain(onnx: Path) -> bool:
    """Whether it certainly has no quantized layers."""
    with contextlib.suppress(OSError, ValueError), onnx.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with contextlib.closing(data):
            return all(data.find(name) < 0 for name in _QUANTIZED)
    return False


# -- profiles ---------------------------------------------------------------------------------------------------------


def _alone(path: str, build: BuildConfig) -> Iterator[Fault]:
    for number, profile in enumerate(build.profiles):
        for name, sizes in profile.items():
            yield from _profile("%sprofiles[%d].%s" % (path, number, name), sizes)


def _profile(path: str, sizes: BuildProfile) -> Iterator[Fault]:
    least, usual, most = sizes.min, sizes.opt, sizes.max
    if not len(least) == len(usual) == len(most):
        yield path, "min, opt and max have %d, %d and %d sizes" % (len(least), len(usual), len(most)), "give equally many"
    elif any(not low <= middle <= high for low, middle, high in zip(least, usual, most)):
        text = "min %s, opt %s and max %s do not rise"
        yield path, text % (list(least), list(usual), list(most)), "give each size as min <= opt <= max"


class _Asked(NamedTuple):
    """What the builder is asked for one version."""

    inputs: List[Any]
    declared: Mapping[str, Tuple[int, ...]]
    max_batch_size: int
    usual: int

    def refuses(self, inputs: List[Any], given: List[Dict[str, Any]]) -> str:
        """Why the builder makes no profiles of it, in its own words; empty where it does."""
        try:
            _profiles(inputs, given, self.declared, self.max_batch_size, self.usual)
        except Refused as error:
            return str(error)
        return ""


def _asked(entry: ModelEntry, version: VersionEntry) -> Any:
    """None where nothing is built, or its file says too little."""
    onnx = version.onnx
    if onnx is None or version.platform != "tensorrt_plan":
        return None
    try:
        tensors = onnx_tensors(onnx)
    except EngineLoadError:
        return None  # told as a fault of the file
    if any(tensor.shape is None for tensor in tensors.inputs):
        return None
    order = recipe.order(entry.name, onnx, entry.config, "fp32", onnx, onnx, 0)
    declared = {spec.name: spec.shape for spec in order.inputs}
    outputs = [(-1,) if tensor.shape is None else tensor.shape for tensor in tensors.outputs]
    inputs = [builders.Input(tensor.name, tensor.shape, _may_hold_sizes(tensor)) for tensor in tensors.inputs]
    batch = largest_batch(order.max_batch_size, [one.shape for one in inputs], outputs)
    return _Asked(inputs, declared, batch, order.usual_batch_size)


def _may_hold_sizes(tensor: OnnxTensor) -> bool:
    """A profile says values of such an input then, not sizes: only TensorRT knows."""
    whole = tensor.datatype is not None and tensor.datatype.value in ("INT32", "INT64")
    return whole and tensor.shape is not None and len(tensor.shape) <= 1


def _of_model(path: str, entry: ModelEntry, version: VersionEntry, build: BuildConfig) -> Iterator[Fault]:
    asked = _asked(entry, version) if build.profiles else None
    if asked is None:
        return
    known = {one.name: one for one in asked.inputs}
    for number, profile in enumerate(build.profiles):
        here, good = "%sprofiles[%d]" % (path, number), True
        given = {name: {"min": one.min, "opt": one.opt, "max": one.max} for name, one in profile.items()}
        for name, sizes in given.items():
            if name not in known:
                why = "%s has no input '%s', only %s" % (version.onnx, name, ", ".join("'%s'" % one for one in sorted(known)))
            else:
                why = asked.refuses([known[name]], [{name: sizes}])
            if why:
                good = False
                yield "%s.%s" % (here, name), _numbered(why, number), _CURE
        sized = [one for one in asked.inputs if not one.values or one.name in given]
        why = asked.refuses(sized, [given]) if good else ""
        if why:
            yield here, _numbered(why, number), _CURE


def _numbered(why: str, number: int) -> str:
    """The builder was asked about one profile, as its first."""
    return why.replace(_FIRST + ": ", "").replace(_FIRST, "[build] profile %d" % (number + 1))
