"""Engines: the binding API up to 8.6 and the IO tensors from 8.5 on, over one list of tensors."""

import threading

from fake_gpu import driver, logger, native, onnx_file, onnx_session
from fake_gpu.context import IExecutionContext
from fake_gpu.datatypes import carried, size
from fake_gpu.execution import Executor
from fake_gpu.generation import enum, has
from fake_gpu.values import Dims, IHostMemory


class _Tensor:
    def __init__(self, name, is_input, dtype, shape, says_shape=False):
        self.name, self.is_input, self.dtype, self.shape = name, is_input, dtype, Dims(shape)
        self.says_shape = says_shape


class ICudaEngine(native.Native):
    """Shared by its contexts."""

    name = native.Attribute("Unnamed Network 0")
    refittable = native.Attribute(False)
    max_batch_size = native.Attribute(1)
    has_implicit_batch_dimension = native.Attribute(False)
    device_memory_size = native.Attribute(0)
    device_memory_size_v2 = native.Attribute(0)
    num_aux_streams = native.Attribute(0)

    def __init__(self, fields=None, onnx=b"", data=b""):
        model = onnx_file.Model(onnx)
        session = onnx_session.open_session(model.runnable())
        self._fields, self._data = fields, data
        self._tensors = _tensors(model.inputs, session.get_inputs(), True, model.shape_inputs())
        self._tensors += _tensors(model.outputs, session.get_outputs(), False)
        self._by_name = {tensor.name: tensor for tensor in self._tensors}
        self._profiles = fields["profiles"]
        self._layers = len(model.nodes)
        self._executor = Executor(session, self._tensors, model.data_dependent(), fields)
        self._lock = threading.Lock()
        self._taken = {}  # profile: contexts that use it
        self._was_asked = False  # for a context

    @property
    def num_layers(self):
        return self._layers

    @property
    def num_optimization_profiles(self):
        return len(self._profiles)

    def serialize(self):
        return IHostMemory(self._data)

    if has("ExecutionContextAllocationStrategy"):

        def create_execution_context(self, strategy=None):
            return self._context()

    else:

        def create_execution_context(self):
            return self._context()

    def create_execution_context_without_device_memory(self):
        return self._context()

    def _context(self):
        if driver.state.sticky:
            logger.error("Error Code 1: Cuda Runtime (%s)" % driver.WORDS[driver.state.sticky])
            return None
        return IExecutionContext(self)

    # IO tensors

    @property
    def num_io_tensors(self):
        return len(self._tensors)

    def get_tensor_name(self, index):
        return self._tensors[index].name

    def get_tensor_mode(self, name):
        modes, tensor = enum("TensorIOMode"), self._by_name.get(name)
        if tensor is None:
            return modes.NONE
        return modes.INPUT if tensor.is_input else modes.OUTPUT

    def get_tensor_shape(self, name):
        return self._by_name[name].shape if name in self._by_name else Dims(())

    def get_tensor_dtype(self, name):
        return self._by_name[name].dtype

    def get_tensor_location(self, name):
        return enum("TensorLocation").HOST if self._by_name[name].says_shape else enum("TensorLocation").DEVICE

    def get_tensor_format(self, name, profile_index=0):
        return enum("TensorFormat").LINEAR

    def get_tensor_bytes_per_component(self, name, profile_index=0):
        return size(self._by_name[name].dtype)

    def get_tensor_profile_shape(self, name, profile_index):
        return self._profile_shape(self._by_name.get(name), profile_index)

    def get_tensor_profile_values(self, name, profile_index):
        tensor = self._by_name.get(name)
        if tensor is None or not tensor.says_shape:
            raise RuntimeError("Binding index does not correspond to an input shape tensor.")
        return [list(values) for values in self._fields["values"][profile_index][name]]

    def is_shape_inference_io(self, name):
        return self._by_name[name].says_shape

    def _profile_shape(self, tensor, profile_index):
        if tensor is None or not tensor.is_input or not 0 <= profile_index < len(self._profiles):
            logger.error("Error Code 3: API Usage Error (no such input or profile)")
            return []
        return [Dims(shape) for shape in self._profiles[profile_index][tensor.name]]

    # Bindings: each profile has all tensors once more

    @property
    def num_bindings(self):
        return len(self._tensors) * len(self._profiles)

    def __len__(self):
        return len(self._tensors) * len(self._profiles)

    def __getitem__(self, index):
        if isinstance(index, str):
            return self._index(index)
        count = len(self._tensors) * len(self._profiles)
        index = index + count if index < 0 else index
        if not 0 <= index < count:
            raise IndexError("Out of bounds")
        return self._binding_name(index)

    def get_binding_name(self, index):
        return self._binding_name(index)

    def _binding_name(self, index):
        profile, place = divmod(index, len(self._tensors))
        name = self._tensors[place].name
        return "%s [profile %d]" % (name, profile) if profile else name

    def get_binding_index(self, name):
        return self._index(name)

    def _index(self, name):
        for index in range(len(self._tensors) * len(self._profiles)):
            if self._binding_name(index) == name:
                return index
        return -1

    def _binding(self, index):
        index = self._index(index) if isinstance(index, str) else index
        return self._tensors[index % len(self._tensors)]

    def binding_is_input(self, index):
        return self._binding(index).is_input

    def get_binding_shape(self, index):
        return self._binding(index).shape

    def get_binding_dtype(self, index):
        return self._binding(index).dtype

    def get_binding_format(self, index):
        return enum("TensorFormat").LINEAR

    def get_location(self, index):
        return enum("TensorLocation").HOST if self._binding(index).says_shape else enum("TensorLocation").DEVICE

    def get_binding_bytes_per_component(self, index):
        return size(self._binding(index).dtype)

    def is_shape_binding(self, binding):
        return self._binding(binding).says_shape

    def is_execution_binding(self, binding):
        return True

    def get_profile_shape(self, profile_index, binding):
        shapes = self._profile_shape(self._binding(binding), profile_index)
        if not shapes:
            raise ValueError("get_profile_shape: the binding is no input, or there is no such profile")
        return shapes

    def _gives_profile(self):
        """Whether a new context has profile 0 by itself: all where nothing moves, else only the first one."""
        moves = any(-1 in tensor.shape or tensor.says_shape for tensor in self._tensors if tensor.is_input)
        first, self._was_asked = not self._was_asked, True
        return first or not moves

    # Profiles in use: before 10 each context needs one of its own where shapes are dynamic

    def _take_profile(self, profile, leave):
        with self._lock:
            exclusive = not self._fields["shared_profiles"] and any(-1 in tensor.shape for tensor in self._tensors)
            if exclusive and profile != leave and self._taken.get(profile):
                return False
            if leave is not None:
                self._taken[leave] -= 1
            if profile is not None:
                self._taken[profile] = self._taken.get(profile, 0) + 1
            return True


def _tensors(values, session_values, is_input, says_shape=()):
    shapes = {onnx_session.name(value): onnx_session.shape(value) for value in session_values}
    return [
        _Tensor(name, is_input, carried(kind), shapes.get(name, shape or ()), name in says_shape)
        for name, kind, shape in values
    ]
