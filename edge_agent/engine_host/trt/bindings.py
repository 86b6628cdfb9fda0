"""TensorRT up to 8.4: tensors are numbered bindings, and with P profiles each tensor has P numbers."""

from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.trt.datatypes import datatype_of
from edge_agent.engine_host.trt.profiles import Profile
from edge_agent.engine_host.trt.tensor import PlanTensor, dims, refuse_format


def describe(trt, engine, path):
    """The plan's tensors, in its order: the bindings of profile 0."""
    found = []
    for index in range(engine.num_bindings // max(1, engine.num_optimization_profiles)):
        name = engine.get_binding_name(index)
        laid = engine.get_binding_format(index)
        if laid != trt.TensorFormat.LINEAR:
            refuse_format(path, name, laid)
        is_input = bool(engine.binding_is_input(index))
        if is_input and engine.is_shape_binding(index):
            text = "%s: input '%s' decides about shapes, which needs TensorRT 8.5 or later; make those sizes constants"
            raise LoadError(text % (path, name))
        datatype = datatype_of(trt, path, name, engine.get_binding_dtype(index))
        found.append(PlanTensor(name, index, is_input, datatype, dims(engine.get_binding_shape(index))))
    return found


def profiles(engine, tensors):
    """The plan's profiles."""
    inputs = [tensor for tensor in tensors if tensor.is_input]
    return [
        Profile(
            index,
            {tensor.name: tuple(dims(shape) for shape in engine.get_profile_shape(index, tensor.index)) for tensor in inputs},
        )
        for index in range(engine.num_optimization_profiles)
    ]


class Context:
    """One execution context; each answer False is the library's refusal, told to its logger."""

    allocates = False

    def __init__(self, context, tensors, profiles_n):
        self._context = context
        self._tensors_n = len(tensors)
        self._pointers = [0] * (len(tensors) * max(1, profiles_n))
        self._first = 0  # the number of the present profile's first binding

    def set_profile(self, index, stream):
        """Chooses the profile for what follows: its own bindings count from now on."""
        if not self._context.set_optimization_profile_async(index, stream):
            return False
        for number in range(self._tensors_n):
            self._pointers[self._first + number] = 0
        self._first = index * self._tensors_n
        return True

    def set_shape(self, tensor, shape):
        """Tells the size of an input."""
        return bool(self._context.set_binding_shape(self._first + tensor.index, shape))

    def all_told(self):
        """Whether the sizes of all inputs are."""
        return bool(self._context.all_binding_shapes_specified)

    def shape_of(self, tensor):
        """The size of an output; None where those of the inputs do not go together."""
        return dims(self._context.get_binding_shape(self._first + tensor.index))

    def set_address(self, tensor, pointer):
        """Where the tensor lies."""
        self._pointers[self._first + tensor.index] = pointer
        return True

    def enqueue(self, stream):
        """Starts a run on the stream."""
        return bool(self._context.execute_async_v2(bindings=list(self._pointers), stream_handle=stream))

    def close(self):
        """Lets go of the context."""
        self._context = None
