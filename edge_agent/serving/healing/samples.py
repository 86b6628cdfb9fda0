"""What a plan is tried on: golden inputs with their outputs, or seeded numbers in the range of the model's inputs."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np

from edge_agent import errors
from edge_agent.config.image import ImageConfig
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.engine_host.json_tensors import DTYPES
from edge_agent.serving.picture import picture_input

GOLDEN_UNREADABLE = "engine.golden_unreadable"
_MAX_GOLDEN = 64
_MAX_GOLDEN_BYTES = 256 << 20
_MAX_SAMPLE_BYTES = 48 << 20
_INPUTS, _OUTPUTS = "inputs.npz", "outputs.npz"
_SEED = 20_241_130
#: of inputs that are neither pictures nor numbers of a known range; 0 and 1 are fit for indices too
_WHOLE = {"UINT8": (0, 255), "INT8": (-128, 127)}


class Sample(NamedTuple):
    """Inputs by name, with their batch dimension; `expected` is None where the model itself is to be asked."""

    name: str
    inputs: Mapping[str, Any]
    expected: Optional[Mapping[str, Any]] = None


class Tensors(Protocol):
    """Whatever takes tensors and gives some: a version of a model."""

    inputs: Tuple[TensorSpec, ...]
    outputs: Tuple[TensorSpec, ...]
    max_batch_size: int


# -- golden -----------------------------------------------------------------------------------------------------------


def golden(folder: Path, model_directory: Path) -> List[Sample]:
    """Pairs `inputs.npz` and `outputs.npz`, or `NAME.inputs.npz` and `NAME.outputs.npz`, arrays by the tensors' names.

    EngineLoadError where there is none, one cannot be read, or the folder lies outside the model's.
    """
    try:
        if not lies_within(folder, model_directory):
            raise errors.EngineLoadError("[accept] golden: %s lies outside the model's folder" % folder, code=GOLDEN_UNREADABLE)
        names = sorted(path.name for path in folder.iterdir() if path.name.endswith(_INPUTS))
        if not names or len(names) > _MAX_GOLDEN:
            text = "[accept] golden: %s has %d pairs of inputs.npz and outputs.npz; put 1 to %d there"
            raise errors.EngineLoadError(text % (folder, len(names), _MAX_GOLDEN), code=GOLDEN_UNREADABLE)
        return [_pair(folder, name) for name in names]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise errors.EngineLoadError(
            "[accept] golden: %s cannot be read: %s" % (folder, error), code=GOLDEN_UNREADABLE
        ) from error


def lies_within(folder: Path, directory: Path) -> bool:
    """Whether the folder is one of the directory's, whatever links there are. OSError where they lead in a circle."""
    try:
        return directory.resolve() in folder.resolve().parents
    except RuntimeError as error:  # up to Python 3.12
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error


def _pair(folder: Path, name: str) -> Sample:
    beside = name[: -len(_INPUTS)] + _OUTPUTS
    return Sample("golden " + name, _arrays(folder / name), _arrays(folder / beside))


def _arrays(path: Path) -> Dict[str, Any]:
    """Raises OSError, ValueError."""
    with zipfile.ZipFile(str(path)) as archive:
        size = sum(info.file_size for info in archive.infolist())
    if size > _MAX_GOLDEN_BYTES:
        raise ValueError("%s is over %d bytes" % (path.name, _MAX_GOLDEN_BYTES))
    with np.load(str(path), allow_pickle=False) as file:
        arrays = {key: np.ascontiguousarray(file[key]) for key in file.files}
    if not arrays:
        raise ValueError("%s holds no arrays" % path.name)
    return arrays


def misfit(samples: Sequence[Sample], tensors: Tensors) -> str:
    """Why golden arrays cannot be of something with these tensors; empty where they can."""
    return next((why for why in (_misfit(sample, tensors) for sample in samples) if why), "")


def _misfit(sample: Sample, tensors: Tensors) -> str:
    why = _inputs_misfit(sample, tensors.inputs, tensors.max_batch_size)
    names = {spec.name for spec in tensors.outputs}
    unknown = sorted(set(sample.expected or ()) - names)
    if unknown:
        why = "there is no output '%s', only %s" % (unknown[0], ", ".join(sorted(names)))
    return "%s: %s" % (sample.name, why) if why else ""


def _inputs_misfit(sample: Sample, inputs: Sequence[TensorSpec], max_batch_size: int) -> str:
    if set(sample.inputs) != {spec.name for spec in inputs}:
        wanted, got = (", ".join(sorted(names)) for names in ({spec.name for spec in inputs}, set(sample.inputs)))
        return "the inputs are %s, not %s" % (wanted, got)
    rows = {len(array) if array.shape else 0 for array in sample.inputs.values()}
    if max_batch_size and (len(rows) != 1 or not 1 <= min(rows) <= max_batch_size):
        return "it has %s rows, 1 to %d are taken" % (sorted(rows), max_batch_size)
    for spec in inputs:
        shape = sample.inputs[spec.name].shape
        if len(shape) != len(spec.shape) or any(want not in (-1, got) for want, got in zip(spec.shape, shape)):
            return "input '%s' has the shape %s, not %s" % (spec.name, list(spec.shape), list(shape))
    return ""


