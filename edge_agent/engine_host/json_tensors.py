"""Tensor data as JSON: a flat or nested list to the tensor's bytes, and back; and the best of a tensor as texts.

Python 3.6 and numpy only: the agent converts small bodies with it, the body child large ones, so that no error text and
no rounding exists twice. What is wrong with foreign JSON is a BadJson whose text names the input.
"""

import json
import re
import struct
from itertools import chain
from typing import Any, Dict, Iterable, List, Optional, Sequence, Union

import numpy as np

Bytes = Union[bytes, bytearray, memoryview]

MAX_NESTING = 100
MAX_RANK = 32  #: numpy's limit in the oldest version that children run
MAX_TENSOR_BYTES = 2**40  #: no shape may ask for more; far above any body limit, far below an overflow

#: numpy's type of what JSON numbers and bools can be; FP16 and BF16 travel as binary only, BYTES are strings
DTYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
BINARY_ONLY = ("FP16", "BF16")
DATATYPES = (*DTYPES, "BF16", "BYTES")

LENGTH = struct.Struct("<I")  #: in front of each element of a BYTES tensor

_TYPES = {"b": {bool, int}, "i": {int}, "u": {int}, "f": {int, float}}
_WANTED = {"b": "bools", "i": "integers", "u": "integers", "f": "numbers"}
_KINDS = {
    dict: "an object", list: "a list", str: "a string", bool: "a bool", int: "a number", float: "a number", type(None): "null",
}  # fmt: skip
#: reading a number takes time with the square of its digits before Python 3.11, which has this same limit
_MAX_DIGITS = 4300
_MANY_DIGITS = re.compile(rb"(?<![0-9])[0-9]{%d}" % (_MAX_DIGITS + 1))


class BadJson(ValueError):
    """Foreign JSON that cannot be used; the text says what is wrong with which part of it."""


# -- documents --------------------------------------------------------------------------------------------------------


def shown(text: str) -> str:
    """A foreign name for an error text: printable and short."""
    cut = text if len(text) <= 64 else text[:61] + "..."
    return "".join(c if c.isprintable() else "?" for c in cut)


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    return _KINDS.get(type(value), type(value).__name__)


def got(value: Any) -> str:
    """A wrong value in an error text: itself when it is short for certain, else what it is."""
    return str(value) if type(value) in (float, bool) or type(value) is int and abs(value) < 1 << 64 else kind(value)


def _refuse_constant(name: str) -> None:
    raise BadJson("%s is not a JSON value: send such numbers as binary tensor data" % name)


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise BadJson("failed to parse the request JSON: it holds a number of more than %d digits" % _MAX_DIGITS)
    return int(digits)


# made once: making one takes as long as reading a small document with it
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_BOUNDING_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_bounded_int)
_COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def load_object(raw: Bytes, hint: str = "") -> Dict[str, Any]:
    """One JSON object out of UTF-8 bytes; BadJson says what is wrong and where."""
    document = _load(raw, hint)
    if not isinstance(document, dict):
        raise BadJson("the request body must be a JSON object, got %s" % got(document))
    return document


def _load(raw: Bytes, hint: str) -> Any:
    if not len(raw):
        raise BadJson("the request body is empty, a JSON object is expected")
    decoder = _BOUNDING_DECODER if len(raw) > _MAX_DIGITS and _MANY_DIGITS.search(raw) else _DECODER
    try:
        text = str(raw, "utf-8")
        if text.startswith("\ufeff"):
            raise BadJson("failed to parse the request JSON: it begins with a byte order mark (BOM)%s" % hint)
        return decoder.decode(text)
    except UnicodeDecodeError as error:
        raise BadJson("the request body is not UTF-8 at byte %d%s" % (error.start, hint)) from error
    except RecursionError as error:
        raise BadJson("the request body is nested deeper than %d levels" % MAX_NESTING) from error
    except BadJson:
        raise
    except ValueError as error:
        raise BadJson("failed to parse the request JSON: %s%s" % (error, hint)) from error


