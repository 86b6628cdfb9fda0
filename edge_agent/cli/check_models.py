"""What `edge-agent check` finds in the files of models: what would not load, or could not be built or judged."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from pathlib import Path
from typing import Iterator, Sequence, Tuple

from edge_agent.config.optimization import BuildConfig, BuildProfile
from edge_agent.engines.plans.onnx_files import external_files
from edge_agent.errors import EngineLoadError
from edge_agent.serving.healing.golden import lies_within
from edge_agent.serving.repository import ModelEntry

Fault = Tuple[str, str, str]

_QUANTIZED = (b"QuantizeLinear", b"DequantizeLinear")


def model_faults(entries: Sequence[ModelEntry]) -> Iterator[Fault]:
    """Path of the configuration, what is wrong, its cure. ONNX files are read through where int8 has no calibration cache."""
    for entry in entries:
        yield from _model_files(entry)
        yield from _golden(entry)
        if entry.config.build is not None:
            yield from _build(entry, entry.config.build)


def _model_files(entry: ModelEntry) -> Iterator[Fault]:
    for version in entry.versions:
        path = "models.%s.%d" % (entry.name, version.number)
        for file in {version.path, version.onnx or version.path}:
            if file.suffix == ".onnx":
                try:
                    external_files(file)
                except EngineLoadError as error:
                    yield path, str(error), "put the whole model there, its data beside it"
            elif file.suffix == ".plan" and version.onnx is None and _is_empty(file):  # beside a model it is not needed
                yield path, "%s is empty, or no file" % file, "put a good copy in its place, or model.onnx beside it"


def _is_empty(file: Path) -> bool:
    with contextlib.suppress(OSError):
        found = os.stat(str(file))
        return not (stat.S_ISREG(found.st_mode) and found.st_size)
    return True


def _golden(entry: ModelEntry) -> Iterator[Fault]:
    golden = entry.config.accept.golden if entry.config.accept is not None else ""
    if not golden:
        return
    path, folder = "models.%s.accept.golden" % entry.name, entry.directory / golden
    try:
        inside = lies_within(folder, entry.directory)
    except OSError as error:
        yield path, "%s cannot be read: %s" % (folder, error.strerror), "put a folder with inputs.npz and outputs.npz there"
        return
    if not inside:
        yield path, "%s lies outside the model's folder" % folder, "put the folder into that of the model"
    elif not os.path.isdir(str(folder)):
        yield path, "%s is not there" % folder, "make the folder, with inputs.npz and outputs.npz in it, or remove the key"


def _build(entry: ModelEntry, build: BuildConfig) -> Iterator[Fault]:
    path = "models.%s.build." % entry.name
    calibration = entry.directory / build.calibration
    if build.calibration and not calibration.is_file():
        yield path + "calibration", "%s is not there" % calibration, "put the calibration cache there, or remove the key"
    if build.precision == "int8" and not build.calibration and not build.precision_fallback:
        for version in entry.versions:
            if version.onnx is not None and _is_plain(version.onnx):
                text = "int8 needs a calibration cache, or a model with QuantizeLinear and DequantizeLinear in it: %s has none"
                yield path + "precision", text % version.onnx, "name a cache in calibration, or take another precision"
    for number, profile in enumerate(build.profiles):
        for name, sizes in profile.items():
            yield from _profile("%sprofiles[%d].%s" % (path, number, name), sizes)


def _is_plain(onnx: Path) -> bool:
    """Whether it certainly has no quantized layers."""
    with contextlib.suppress(OSError, ValueError), onnx.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with contextlib.closing(data):
            return all(data.find(name) < 0 for name in _QUANTIZED)
    return False


def _profile(path: str, sizes: BuildProfile) -> Iterator[Fault]:
    least, usual, most = sizes.min, sizes.opt, sizes.max
    if not len(least) == len(usual) == len(most):
        yield path, "min, opt and max have %d, %d and %d sizes" % (len(least), len(usual), len(most)), "give equally many"
    elif any(not low <= middle <= high for low, middle, high in zip(least, usual, most)):
        text = "min %s, opt %s and max %s do not rise"
        yield path, text % (list(least), list(usual), list(most)), "give each size as min <= opt <= max"
