"""What an enqueued engine does: reads its inputs at their addresses, computes by ONNX Runtime, writes its outputs."""

import ctypes
import time

import numpy

from fake_gpu import driver, faults, memory, onnx_session
from fake_gpu.datatypes import size
from fake_gpu.functions import nptype, volume

_SESSION_TYPES = {
    "tensor(float)": numpy.float32, "tensor(float16)": numpy.float16, "tensor(double)": numpy.float64,
    "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(int8)": numpy.int8, "tensor(uint8)": numpy.uint8,
    "tensor(bool)": numpy.bool_,
}  # fmt: skip
_INT8_STEPS = 127
_RUBBISH = 0xA5


class Failed(Exception):
    """A kernel that went wrong."""


class Executor:
    """One engine's computation; called from any thread."""

    def __init__(self, session, tensors, data_dependent, fields):
        self._session = session
        self._types = {onnx_session.name(value): _SESSION_TYPES[value.type] for value in session.get_inputs()}
        self._given = {onnx_session.name(value): value.name for value in session.get_inputs()}
        self._asked = {onnx_session.name(value): value.name for value in session.get_outputs()}
        self._inputs = [tensor for tensor in tensors if tensor.is_input]
        self.outputs = [tensor for tensor in tensors if not tensor.is_input]
        self.data_dependent = data_dependent
        self._precision = fields["precision"]
        self._quantized = fields.get("quantized", False)
        self._shapes = {}

    def output_shapes(self, shapes, values):
        """{output: shape} for the inputs' shapes and the values that say shapes; -1 where only the run tells.

        None where these do not go together.
        """
        key = (
            tuple(sorted((name, tuple(shape)) for name, shape in shapes.items())),
            tuple(sorted((name, array.tobytes()) for name, array in values.items())),
        )
        if key not in self._shapes:
            self._shapes[key] = self._infer(shapes, values)
        return self._shapes[key]

    def _infer(self, shapes, values):
        try:
            feeds = {name: numpy.zeros(shape, self._types[name]) for name, shape in shapes.items()}
            feeds.update({name: array.astype(self._types[name]) for name, array in values.items()})
            arrays = self._compute(feeds)
        except Failed:
            return None
        return {
            tensor.name: tuple(tensor.shape) if tensor.name in self.data_dependent or -1 not in tensor.shape else array.shape
            for tensor, array in zip(self.outputs, arrays)
        }

    def largest(self, name, shapes, values):
        """Bytes that an output cannot outgrow."""
        tensor = next(tensor for tensor in self.outputs if tensor.name == name)
        found = self.output_shapes(shapes, values)
        if found is None:
            return -1
        shape = found[name]
        most = max([volume(given) for given in shapes.values()] or [1])
        return size(tensor.dtype) * volume(most if dim < 0 else dim for dim in shape)

    def run(self, addresses, shapes, values):
        """The arrays of all outputs, as the engine would give them; `values` were read when it was enqueued."""
        faults.wait_for_gate("compute_gate")
        delay = faults.get("compute_ms", 0)
        if delay:
            time.sleep(delay / 1000.0)
        feeds = {}
        for tensor in self._inputs:
            name = tensor.name
            given = values[name] if name in values else read(addresses[name], shapes[name], tensor.dtype)
            feeds[name] = given.astype(self._types[name])
        return [self._finish(tensor, array) for tensor, array in zip(self.outputs, self._compute(feeds))]

    def _compute(self, feeds):
        try:
            asked = [self._asked[tensor.name] for tensor in self.outputs]
            return self._session.run(asked, {self._given[name]: array for name, array in feeds.items()})
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's classes have no common base
            raise Failed(str(error)) from error

    def _finish(self, tensor, array):
        """Rounded as the plan's precision would, wrong where the test wants it so."""
        array = numpy.asarray(array)
        if array.dtype in (numpy.float32, numpy.float64, numpy.float16):
            array = self._round(array)
            wrong = faults.get("wrong_outputs", 0)
            if wrong:
                array = array + numpy.asarray(wrong, array.dtype)
        return _narrow(array) if tensor.dtype.name == "BF16" else numpy.ascontiguousarray(array.astype(nptype(tensor.dtype)))

    def _round(self, array):
        if self._precision == "fp16" or (self._precision == "int8" and self._quantized):
            with numpy.errstate(over="ignore"):
                return array.astype(numpy.float16).astype(array.dtype)
        largest = float(numpy.max(numpy.abs(array))) if self._precision == "int8" and array.size else 0.0
        if largest and numpy.isfinite(largest):
            step = largest / _INT8_STEPS
            return (numpy.round(array / step) * step).astype(array.dtype)
        return array


def read(address, shape, kind, on_host=False):
    """A copy of what lies at an address; BF16 as float32."""
    count = volume(shape) * size(kind)
    if not on_host and not memory.valid(address, count):
        raise Failed("read of %d bytes at %#x" % (count, address))
    data = ctypes.string_at(address, count)
    if kind.name == "BF16":
        return (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32).reshape(tuple(shape))
    return numpy.frombuffer(data, nptype(kind)).reshape(tuple(shape))


def _narrow(array):
    """float32 as BF16, rounded to the nearest even."""
    bits = numpy.ascontiguousarray(array, numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16).reshape(array.shape)


def write(address, array):
    """Puts an array at an address."""
    if not memory.valid(address, array.nbytes):
        raise Failed("write of %d bytes at %#x" % (array.nbytes, address))
    if array.nbytes:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)


def run_and_write(executor, addresses, shapes, values, stale=lambda: False):
    """The job of a stream: an error in it breaks the context down. What is stale writes numbers that nobody takes for right."""
    if driver.state.sticky:
        return
    try:
        arrays = executor.run(addresses, shapes, values)
        for tensor, array in zip(executor.outputs, arrays):
            write(addresses[tensor.name], numpy.full(array.nbytes, _RUBBISH, numpy.uint8) if stale() else array)
    except Failed:
        driver.break_down()