def check_nesting(value: Any, where: str, levels: int = MAX_NESTING) -> None:
    """BadJson when lists and objects lie deeper in each other than `levels`."""
    layer = [value]  # type: List[Any]
    for _ in range(levels):
        inner = []  # type: List[Any]
        for item in layer:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        layer = [item for item in inner if isinstance(item, (dict, list))]
        if not layer:
            return
    raise BadJson("%s is nested deeper than %d levels" % (where, MAX_NESTING))


# -- BYTES ------------------------------------------------------------------------------------------------------------


def pack_strings(elements: Iterable[bytes]) -> bytes:
    """A BYTES tensor: each element is a little-endian uint32 length and then the bytes."""
    return b"".join([LENGTH.pack(len(element)) + element for element in elements])


def unpack_strings(view: Bytes) -> List[bytes]:
    """The elements of a well-formed BYTES tensor."""
    elements = []  # type: List[bytes]
    at, end = 0, len(view)
    while at + LENGTH.size <= end:
        (length,) = LENGTH.unpack_from(view, at)
        at += LENGTH.size
        elements.append(bytes(view[at : at + length]))
        at += length
    return elements


# -- JSON to bytes ----------------------------------------------------------------------------------------------------


def flatten(data: List[Any], shape: Sequence[int], name: str) -> List[Any]:
    """The elements row-major; BadJson for ragged, too deep or wrongly nested lists."""
    level = data
    lengths = [len(data)]
    while level and isinstance(level[0], list):
        if len(lengths) >= MAX_NESTING:
            raise BadJson("'data' of input '%s' is nested deeper than %d levels" % (name, MAX_NESTING))
        size = len(level[0])
        if any(not isinstance(row, list) or len(row) != size for row in level):
            raise BadJson("'data' of input '%s' is ragged: its lists differ in length at depth %d" % (name, len(lengths) + 1))
        lengths.append(size)
        level = list(chain.from_iterable(level))
    if len(lengths) > 1 and len(lengths) == len(shape) and lengths != list(shape):
        raise BadJson("'data' of input '%s' is nested as %s, its shape is %s" % (name, lengths, list(shape)))
    return level


def to_bytes(data: List[Any], datatype: str, shape: Sequence[int], count: int, name: str) -> bytes:
    """JSON `data` of `count` elements as the tensor's bytes."""
    if datatype in BINARY_ONLY:
        raise BadJson(binary_only(datatype, "input", name))
    flat = flatten(data, shape, name)
    if len(flat) != count:
        raise BadJson("'data' of input '%s' has %d elements, its shape %s takes %d" % (name, len(flat), list(shape), count))
    if datatype == "BYTES":
        return _strings(flat, name)
    dtype = np.dtype(DTYPES[datatype])
    allowed = _TYPES[dtype.kind]
    if not set(map(type, flat)) <= allowed:
        text = "'data' of input '%s' must be %s for %s, got %s"
        raise BadJson(text % (name, _WANTED[dtype.kind], datatype, _odd_one(flat, allowed)))
    if dtype.kind == "f":
        return _floats(flat, dtype, datatype, name)
    _check_range(flat, dtype, datatype, name)
    return np.array(flat, dtype=dtype).tobytes()


def binary_only(datatype: str, role: str, name: str) -> str:
    """The error text for FP16 and BF16 as JSON."""
    text = "sending %s data via JSON is not supported. Please use the binary data format for %s '%s'"
    return text % (datatype, role, name)


def _strings(flat: List[Any], name: str) -> bytes:
    if set(map(type, flat)) - {str}:
        raise BadJson("'data' of input '%s' must be strings for BYTES, got %s" % (name, _odd_one(flat, {str})))
    try:
        return pack_strings(element.encode("utf-8") for element in flat)
    except UnicodeEncodeError as error:
        raise BadJson("'data' of input '%s' holds half of a surrogate pair" % name) from error


