"""What an enqueued engine does: reads its inputs at their addresses, computes by ONNX Runtime, writes its outputs."""

import ctypes
import time

import numpy

from fake_gpu import driver, faults, memory
from fake_gpu.datatypes import size
from fake_gpu.functions import nptype, volume

_SESSION_TYPES = {
    "tensor(float)": numpy.float32, "tensor(float16)": numpy.float16, "tensor(double)": numpy.float64,
    "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(int8)": numpy.int8, "tensor(uint8)": numpy.uint8,
    "tensor(bool)": numpy.bool_,
}  # fmt: skip
_INT8_STEPS = 127


class Failed(Exception):
    """A kernel that went wrong."""


class Executor:
    """One engine's computation; called from any thread."""

    def __init__(self, session, tensors, data_dependent, fields):
        self._session = session
        self._types = {value.name: _SESSION_TYPES[value.type] for value in session.get_inputs()}
        self._inputs = [tensor for tensor in tensors if tensor.is_input]
        self.outputs = [tensor for tensor in tensors if not tensor.is_input]
        self.data_dependent = data_dependent
        self._precision = fields["precision"]
        self._quantized = fields.get("quantized", False)
        self._shapes = {}

    def output_shapes(self, shapes):
        """{output: shape} for the inputs' shapes; -1 where only values tell."""
        key = tuple(sorted((name, tuple(shape)) for name, shape in shapes.items()))
        if key not in self._shapes:
            self._shapes[key] = self._infer(shapes)
        return self._shapes[key]

    def _infer(self, shapes):
        if all(-1 not in tensor.shape for tensor in self.outputs):
            return {tensor.name: tuple(tensor.shape) for tensor in self.outputs}
        try:
            arrays = self._compute({name: numpy.zeros(shape, self._types[name]) for name, shape in shapes.items()})
        except Failed:
            return {tensor.name: tuple(tensor.shape) for tensor in self.outputs}
        return {
            tensor.name: tuple(tensor.shape) if tensor.name in self.data_dependent else array.shape
            for tensor, array in zip(self.outputs, arrays)
        }

    def largest(self, name, shapes):
        """Bytes that an output cannot outgrow."""
        tensor = next(tensor for tensor in self.outputs if tensor.name == name)
        shape = self.output_shapes(shapes)[name]
        most = max([volume(given) for given in shapes.values()] or [1])
        return size(tensor.dtype) * volume(most if dim < 0 else dim for dim in shape)

    def run(self, addresses, shapes):
        """The arrays of all outputs, as the engine would give them."""
        faults.wait_for_gate("compute_gate")
        delay = faults.get("compute_ms", 0)
        if delay:
            time.sleep(delay / 1000.0)
        feeds = {}
        for tensor in self._inputs:
            name = tensor.name
            given = read(addresses[name], shapes[name], nptype(tensor.dtype))
            feeds[name] = given.astype(self._types[name])
        return [self._finish(tensor, array) for tensor, array in zip(self.outputs, self._compute(feeds))]

    def _compute(self, feeds):
        try:
            return self._session.run([tensor.name for tensor in self.outputs], feeds)
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
        return numpy.ascontiguousarray(array.astype(nptype(tensor.dtype)))

    def _round(self, array):
        if self._precision == "fp16" or (self._precision == "int8" and self._quantized):
            with numpy.errstate(over="ignore"):
                return array.astype(numpy.float16).astype(array.dtype)
        largest = float(numpy.max(numpy.abs(array))) if self._precision == "int8" and array.size else 0.0
        if largest and numpy.isfinite(largest):
            step = largest / _INT8_STEPS
            return (numpy.round(array / step) * step).astype(array.dtype)
        return array


def read(address, shape, dtype):
    """A copy of what lies at an address."""
    count = volume(shape) * numpy.dtype(dtype).itemsize
    if not memory.valid(address, count):
        raise Failed("read of %d bytes at %#x" % (count, address))
    return numpy.frombuffer(ctypes.string_at(address, count), dtype).reshape(tuple(shape))


def write(address, array):
    """Puts an array at an address."""
    if not memory.valid(address, array.nbytes):
        raise Failed("write of %d bytes at %#x" % (array.nbytes, address))
    if array.nbytes:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)


def run_and_write(executor, addresses, shapes):
    """The job of a stream: an error in it breaks the context down."""
    if driver.state.sticky:
        return
    try:
        for tensor, array in zip(executor.outputs, executor.run(addresses, shapes)):
            write(addresses[tensor.name], array)
    except Failed:
        driver.break_down()
