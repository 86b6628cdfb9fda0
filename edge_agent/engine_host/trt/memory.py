"""Memory that both the CPU and the GPU use: page-locked with a copy on the GPU, or one that both reach."""

import numpy

_ROUND = 4096


class Buffer:
    """Room for one tensor, which grows. Nobody may use it meanwhile: it moves."""

    def __init__(self, cuda):
        self._cuda = cuda
        self._host = None
        self.device = 0  #: address for the GPU
        self.capacity = 0
        self.moves = 0  #: how often it has moved

    @property
    def host(self):
        """Address for the CPU."""
        return 0 if self._host is None else int(self._host.ctypes.data)

    def ensure(self, nbytes):
        """Room for so many bytes. Raises PyCUDA's MemoryError, and then has none at all."""
        if self.capacity >= max(nbytes, 1):
            return
        wanted = (max(nbytes, 1) + _ROUND - 1) // _ROUND * _ROUND
        self.free()  # before the new one is taken: the two need not fit side by side
        self.moves += 1
        try:
            self._take(wanted)
        except BaseException:
            self.free()
            raise
        self.capacity = wanted

    def array(self, dtype, shape):
        """The tensor as the CPU sees it."""
        count = 1
        for dim in shape:
            count *= dim
        if count == 0:
            return numpy.zeros(shape, dtype)
        return self._host[: count * dtype.itemsize].view(dtype).reshape(shape)


class StagedBuffer(Buffer):
    """Page-locked memory and as much on the GPU: what is written here is copied there."""

    copies = True

    def __init__(self, cuda):
        super().__init__(cuda)
        self._allocation = None

    def _take(self, nbytes):
        self._host = self._cuda.pagelocked_empty(nbytes, numpy.uint8)
        self._allocation = self._cuda.mem_alloc(nbytes)
        self.device = int(self._allocation)

    def upload(self, nbytes, stream):
        """Begins to copy to the GPU."""
        if nbytes:
            self._cuda.memcpy_htod_async(self.device, self._host[:nbytes], stream)

    def download(self, nbytes, stream):
        """Begins to copy from the GPU."""
        if nbytes:
            self._cuda.memcpy_dtoh_async(self._host[:nbytes], self.device, stream)

    def free(self):
        """Gives all back."""
        self._host, self.device, self.capacity = None, 0, 0
        if self._allocation is not None:
            allocation, self._allocation = self._allocation, None
            allocation.free()


class MappedBuffer(Buffer):
    """Page-locked memory that the GPU reads and writes itself: on boards where both share one cached memory."""

    copies = False

    def _take(self, nbytes):
        self._host = self._cuda.pagelocked_empty(nbytes, numpy.uint8, mem_flags=self._cuda.host_alloc_flags.DEVICEMAP)
        self.device = int(self._host.base.get_device_pointer())

    def upload(self, nbytes, stream):
        """Nothing to do."""

    def download(self, nbytes, stream):
        """Nothing to do."""

    def free(self):
        """Gives all back."""
        self._host, self.device, self.capacity = None, 0, 0


class BufferSet:
    """The memory of one run: a buffer for each tensor, and the events that tell how far it has come."""

    def __init__(self, device, number, tensors, spin):
        cuda = device.cuda
        kind = MappedBuffer if device.zero_copy else StagedBuffer
        waiting = cuda.event_flags.DISABLE_TIMING
        self.number = number
        self.buffers = {tensor.name: kind(cuda) for tensor in tensors}
        self.copies = kind.copies
        self.uploaded = cuda.Event(waiting)
        self.computed = cuda.Event(waiting)
        # The CPU waits for this one: asleep, unless it was asked to save the last microseconds.
        self.done = cuda.Event(waiting if spin else waiting | cuda.event_flags.BLOCKING_SYNC)

    @property
    def moves(self):
        """How often any of its memory has moved."""
        return sum(buffer.moves for buffer in self.buffers.values())

    @property
    def nbytes(self):
        """What it holds."""
        return sum(buffer.capacity for buffer in self.buffers.values())

    def free(self):
        """Gives all back."""
        for buffer in self.buffers.values():
            buffer.free()
        self.uploaded = self.computed = self.done = None
