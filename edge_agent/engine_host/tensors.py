"""Tensors between the wire's bytes and numpy's arrays."""

import struct

import numpy

from edge_agent.engine_host import wire

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

#: numpy's type of each datatype; None where there is none. BYTES are object arrays of str, or of bytes.
NUMPY_TYPES = {
    "BOOL": numpy.dtype(numpy.bool_),
    "UINT8": numpy.dtype(numpy.uint8),
    "UINT16": numpy.dtype(numpy.uint16),
    "UINT32": numpy.dtype(numpy.uint32),
    "UINT64": numpy.dtype(numpy.uint64),
    "INT8": numpy.dtype(numpy.int8),
    "INT16": numpy.dtype(numpy.int16),
    "INT32": numpy.dtype(numpy.int32),
    "INT64": numpy.dtype(numpy.int64),
    "FP16": numpy.dtype(numpy.float16),
    "FP32": numpy.dtype(numpy.float32),
    "FP64": numpy.dtype(numpy.float64),
    "BF16": None if ml_dtypes is None else numpy.dtype(ml_dtypes.bfloat16),
    "BYTES": numpy.dtype(object),
}
BYTES_CODE = wire.DATATYPE_CODES["BYTES"]
_BY_CODE = [NUMPY_TYPES[name] for name in wire.DATATYPES]
_LENGTH = struct.Struct("<I")
_LENGTH_TYPE = numpy.dtype("<u4")


class Spec:
    """A tensor that a model takes or gives; -1 in the shape is any size, the batch dimension included."""

    __slots__ = ("name", "datatype", "shape")

    def __init__(self, name, datatype, shape):
        self.name = name
        self.datatype = datatype
        self.shape = tuple(shape)

    def as_json(self):
        """The spec as a `load` reply holds it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def differs(self, datatype_code, shape):
        """Why a tensor of this type and shape is not one of these; empty when it is."""
        if wire.DATATYPES[datatype_code] != self.datatype:
            return "input '%s' is %s, not %s" % (self.name, self.datatype, wire.DATATYPES[datatype_code])
        if len(shape) != len(self.shape) or any(want not in (-1, dim) for want, dim in zip(self.shape, shape)):
            return "input '%s' has shape %s, not %s" % (self.name, list(self.shape), list(shape))
        return ""


def from_wire(view, datatype_code, shape, text=True):
    """An array over the bytes of `view`: no copy, unless they lie misaligned. WireError when they do not fit the shape."""
    if datatype_code == BYTES_CODE:
        return _unpack_strings(view, shape, text)
    dtype = _BY_CODE[datatype_code]
    if dtype is None:
        text = "%s tensors need the package ml_dtypes beside the engine: install it there"
        raise wire.WireError(text % wire.DATATYPES[datatype_code])
    count = _count(shape)
    if count * dtype.itemsize != len(view):
        raise wire.WireError("%d bytes for shape %s of %s" % (len(view), list(shape), wire.DATATYPES[datatype_code]))
    if count == 0:
        return numpy.zeros(shape, dtype)
    array = numpy.frombuffer(view, dtype).reshape(shape)
    return array if array.flags.aligned else array.copy()


def to_wire(array, datatype):
    """The bytes of an array as a flat uint8 array: a view where it is contiguous already."""
    if datatype == "BYTES":
        packed = _pack_strings(array)
        return numpy.frombuffer(packed, numpy.uint8) if packed else numpy.empty(0, numpy.uint8)
    wanted = NUMPY_TYPES[datatype]
    return numpy.ascontiguousarray(array, wanted).reshape(-1).view(numpy.uint8)


def _count(shape):
    count = 1
    for dim in shape:
        if dim < 0:
            raise wire.WireError("shape %s has a negative size" % list(shape))
        count *= dim
    return count


def _unpack_strings(view, shape, text):
    count = _count(shape)
    if count * _LENGTH.size > len(view):
        raise wire.WireError("%d bytes cannot hold %d strings" % (len(view), count))
    parts = _equal_strings(view, count) if count else []
    if parts is None:
        parts = _strings_one_by_one(view, count)
    if count == 0 and len(view):
        raise wire.WireError("%d bytes follow the last string" % len(view))
    strings = numpy.empty(count, object)
    try:
        strings[:] = [part.decode("utf-8") for part in parts] if text else parts
    except UnicodeDecodeError as error:
        raise wire.WireError("a string is not UTF-8, and the engine takes no other") from error
    return strings.reshape(shape)


def _equal_strings(view, count):
    """The strings when all are as long as the first, else None: one comparison instead of a step for each."""
    (length,) = _LENGTH.unpack_from(view, 0)
    step = _LENGTH.size + length
    if count * step != len(view):
        return None
    rows = numpy.frombuffer(view, numpy.uint8).reshape(count, step)
    lengths = numpy.ascontiguousarray(rows[:, : _LENGTH.size]).view(_LENGTH_TYPE)
    if (lengths != length).any():
        return None
    body = rows[:, _LENGTH.size :].tobytes()
    return [body[at : at + length] for at in range(0, len(body), length)] if length else [b""] * count


def _strings_one_by_one(view, count):
    data = bytes(view)
    parts = []
    at = 0
    for _ in range(count):
        if at + _LENGTH.size > len(data):
            raise wire.WireError("the bytes end within the length of string %d of %d" % (len(parts), count))
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise wire.WireError("string %d of %d is %d bytes long, past the end" % (len(parts), count, length))
        parts.append(data[at : at + length])
        at += length
    if at != len(data):
        raise wire.WireError("%d bytes follow the last string" % (len(data) - at))
    return parts


def _pack_strings(array):
    parts = []
    for item in array.reshape(-1).tolist():
        data = item if isinstance(item, bytes) else str(item).encode("utf-8")
        parts.append(_LENGTH.pack(len(data)))
        parts.append(data)
    return b"".join(parts)
