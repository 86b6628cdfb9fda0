"""TensorRT 8.5 and later: tensors are called by their names."""

from edge_agent.engine_host.trt.datatypes import datatype_of
from edge_agent.engine_host.trt.profiles import Profile
from edge_agent.engine_host.trt.tensor import PlanTensor, dims, refuse_format


def describe(trt, engine, path):
    """The plan's tensors, in its order."""
    found = []
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        laid = engine.get_tensor_format(name)
        if laid != trt.TensorFormat.LINEAR:
            refuse_format(path, name, laid)
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        datatype = datatype_of(trt, path, name, engine.get_tensor_dtype(name))
        on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
        found.append(PlanTensor(name, index, is_input, datatype, dims(engine.get_tensor_shape(name)), on_host))
    return found


def profiles(engine, tensors):
    """The plan's profiles. What an input that TensorRT reads on the CPU may hold, no profile of shapes tells."""
    inputs = [tensor for tensor in tensors if tensor.is_input]
    return [
        Profile(
            index,
            {
                tensor.name: (tensor.shape,) * 3
                if tensor.on_host
                else tuple(dims(shape) for shape in engine.get_tensor_profile_shape(tensor.name, index))
                for tensor in inputs
            },
        )
        for index in range(engine.num_optimization_profiles)
    ]


class Context:
    """One execution context; each answer False is the library's refusal, told to its logger."""

    allocates = True  #: takes memory for outputs whose size only the run tells

    def __init__(self, context, tensors, profiles_n):
        self._context = context

    def set_profile(self, index, stream):
        """Chooses the profile for what follows."""
        return bool(self._context.set_optimization_profile_async(index, stream))

    def set_shape(self, tensor, shape):
        """Tells the size of an input."""
        return bool(self._context.set_input_shape(tensor.name, shape))

    def all_told(self):
        """Whether the sizes of all inputs are."""
        return bool(self._context.all_binding_shapes_specified)

    def missing(self):
        """Names of inputs whose values are not told yet. RuntimeError where sizes and values do not go together.

        Not to be asked where `shape_of` is None: TensorRT 8.5 raises without the interpreter's lock, which ends the process.
        """
        return [str(name) for name in self._context.infer_shapes()]

    def shape_of(self, tensor):
        """The size of an output; -1 where only the run will tell, None where those of the inputs do not go together."""
        return dims(self._context.get_tensor_shape(tensor.name))

    def set_address(self, tensor, pointer):
        """Where the tensor lies."""
        return bool(self._context.set_tensor_address(tensor.name, pointer))

    def set_allocator(self, tensor, allocator):
        """Who gives memory for an output."""
        return bool(self._context.set_output_allocator(tensor.name, allocator))

    def enqueue(self, stream):
        """Starts a run on the stream."""
        return bool(self._context.execute_async_v3(stream_handle=stream))

    def close(self):
        """Lets go of the context."""
        self._context = None