def _odd_one(flat: List[Any], allowed: Any) -> str:
    return next(kind(element) for element in flat if type(element) not in allowed)


def _check_range(flat: List[Any], dtype: Any, datatype: str, name: str) -> None:
    if not flat:
        return
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    for element in (min(flat), max(flat)):
        if not low <= element <= high:
            raise BadJson("'data' of input '%s' holds %d, out of range for %s" % (name, element, datatype))


def _floats(flat: List[Any], dtype: Any, datatype: str, name: str) -> bytes:
    try:
        wide = np.array(flat, dtype=np.float64)
    except OverflowError:
        wide = np.array([np.inf])
    with np.errstate(over="ignore"):
        values = wide.astype(dtype)
    if not np.isfinite(values).all():
        raise BadJson("'data' of input '%s' holds a number out of range for %s" % (name, datatype))
    return values.tobytes()


# -- bytes to JSON ----------------------------------------------------------------------------------------------------


def to_list(view: Bytes, datatype: str, name: str) -> List[Any]:
    """A tensor's bytes as a flat JSON list; NaN and infinity are null."""
    if datatype == "BYTES":
        return _texts(view, name)
    if datatype in BINARY_ONLY:
        raise BadJson(binary_only(datatype, "output", name))
    values = np.frombuffer(view, dtype=DTYPES[datatype]) if len(view) else np.empty(0, DTYPES[datatype])
    listed = values.tolist()  # type: List[Any]
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [element if finite else None for element, finite in zip(listed, np.isfinite(values).tolist())]
    return listed


def _texts(view: Bytes, name: str) -> List[Any]:
    try:
        return [element.decode("utf-8") for element in unpack_strings(view)]
    except UnicodeDecodeError as error:
        raise BadJson("output '%s' holds bytes that are not UTF-8: ask for it with binary_data" % name) from error


def compact(value: Any) -> bytes:
    """JSON without spaces, as every document of this protocol is written."""
    return _COMPACT.encode(value).encode("ascii")


def elements_of(shape: Any, itemsize: int) -> Optional[int]:
    """How many elements a shape out of foreign JSON has; None when it is no shape that the agent takes."""
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        return None
    count = 1
    for dim in shape:
        if type(dim) is not int or not 0 <= dim <= MAX_TENSOR_BYTES:
            return None
        count *= dim
    return count if count * max(1, itemsize) <= MAX_TENSOR_BYTES else None


def itemsize_of(datatype: str) -> int:
    """Bytes of one element; 0 for BYTES."""
    if datatype == "BYTES":
        return 0
    return 2 if datatype == "BF16" else np.dtype(DTYPES[datatype]).itemsize


# -- classification -----------------------------------------------------------------------------------------------------


def ranked(table: Any, best: int, labels: Sequence[str]) -> List[bytes]:
    """The strings of the `best` of each row of a 2-dimensional array, row after row; the lower index where values are equal."""
    texts = []  # type: List[bytes]
    for row in table:
        order = _best_of(row, best)
        for value, index in zip(row[order].tolist(), order.tolist()):
            label = ":" + labels[index] if index < len(labels) else ""
            texts.append(("%f:%d%s" % (value, index, label)).encode())
    return texts


def _best_of(row: Any, best: int) -> Any:
    if best >= row.size:
        return _descending(row)
    least = row.size - best
    # not less, instead of at least: NaN counts as the highest, as sorting has it
    chosen = np.flatnonzero(~(row < np.partition(row, least)[least]))
    return chosen[_descending(row[chosen])][:best]


def _descending(row: Any) -> Any:
    # a stable sort of the negated order would overflow unsigned types: sort the reversed row instead
    return (row.size - 1 - np.argsort(row[::-1], kind="stable"))[::-1]
