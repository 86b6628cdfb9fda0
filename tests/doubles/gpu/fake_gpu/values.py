"""Plain values: dimensions and memory of the host."""

from fake_gpu import native
from fake_gpu.generation import ENUMS


class Dims:
    """A shape; the library takes plain tuples for it too."""

    MAX_DIMS = 8

    def __init__(self, shape=()):
        self._dims = tuple(int(dim) for dim in shape)
        self._count = len(self._dims)

    @classmethod
    def _none(cls):
        """nbDims -1, the library's word for an error: `len` raises ValueError then, and iteration finds nothing."""
        made = cls()
        made._count = -1
        return made

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return self._dims[index]

    def __eq__(self, other):
        return isinstance(other, (Dims, tuple, list)) and self._dims == tuple(other)

    __hash__ = None

    def __repr__(self):
        return "(%s)" % ", ".join(str(dim) for dim in self._dims)

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
