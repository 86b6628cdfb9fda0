"""Tensor data as JSON: a flat or nested list in, a flat list out."""

from __future__ import annotations

from itertools import chain
from typing import Any, Dict, List, Sequence, Set, Tuple, Union

import numpy as np

from edge_agent.domain.tensors import DataType
from edge_agent.errors import InvalidRequest
from edge_agent.kserve import bytes_tensors
from edge_agent.kserve.fields import MAX_NESTING, kind

DTYPES: Dict[DataType, str] = {
    DataType.BOOL: "?", DataType.UINT8: "u1", DataType.UINT16: "<u2", DataType.UINT32: "<u4", DataType.UINT64: "<u8",
    DataType.INT8: "i1", DataType.INT16: "<i2", DataType.INT32: "<i4", DataType.INT64: "<i8",
    DataType.FP16: "<f2", DataType.FP32: "<f4", DataType.FP64: "<f8",
}  # fmt: skip

#: datatypes that travel as binary only
BINARY_ONLY = (DataType.FP16, DataType.BF16)

_TYPES: Dict[str, Set[type]] = {"b": {bool, int}, "i": {int}, "u": {int}, "f": {int, float}}
_WANTED = {"b": "bools", "i": "integers", "u": "integers", "f": "numbers"}


def flatten(data: List[Any], shape: Sequence[int], name: str) -> List[Any]:
    """The elements row-major; InvalidRequest for ragged, too deep or wrongly nested lists."""
    level: List[Any] = data
    lengths = [len(data)]
    while level and isinstance(level[0], list):
        if len(lengths) >= MAX_NESTING:
            raise InvalidRequest("'data' of input '%s' is nested deeper than %d levels" % (name, MAX_NESTING))
        size = len(level[0])
        if any(not isinstance(row, list) or len(row) != size for row in level):
            raise InvalidRequest(
                "'data' of input '%s' is ragged: its lists differ in length at depth %d" % (name, len(lengths) + 1)
            )
        lengths.append(size)
        level = list(chain.from_iterable(level))
    if len(lengths) > 1 and len(lengths) == len(shape) and lengths != list(shape):
        raise InvalidRequest("'data' of input '%s' is nested as %s, its shape is %s" % (name, lengths, list(shape)))
    return level


def _strings(flat: List[Any], name: str) -> bytes:
    if set(map(type, flat)) - {str}:
        raise InvalidRequest("'data' of input '%s' must be strings for BYTES, got %s" % (name, _odd_one(flat, {str})))
    try:
        return bytes_tensors.pack(element.encode() for element in flat)
    except UnicodeEncodeError as exc:
        raise InvalidRequest("'data' of input '%s' holds half of a surrogate pair" % name) from exc


def _odd_one(flat: List[Any], allowed: Any) -> str:
    return next(kind(element) for element in flat if type(element) not in allowed)


def _check_range(flat: List[Any], dtype: np.dtype[Any], datatype: DataType, name: str) -> None:
    if not flat:
        return
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    for element in (min(flat), max(flat)):
        if not low <= element <= high:
            raise InvalidRequest("'data' of input '%s' holds %d, out of range for %s" % (name, element, datatype.value))


def _floats(flat: List[Any], dtype: np.dtype[Any], datatype: DataType, name: str) -> bytes:
    try:
        wide = np.array(flat, dtype=np.float64)
    except OverflowError:
        wide = np.array([np.inf])
    with np.errstate(over="ignore"):
        values = wide.astype(dtype)
    if not np.isfinite(values).all():
        raise InvalidRequest("'data' of input '%s' holds a number out of range for %s" % (name, datatype.value))
    return values.tobytes()


def to_bytes(data: List[Any], datatype: DataType, shape: Sequence[int], count: int, name: str) -> bytes:
    """JSON `data` of `count` elements as the tensor's bytes."""
    if datatype in BINARY_ONLY:
        raise InvalidRequest(binary_only(datatype, "input", name))
    flat = flatten(data, shape, name)
    if len(flat) != count:
        raise InvalidRequest(
            "'data' of input '%s' has %d elements, its shape %s takes %d" % (name, len(flat), list(shape), count)
        )
    if datatype is DataType.BYTES:
        return _strings(flat, name)
    dtype = np.dtype(DTYPES[datatype])
    allowed = _TYPES[dtype.kind]
    if not set(map(type, flat)) <= allowed:
        text = "'data' of input '%s' must be %s for %s, got %s"
        raise InvalidRequest(text % (name, _WANTED[dtype.kind], datatype.value, _odd_one(flat, allowed)))
    if dtype.kind == "f":
        return _floats(flat, dtype, datatype, name)
    _check_range(flat, dtype, datatype, name)
    return np.array(flat, dtype=dtype).tobytes()


def binary_only(datatype: DataType, role: str, name: str) -> str:
    """The error text for FP16 and BF16 as JSON."""
    text = "sending %s data via JSON is not supported. Please use the binary data format for %s '%s'"
    return text % (datatype.value, role, name)


def _utf8(view: Union[bytes, memoryview], name: str) -> List[Any]:
    try:
        return [element.decode() for element in bytes_tensors.unpack(view)]
    except UnicodeDecodeError as exc:
        raise InvalidRequest("output '%s' holds bytes that are not UTF-8: ask for it with binary_data" % name) from exc


def to_list(view: Union[bytes, memoryview], datatype: DataType, name: str) -> List[Any]:
    """A tensor's bytes as a flat JSON list; NaN and infinity are null."""
    if datatype is DataType.BYTES:
        return _utf8(view, name)
    if datatype in BINARY_ONLY:
        raise InvalidRequest(binary_only(datatype, "output", name))
    values = np.frombuffer(view, dtype=DTYPES[datatype])
    listed: List[Any] = values.tolist()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [element if finite else None for element, finite in zip(listed, np.isfinite(values).tolist())]
    return listed


def array_of(view: Union[bytes, memoryview], datatype: DataType, shape: Tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A numeric tensor as an array over its bytes."""
    return np.frombuffer(view, dtype=DTYPES[datatype]).reshape(shape)
