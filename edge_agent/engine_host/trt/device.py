"""The one GPU of a host: its primary context, which TensorRT uses too, and what it can do."""

import threading

from edge_agent.engine_host.trt.failures import end_process

_ZERO_COPY_FROM = (7, 2)  # from here on page-locked memory is cached by the CPU, too: Xavier, Orin, Thor
_FAST_FP16_ALSO = ((5, 3), (6, 0), (6, 2))  # and all from 7.0 on; 6.1 has it, but slow
_FAST_INT8_ALSO = ((6, 1),)
_BF16_FROM = (8, 0)


def fast_fp16(capability):
    """Whether half precision is fast on a GPU of this compute capability."""
    return capability >= (7, 0) or capability in _FAST_FP16_ALSO


def fast_int8(capability):
    """The same for eight bits: not on a Nano (5.3) or TX2 (6.2)."""
    return capability >= (7, 0) or capability in _FAST_INT8_ALSO


def has_bf16(capability):
    """Whether it computes in bfloat16."""
    return capability >= _BF16_FROM


class Device:
    """The GPU through PyCUDA. `cuda` is pycuda.driver; its primary context is retained with the first `enter`."""

    def __init__(self, cuda, number=0):
        self.cuda = cuda
        self._device = cuda.Device(number)
        self._context = None
        self._lock = threading.Lock()
        self.name = str(self._device.name())
        self.capability = tuple(int(part) for part in self._device.compute_capability())
        attribute = cuda.device_attribute
        self.multiprocessors = int(self._device.get_attribute(attribute.MULTIPROCESSOR_COUNT))
        self.integrated = bool(self._device.get_attribute(attribute.INTEGRATED))
        self.memory_bytes = int(self._device.total_memory())

    @property
    def zero_copy(self):
        """Whether the GPU should read and write the host's own memory: one DRAM, and coherent caches."""
        return self.integrated and self.capability >= _ZERO_COPY_FROM

    def enter(self):
        """Makes the context the calling thread's; `leave` takes it away again. PyCUDA's MemoryError where none can be made."""
        try:
            with self._lock:
                if self._context is None:
                    self._context = self._device.retain_primary_context()
            self._context.push()
        except self.cuda.MemoryError:
            raise
        except self.cuda.Error as error:
            end_process("its CUDA context cannot be used: %s" % error)

    def leave(self):
        """The calling thread has no context any more."""
        try:
            self._context.pop()
        except self.cuda.Error as error:
            end_process("its CUDA context cannot be left: %s" % error)

    def check(self):
        """Ends the process where CUDA is broken: then TensorRT's refusals say nothing of what was asked. Needs the context."""
        try:
            self.cuda.Context.synchronize()
        except self.cuda.Error as error:
            end_process("CUDA fails: %s" % error)

    def free_bytes(self):
        """Memory that is free now; needs the context."""
        try:
            return int(self.cuda.mem_get_info()[0])
        except self.cuda.Error as error:
            end_process("CUDA does not tell its memory: %s" % error)
