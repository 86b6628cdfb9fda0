"""What an ONNX model takes and gives, read from its file: without ONNX Runtime, without its weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from edge_agent import errors
from edge_agent.domain.tensors import DataType
from edge_agent.engines.plans.regular_file import cannot_read, open_regular
from edge_agent.engines.plans.wire_format import Field, Malformed, WireFile

_MAX_NAME = 4096  #: bytes
_MAX_RANK = 64
_LARGEST = 1 << 62  #: what is over it was negative

_GRAPH = 7
_INITIALIZER, _INPUT, _OUTPUT, _SPARSE = 5, 11, 12, 15
_VALUES, _TENSOR_NAME = 1, 8
_NAME, _TYPE, _TENSOR_TYPE = 1, 2, 1
_ELEMENT, _SHAPE, _DIMENSION, _SIZE = 1, 2, 1, 1

_DATATYPES = {
    1: DataType.FP32, 2: DataType.UINT8, 3: DataType.INT8, 4: DataType.UINT16, 5: DataType.INT16, 6: DataType.INT32,
    7: DataType.INT64, 8: DataType.BYTES, 9: DataType.BOOL, 10: DataType.FP16, 11: DataType.FP64, 12: DataType.UINT32,
    13: DataType.UINT64, 16: DataType.BF16,
}  # fmt: skip


class OnnxTensor(NamedTuple):
    """One input or output; None where the model leaves open what it is, or it is nothing that requests carry."""

    name: str
    datatype: Optional[DataType]
    shape: Optional[Tuple[int, ...]]  #: -1: any size


class OnnxTensors(NamedTuple):
    """Inputs and outputs in their order; constants that older models count among the inputs are left out."""

    inputs: Tuple[OnnxTensor, ...]
    outputs: Tuple[OnnxTensor, ...]


def onnx_tensors(path: Path) -> OnnxTensors:
    """EngineLoadError where it is no whole ONNX model or cannot be read."""
    try:
        with open_regular(path) as file:
            return _Graph(WireFile(file, os.fstat(file.fileno()).st_size)).tensors()
    except Malformed as exc:
        raise errors.EngineLoadError("%s is no whole ONNX model: %s; put a good copy in its place" % (path, exc)) from exc
    except OSError as exc:
        raise cannot_read(path, exc) from exc


class _Graph:
    """Raises Malformed, OSError."""

    def __init__(self, wire: WireFile) -> None:
        self._wire = wire

    def tensors(self) -> OnnxTensors:
        constants: Set[str] = set()
        found: Dict[int, List[OnnxTensor]] = {_INPUT: [], _OUTPUT: []}
        graphs = [field for field in self._within(None) if field.number == _GRAPH and field.is_bytes]
        for field in (field for graph in graphs for field in self._within(graph)):
            if field.number in found and field.is_bytes:
                found[field.number].append(self._tensor(field))
            elif field.number == _INITIALIZER and field.is_bytes:
                constants.add(self._name(field, _TENSOR_NAME))
            elif field.number == _SPARSE and field.is_bytes:
                constants.update(self._name(values, _TENSOR_NAME) for values in self._parts(field, _VALUES))
        inputs = tuple(tensor for tensor in found[_INPUT] if tensor.name not in constants)
        return OnnxTensors(inputs, tuple(found[_OUTPUT]))

    def _within(self, field: Optional[Field]) -> Iterator[Field]:
        return self._wire.fields(0, self._wire.size) if field is None else self._wire.fields(field.start, field.end)

    def _parts(self, field: Field, number: int) -> List[Field]:
        return [one for one in self._within(field) if one.number == number and one.is_bytes]

    def _name(self, field: Field, number: int) -> str:
        names = [self._wire.read(part, _MAX_NAME).decode("utf-8", "replace") for part in self._parts(field, number)]
        return names[-1] if names else ""

    def _tensor(self, field: Field) -> OnnxTensor:
        datatype: Optional[DataType] = None
        shape: Optional[Tuple[int, ...]] = None
        for kind in self._parts(field, _TYPE):
            for tensor in self._parts(kind, _TENSOR_TYPE):
                for one in self._within(tensor):
                    if one.number == _ELEMENT and not one.is_bytes:
                        datatype = _DATATYPES.get(one.value)
                    elif one.number == _SHAPE and one.is_bytes:
                        shape = tuple(self._size(size) for size in self._parts(one, _DIMENSION)[:_MAX_RANK])
        return OnnxTensor(self._name(field, _NAME), datatype, shape)

    def _size(self, field: Field) -> int:
        """What has a name, or says nothing, may be of any size."""
        sizes = [one.value for one in self._within(field) if one.number == _SIZE and not one.is_bytes]
        return sizes[-1] if sizes and sizes[-1] < _LARGEST else -1
