"""A tensor of a plan, whichever API told of it."""

from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.tensors import NUMPY_TYPES, Spec


class PlanTensor:
    """An input or output of a plan; -1 in the shape is any size within the profiles."""

    __slots__ = ("name", "index", "is_input", "datatype", "dtype", "shape", "on_host")

    def __init__(self, name, index, is_input, datatype, shape, on_host=False):
        self.name = name
        self.index = index  #: within profile 0, for the binding API
        self.is_input = is_input
        self.datatype = datatype
        self.dtype = NUMPY_TYPES[datatype]
        self.shape = shape
        self.on_host = on_host  #: TensorRT reads its values on the CPU, since shapes depend on them

    def spec(self):
        """For the agent."""
        return Spec(self.name, self.datatype, self.shape)


def dims(theirs):
    """A shape as a tuple of Python's own ints; None where TensorRT has none, which it tells by -1 dimensions."""
    try:
        count = len(theirs)
    except ValueError:  # Python's own word for a length below 0
        return None
    return tuple(int(theirs[place]) for place in range(count))


def refuse_format(path, name, what):
    """Tensors are plain rows of numbers on the wire."""
    text = "%s: tensor '%s' has the format %s; build the plan with linear inputs and outputs (no --inputIOFormats)"
    raise LoadError(text % (path, name, getattr(what, "name", what)))
