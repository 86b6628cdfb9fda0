"""What a plan is tried on where nobody gives anything: seeded numbers in the range of the model's inputs."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edge_agent import errors
from edge_agent.config.image import ImageConfig
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.engine_host.json_tensors import DTYPES
from edge_agent.serving.picture import picture_input

_MAX_SAMPLE_BYTES = 48 << 20
_SEED = 20_241_130
#: of inputs that are neither pictures nor numbers of a known range; 0 and 1 are fit for indices too
_WHOLE = {"UINT8": (0, 255), "INT8": (-128, 127)}


class Sample(NamedTuple):
    """Inputs by name, with their batch dimension; `expected` is None where the model itself is to be asked."""

    name: str
    inputs: Mapping[str, Any]
    expected: Optional[Mapping[str, Any]] = None


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
