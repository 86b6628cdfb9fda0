"""Triton's Tensor and errors, for Python models."""

import numpy

from edge_agent.engine_host.tensors import NUMPY_TYPES

_DATATYPES = {dtype: name for name, dtype in NUMPY_TYPES.items() if dtype is not None and name != "BYTES"}


class TritonModelException(Exception):  # noqa: N818 - Triton's name
    """What a Python model raises when it cannot go on; also raised here for what is not possible."""


class TritonError:
    """An error as a value: its text and Triton's kind of it."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)
    _NAMES = (
        "UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED",
    )  # fmt: skip

    def __init__(self, message="", code=INTERNAL):
        self._message = message
        self._code = code

    def message(self):
        """Its text."""
        return self._message

    def code(self):
        """Its kind."""
        return self._code

    @property
    def status(self):
        """Its kind as a word."""
        return self._NAMES[self._code]

    @classmethod
    def of(cls, text, status):
        """The error of that word; INTERNAL where the word is another."""
        return cls(text, cls._NAMES.index(status) if status in cls._NAMES else cls.INTERNAL)

    def __str__(self):
        return self._message


class Tensor:
    """A named array."""

    def __init__(self, name, numpy_array):
        array = numpy.asarray(numpy_array)
        self._datatype = numpy_to_triton_type(array.dtype)
        self._name = name
        self._array = array

    def name(self):
        """Its name."""
        return self._name

    def as_numpy(self):
        """Its values; BYTES are an object array of bytes."""
        return self._array

    def triton_dtype(self):
        """KServe's name of its datatype."""
        return self._datatype

    def shape(self):
        """Its dimensions."""
        return list(self._array.shape)

    def is_cpu(self):
        """True: tensors come and go in the machine's memory."""
        return True

    def to_dlpack(self):
        """Refused, since the memory is shared with no other library here."""
        raise TritonModelException("tensor '%s': DLPack is not offered here; take as_numpy()" % self._name)

    @staticmethod
    def from_dlpack(name, tensor):
        """Refused likewise."""
        raise TritonModelException("tensor '%s': DLPack is not offered here; hand over a numpy array" % name)


def numpy_to_triton_type(dtype):
    """KServe's name for a type of numpy; TritonModelException where there is none."""
    dtype = numpy.dtype(dtype)
    if dtype.kind in "OSU":
        return "BYTES"
    name = _DATATYPES.get(dtype.newbyteorder("="))
    if name is None:
        raise TritonModelException("tensors of numpy's type %s cannot be passed on" % dtype)
    return name


def triton_to_numpy_type(name):
    """Numpy's type for KServe's name."""
    dtype = NUMPY_TYPES.get(name)
    if dtype is None:
        raise TritonModelException("numpy has no type for %s" % name)
    return dtype.type
