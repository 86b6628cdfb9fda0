"""Plain values: dimensions and memory of the host."""

from fake_gpu import native
from fake_gpu.generation import ENUMS


class Dims(tuple):
    """A shape; the library takes plain tuples for it too."""

    MAX_DIMS = 8

    def __new__(cls, shape=()):
        return super().__new__(cls, [int(dim) for dim in shape])

    def __repr__(self):
        return "(%s)" % ", ".join(str(dim) for dim in self)

    __str__ = __repr__


def dims(function, shape):
    """Dims of what a caller gave; the TypeError of pybind11 for what is none."""
    try:
        return Dims(shape)
    except (TypeError, ValueError) as error:
        raise native.incompatible(function, shape) from error


class IHostMemory(bytes):
    """A buffer with two attributes: what else bytes can do, the real one cannot."""

    _ALLOWED = ("nbytes", "dtype")

    def __getattribute__(self, name):
        if not name.startswith("_") and name not in IHostMemory._ALLOWED:
            raise AttributeError("'tensorrt.tensorrt.IHostMemory' object has no attribute '%s'" % name)
        return bytes.__getattribute__(self, name)

    @property
    def nbytes(self):
        return bytes.__len__(self)

    @property
    def dtype(self):
        return ENUMS["DataType"].INT8

    def __len__(self):
        raise TypeError("object of type 'tensorrt.tensorrt.IHostMemory' has no len()")

    def __bool__(self):
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None