# -- seeded -----------------------------------------------------------------------------------------------------------


def batch_sizes(largest: int) -> Tuple[int, ...]:
    """One row, the most, and an odd number between; 1 alone where the model does not batch."""
    odd = largest // 2 | 1
    return tuple(sorted({1, max(largest, 1), odd if odd < largest else 1}))


def seeded(
    inputs: Sequence[TensorSpec],
    max_batch_size: int,
    image: Optional[ImageConfig] = None,
    sizes: Mapping[str, Sequence[int]] = {},  # noqa: B006 (it is only read)
) -> Iterator[Sample]:
    """The same numbers each time. `sizes` says what an input's open dimensions are. EngineLoadError where nobody does."""
    generator = np.random.default_rng(_SEED)
    for rows in _that_fit(inputs, max_batch_size, sizes):
        arrays = {
            spec.name: _random(generator, spec, _shape(spec, rows, max_batch_size > 0, sizes.get(spec.name)), image, inputs)
            for spec in inputs
        }
        yield Sample("%d row%s" % (rows, "" if rows == 1 else "s"), arrays)


def _that_fit(inputs: Sequence[TensorSpec], max_batch_size: int, sizes: Mapping[str, Sequence[int]]) -> Tuple[int, ...]:
    """Small boards have no memory for the largest batches of large pictures, made a second time."""
    row = 0
    for spec in inputs:
        row += int(np.prod(_shape(spec, 1, max_batch_size > 0, sizes.get(spec.name)), dtype=np.int64)) * 4
    return batch_sizes(min(max_batch_size, max(1, _MAX_SAMPLE_BYTES // max(row, 1))))


def _shape(spec: TensorSpec, rows: int, batched: bool, usual: Optional[Sequence[int]]) -> Tuple[int, ...]:
    shape = list(spec.shape)
    if usual is not None and len(usual) == len(shape):
        shape = [known if known >= 0 else int(size) for known, size in zip(shape, usual)]
    if batched:
        shape[0] = rows
    if any(size < 0 for size in shape):
        text = "nobody says how large input '%s' %s is; give golden inputs in [accept]"
        raise errors.EngineLoadError(text % (spec.name, list(spec.shape)))
    return tuple(shape)


def _random(
    generator: Any, spec: TensorSpec, shape: Tuple[int, ...], image: Optional[ImageConfig], inputs: Sequence[TensorSpec]
) -> Any:
    if spec.datatype is DataType.BYTES:
        raise errors.EngineLoadError("input '%s' takes texts, of which nobody knows any: give golden inputs" % spec.name)
    if spec.datatype is DataType.BOOL:
        return generator.integers(0, 2, shape).astype(np.bool_)
    if not spec.datatype.value.startswith(("FP", "BF")):
        low, high = _WHOLE.get(spec.datatype.value, (0, 1))
        return generator.integers(low, high + 1, shape).astype(DTYPES[spec.datatype.value])
    least, most = _range(spec, image, inputs)
    return least + (most - least) * generator.random(shape, dtype=np.float32)


def _range(spec: TensorSpec, image: Optional[ImageConfig], inputs: Sequence[TensorSpec]) -> Tuple[float, float]:
    """Of a picture's input what pixels become, of others 0 to 1."""
    if image is None or picture_input(image, inputs) is not spec:
        return 0.0, 1.0
    ends = [(pixel * image.scale - mean) / std for pixel in (0.0, 255.0) for mean, std in zip(image.mean, image.std)]
    return min(ends), max(ends)


# -- bytes ------------------------------------------------------------------------------------------------------------


def packed_bytes(datatype: DataType, shape: Sequence[int]) -> int:
    """How many bytes such a tensor takes."""
    count = 1
    for size in shape:
        count *= size
    return count * datatype.itemsize


def packed(array: Any, datatype: DataType) -> bytes:
    """The array as it lies in the arena; its values must fit the datatype."""
    if datatype is DataType.BF16:
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        return ((bits + 0x8000) >> 16).astype("<u2").tobytes()
    return np.ascontiguousarray(array).astype(DTYPES[datatype.value]).tobytes()


def unpacked(view: memoryview, datatype: DataType, shape: Sequence[int]) -> Any:
    """A copy of what lies in the arena, FP as FP32 or FP64."""
    if datatype is DataType.BF16:
        return (np.frombuffer(view, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(tuple(shape))
    if datatype is DataType.BYTES:
        return np.frombuffer(bytes(view), np.uint8)
    array = np.frombuffer(bytes(view), DTYPES[datatype.value]).reshape(tuple(shape))
    return array.astype(np.float32) if datatype is DataType.FP16 else array
