"""Execution contexts: shapes and addresses for one enqueue, by bindings up to 8.6, by names from 8.5 on."""

import numpy

from fake_gpu import driver, execution, faults, functions, logger, native, settings, streams
from fake_gpu.generation import has
from fake_gpu.told import Told
from fake_gpu.values import Dims, dims

_ALIGNMENT = 256
_NO_PROFILE = "Error in set optimization profile async."  # no False, unlike all else
_BAD_CALL = "Error Code 3: API Usage Error (%s)"


class IExecutionContext(native.Native):
    """Not for several threads at a time, as the real one."""

    name = native.Attribute("")
    debug_sync = native.Attribute(False)
    enqueue_emits_profile = native.Attribute(True)
    profiler = native.Attribute()
    nvtx_verbosity = native.Attribute()
    persistent_cache_limit = native.Attribute(0)
    device_memory = native.Attribute(0)

    def __init__(self, engine=None):
        self._engine = engine
        self._shapes = {}
        self._said = {}  # values of shape inputs, by the binding API
        self._addresses = {}
        self._allocators = {}
        self._profile = None
        self._told = Told()
        if engine._gives_profile() and engine._take_profile(0, None):
            self._profile = 0
        self._forget_shapes()

    def __del__(self):
        engine = getattr(self, "_engine", None)
        if engine is not None:
            self._told.change()
        if engine is not None and self._profile is not None:
            engine._take_profile(None, self._profile)
            self._profile = None
        super().__del__()

    @property
    def engine(self):
        return self._engine

    @property
    def active_optimization_profile(self):
        return -1 if self._profile is None else self._profile

    def _forget_shapes(self):
        tensors = self._engine._tensors
        self._shapes = {tensor.name: tensor.shape for tensor in tensors if tensor.is_input and -1 not in tensor.shape}

    def set_optimization_profile_async(self, profile_index, stream_handle):
        if not 0 <= profile_index < len(self._engine._profiles):
            _refuse("there is no optimization profile %d" % profile_index)
            raise RuntimeError(_NO_PROFILE)
        if not self._engine._take_profile(profile_index, self._profile):
            _refuse("profile %d is used by another context" % profile_index)
            raise RuntimeError(_NO_PROFILE)
        self._profile = profile_index
        self._told.change()
        self._forget_shapes()
        return True

    def _set_shape(self, tensor, shape):
        if tensor is None or not tensor.is_input:
            return _refuse("there is no such input")
        if self._profile is None:
            return _refuse("no optimization profile was chosen")
        low, _, high = self._engine._profiles[self._profile][tensor.name]
        if len(shape) != len(low) or any(not a <= b <= c for a, b, c in zip(low, shape, high)):
            text = "set shape of '%s': %s is not in the range of profile %d, %s to %s"
            return _refuse(text % (tensor.name, shape, self._profile, tuple(low), tuple(high)))
        if self._shapes.get(tensor.name) != shape:
            self._told.change()
        self._shapes[tensor.name] = shape
        return True

    def _missing(self):
        inputs = [tensor for tensor in self._engine._tensors if tensor.is_input]
        known = self._values()
        return [
            tensor.name
            for tensor in inputs
            if tensor.name not in self._shapes or (tensor.says_shape and tensor.name not in known)
        ]

    def _values(self):
        """What lies now at the host addresses of inputs that say shapes, or was told by set_shape_input."""
        found = {}
        for tensor in self._engine._tensors:
            if not tensor.says_shape or tensor.name not in self._shapes:
                continue
            if tensor.name in self._said:
                found[tensor.name] = self._said[tensor.name]
            elif self._addresses.get(tensor.name):
                address = self._addresses[tensor.name]
                found[tensor.name] = execution.read(address, self._shapes[tensor.name], tensor.dtype, on_host=True)
        return found

    def set_shape_input(self, binding, shape):
        tensor = self._engine._binding(binding)
        if not tensor.says_shape:
            return _refuse("binding %d is no shape" % binding)
        self._said[tensor.name] = numpy.array(list(shape), functions.nptype(tensor.dtype))
        return True

    def _out_of_range(self, values):
        """The first input whose values the profile does not allow."""
        for name, array in values.items():
            low, _, high = self._engine._fields["values"][self._profile][name]
            if any(not a <= b <= c for a, b, c in zip(low, array.ravel(), high)):
                return name
        return None

    def _shape(self, tensor):
        if tensor.is_input:
            return Dims(self._shapes.get(tensor.name, tensor.shape))
        if self._missing() or -1 not in tensor.shape:
            return tensor.shape
        found = self._output_shapes()
        return Dims._none() if found is None else Dims(found[tensor.name])

    def _output_shapes(self):
        """None, and a line in the log, where the inputs' shapes do not go together."""
        found = self._engine._executor.output_shapes(self._shapes, self._values())
        if found is None:
            logger.error("Error Code 4: Shape Error (condition '==' violated: dimensions of the inputs do not go together)")
        return found

    # IO tensors

    def set_input_shape(self, name, shape):
        return self._set_shape(self._engine._by_name.get(name), dims("set_input_shape", shape))

    def get_tensor_shape(self, name):
        tensor = self._engine._by_name.get(name)
        return Dims(()) if tensor is None else self._shape(tensor)

    def infer_shapes(self):
        missing = self._missing()
        if missing or self._output_shapes() is not None:
            return missing
        if settings.VERSION.startswith("8.5"):
            faults.crash()  # it raises without the GIL
        raise RuntimeError("infer_shapes error code: -1")

    def set_tensor_address(self, name, memory):
        if name not in self._engine._by_name:
            return _refuse("there is no tensor '%s'" % name)
        self._addresses[name] = int(memory)
        return True

    def get_tensor_address(self, name):
        return self._addresses.get(name, 0)

    def get_max_output_size(self, name):
        return -1 if self._missing() else self._engine._executor.largest(name, self._shapes, self._values())

    def set_output_allocator(self, name, output_allocator):
        if name not in self._engine._by_name or self._engine._by_name[name].is_input:
            return _refuse("there is no output '%s'" % name)
        self._allocators[name] = output_allocator
        return True

    def get_output_allocator(self, name):
        return self._allocators.get(name)

    def execute_async_v3(self, stream_handle):
        return self._execute(dict(self._addresses), stream_handle, self._allocators)

    # Bindings

    def set_binding_shape(self, binding, shape):
        count = len(self._engine._tensors)
        if self._profile is not None and binding // count != self._profile:
            return _refuse("binding %d is not of profile %d" % (binding, self._profile))
        return self._set_shape(self._engine._tensors[binding % count], dims("set_binding_shape", shape))

    def get_binding_shape(self, binding):
        return self._shape(self._engine._binding(binding))

    @property
    def all_binding_shapes_specified(self):
        return not self._missing()

    @property
    def all_shape_inputs_specified(self):
        return True

    def execute_async_v2(self, bindings, stream_handle, input_consumed=None):
        return self._execute_bindings(bindings, stream_handle)

    def execute_v2(self, bindings):
        return self._execute_bindings(bindings, 0)

    def _execute_bindings(self, bindings, stream_handle):
        tensors = self._engine._tensors
        first = (self._profile or 0) * len(tensors)
        given = [int(pointer) for pointer in bindings][first : first + len(tensors)]
        if len(given) < len(tensors):
            return _refuse(
                "%d bindings were given, profile %d needs %d" % (len(bindings), self._profile or 0, first + len(tensors))
            )
        return self._execute({tensor.name: pointer for tensor, pointer in zip(tensors, given)}, stream_handle, {})

    # Both

    def _execute(self, addresses, stream_handle, allocators):
        fault = faults.get("enqueue")
        if fault == "false":
            return _refuse("enqueue was told to fail")
        if fault == "hang_gil":
            faults.hang_with_gil()
        executor = self._engine._executor
        if self._profile is None or self._missing():
            return _refuse("the shapes of inputs %s are not set" % ", ".join(self._missing()))
        lacking = [tensor.name for tensor in self._engine._tensors if not addresses.get(tensor.name)]
        if [name for name in lacking if allocators.get(name) is None]:
            return _refuse("tensors without an address: %s" % ", ".join(lacking))
        if driver.state.sticky:
            return _refuse("Cuda Runtime (%s)" % driver.WORDS[driver.state.sticky])
        shapes, values = dict(self._shapes), self._values()
        if self._out_of_range(values):
            return _refuse("the values of shape input '%s' are not in the profile's range" % self._out_of_range(values))
        if self._output_shapes() is None:
            return False
        if fault in ("hang", "error"):
            return self._go_wrong(fault, stream_handle)
        if any(allocators.get(tensor.name) for tensor in executor.outputs):
            return self._run_with_allocators(addresses, (shapes, values), stream_handle, dict(allocators))
        stale = lambda: False  # noqa: E731 - one of two functions
        if self._captured(stream_handle):
            if self._told.dirty:
                return _refuse("a recording before a plain run with the present shapes and profile")
            stale = self._told.staleness()
        self._told.dirty = False
        streams.run(stream_handle, lambda: execution.run_and_write(executor, addresses, shapes, values, stale))
        return True

    @staticmethod
    def _captured(stream_handle):
        work = streams.find(stream_handle)
        return work is not None and work.capturing

    @staticmethod
    def _go_wrong(fault, stream_handle):
        if fault == "error" and streams.find(stream_handle) is None:
            return _refuse("Cuda Runtime (an illegal memory access was encountered)")
        streams.run(stream_handle, faults.hang if fault == "hang" else driver.break_down)
        return True

    def _run_with_allocators(self, addresses, told, stream_handle, allocators):
        """Sizes are known when the values are, so the caller's thread waits for them, as in the real library."""
        work = streams.find(stream_handle)
        if work is not None:
            if work.capturing:
                return _refuse("Cuda Runtime (operation not permitted when stream is capturing)")
            work.mark().wait()
        executor = self._engine._executor
        try:
            arrays = executor.run(addresses, *told)
            for tensor, array in zip(executor.outputs, arrays):
                allocator, address = allocators.get(tensor.name), addresses.get(tensor.name, 0)
                if allocator is not None:
                    address = _reallocate(allocator, tensor.name, address, array.nbytes, stream_handle)
                    if not address:
                        return _refuse("the output allocator of '%s' gave no memory" % tensor.name)
                    allocator.notify_shape(tensor.name, Dims(array.shape))
                execution.write(address, array)
        except execution.Failed:
            driver.break_down()
        return True


def _refuse(text):
    logger.error(_BAD_CALL % text)
    return False


def _reallocate(allocator, name, address, count, stream_handle):
    if has("IProgressMonitor") and hasattr(allocator, "reallocate_output_async"):
        return allocator.reallocate_output_async(name, address, count, _ALIGNMENT, stream_handle)
    return allocator.reallocate_output(name, address, count, _ALIGNMENT)
