"""The part of pycuda.driver that an agent could use; nothing that the real one lacks (tests/cuda holds it against that)."""

import ctypes as _ctypes
import threading as _threading
import time as _time

import numpy as _np
from fake_gpu import cuda_calls as _calls
from fake_gpu import driver as _driver
from fake_gpu import memory as _memory
from fake_gpu import settings as _settings
from fake_gpu import streams as _streams
from fake_gpu.counts import Counted as _Counted

if not _settings.DRIVER:
    raise ImportError("libcuda.so.1: cannot open shared object file: No such file or directory")


class Error(Exception):
    """Whatever CUDA says no to."""


class LogicError(Error):
    """Most codes."""


class MemoryError(Error):  # noqa: A001 - PyCUDA calls it so
    """No memory."""


class RuntimeError(Error):  # noqa: A001
    """The driver does not start."""


class LaunchError(Error):
    """A kernel failed."""


_CLASSES = {2: MemoryError, 3: RuntimeError, 100: RuntimeError, 999: RuntimeError, 719: LaunchError}
_NO_CONTEXT = "explicit_context_dependent failed: invalid device context - no currently active context?"


def _check(function, code):
    if code:
        raise _CLASSES.get(code, LogicError)("%s failed: %s" % (function, _driver.WORDS.get(code, "unknown error")))


def _need_context(function="cuCtxGetCurrent"):
    if not _driver.contexts():
        raise LogicError(_NO_CONTEXT)
    _check(function, _driver.state.sticky)


def _need_init(function):
    if not _driver.state.initialised:
        raise LogicError("%s failed: initialization error" % function)


class ctx_flags:
    """How threads wait."""

    SCHED_AUTO, SCHED_SPIN, SCHED_YIELD, SCHED_BLOCKING_SYNC, SCHED_MASK = 0, 1, 2, 4, 7
    MAP_HOST, LMEM_RESIZE_TO_MAX, FLAGS_MASK = 8, 16, 31


class event_flags:
    """How events wait."""

    DEFAULT, BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS = 0, 1, 2, 4


class host_alloc_flags:
    """What page-locked memory is for."""

    PORTABLE, DEVICEMAP, WRITECOMBINED = 1, 2, 4


class mem_host_register_flags:
    """The same for memory that is there."""

    PORTABLE, DEVICEMAP = 1, 2


class mem_attach_flags:
    """Who may touch managed memory."""

    GLOBAL, HOST, SINGLE = 1, 2, 4


class device_attribute:
    """Numbers of attributes."""

    MULTIPROCESSOR_COUNT = 16
    INTEGRATED = 18
    CAN_MAP_HOST_MEMORY = 19
    UNIFIED_ADDRESSING = 41
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76


def init(flags=0):
    """cuInit."""
    code = _driver.initialise()
    if code:
        raise _CLASSES.get(code, RuntimeError)("cuInit failed: %s" % _driver.WORDS.get(code, "unknown error"))


def get_driver_version():
    """As a number."""
    return _settings.CUDA_VERSION


def get_version():
    """As three numbers."""
    return (_settings.CUDA_VERSION // 1000, _settings.CUDA_VERSION % 1000 // 10, 0)


class Device:
    """The one GPU."""

    def __init__(self, number):
        _need_init("cuDeviceGet")
        if number:
            raise LogicError("cuDeviceGet failed: invalid device ordinal")

    @staticmethod
    def count():
        _need_init("cuDeviceGetCount")
        return 1

    def name(self):
        return _settings.DEVICE

    def compute_capability(self):
        return _settings.COMPUTE_CAPABILITY

    def total_memory(self):
        return _settings.MEMORY_BYTES

    def get_attribute(self, attr):
        value = _calls.ATTRIBUTES.get(attr)
        if value is None:
            raise LogicError("cuDeviceGetAttribute failed: invalid argument")
        return value()

    def retain_primary_context(self):
        _check("cuDevicePrimaryCtxRetain", _driver.state.sticky)
        return Context._retained()


class Context(_Counted):
    """The primary context; a thread has it from push to pop."""

    @classmethod
    def _retained(cls):
        made = cls()
        made._count()
        return made

    def push(self):
        if not self._counted:
            raise LogicError("cuCtxPushCurrent failed: invalid device context")
        _driver.contexts().append(self)

    @staticmethod
    def pop():
        if not _driver.contexts():
            raise LogicError("context::pop failed: invalid device context - cannot pop non-current context")
        _driver.contexts().pop()

    def detach(self):
        stack = _driver.contexts()
        if stack and stack[-1] is self:
            stack.pop()
        self._release()

    @staticmethod
    def synchronize():
        _need_context()
        for work in list(_streams._streams.values()):
            work.mark().wait()
        _check("cuCtxSynchronize", _driver.state.sticky)

    @staticmethod
    def get_device():
        _need_context()
        return Device(0)


class Stream(_Counted):
    """Work in order."""

    def __init__(self, flags=0):
        _need_context()
        self._work = _streams.Work()
        self._count()

    def __del__(self):
        if self._release():
            self._work.close()

    @property
    def handle(self):
        return self._work.handle

    def synchronize(self):
        code = _streams.illegal_in_capture(self._work)
        if not code:
            self._work.mark().wait()
            code = _driver.state.sticky
        _check("cuStreamSynchronize", code)

    def is_done(self):
        _check("cuStreamQuery", _streams.illegal_in_capture(self._work))
        return self._work.mark().wait(0.001)

    def wait_for_event(self, evt):
        _check("cuStreamWaitEvent", _driver.state.sticky)
        done = evt._done
        if done is not None:
            self._work.put(done.wait)


class Event(_Counted):
    """A place in a stream."""

    def __init__(self, flags=0):
        _need_context()
        self._timing = not flags & event_flags.DISABLE_TIMING
        self._done = None
        self._at = [0.0]
        self._count()

    def record(self, stream=None):
        _need_context("cuEventRecord")
        self._at = at = [0.0]
        if stream is None:
            self._done = _threading.Event()
            at[0] = _time.monotonic()
            self._done.set()
            return self
        if not stream._work.capturing:
            stream._work.put(lambda: at.__setitem__(0, _time.monotonic()))
        self._done = stream._work.mark()
        return self

    def synchronize(self):
        if self._done is not None:
            self._done.wait()
        _check("cuEventSynchronize", _driver.state.sticky)
        return self

    def query(self):
        _check("cuEventQuery", _driver.state.sticky)
        return self._done is None or self._done.is_set()

    def time_since(self, start):
        if not self._timing or not start._timing or self._done is None or start._done is None:
            raise LogicError("cuEventElapsedTime failed: invalid resource handle")
        if not self._done.is_set() or not start._done.is_set():
            raise LogicError("cuEventElapsedTime failed: device not ready")
        return (self._at[0] - start._at[0]) * 1000.0

    def time_till(self, end):
        return end.time_since(self)


class _Memory(_Counted):
    _ON_DEVICE = True

    def __init__(self, function, size):
        _need_context(function)
        self._size = int(size)
        self._block = _memory.allocate(self._size, self._ON_DEVICE)
        if self._block is None:
            raise MemoryError("%s failed: out of memory" % function)
        self._address = _ctypes.addressof(self._block)
        self._count()

    def _give_back(self):
        if not self._release():
            return False
        _memory.release(self._block, self._size, self._ON_DEVICE)
        return True

    def __del__(self):
        self._give_back()

    def free(self):
        if not self._give_back():
            raise LogicError("device_allocation::free failed: invalid resource handle")


class DeviceAllocation(_Memory):
    """Memory of the device; its number is its address."""

    def __int__(self):
        return self._address

    __index__ = __int__


class PagelockedHostAllocation(_Memory):
    """Memory of the host that the device can reach; the `base` of arrays."""

    _ON_DEVICE = False

    def get_device_pointer(self):
        if not self._mapped:
            raise LogicError("cuMemHostGetDevicePointer failed: invalid argument")
        return self._address


def mem_alloc(size):
    """Memory of the device."""
    if size <= 0:
        raise LogicError("cuMemAlloc failed: invalid argument")
    return DeviceAllocation("cuMemAlloc", size)


def mem_get_info():
    """(free, total)."""
    _need_context("cuMemGetInfo")
    return (_memory.free_bytes(), _settings.MEMORY_BYTES)


def pagelocked_empty(shape, dtype, order="C", mem_flags=0):
    """An array in page-locked memory."""
    shape = (shape,) if isinstance(shape, (int, _np.integer)) else tuple(shape)
    dtype = _np.dtype(dtype)
    size = dtype.itemsize
    for dim in shape:
        size *= int(dim)
    if size <= 0:
        raise LogicError("cuMemHostAlloc failed: invalid argument")
    block = PagelockedHostAllocation("cuMemHostAlloc", size)
    block._mapped = bool(mem_flags & host_alloc_flags.DEVICEMAP)
    block.__array_interface__ = {
        "version": 3,
        "shape": tuple(int(dim) for dim in shape),
        "typestr": dtype.str,
        "data": (block._address, False),
    }
    return _np.asarray(block)


def pagelocked_zeros(shape, dtype, order="C", mem_flags=0):
    """The same, cleared."""
    array = pagelocked_empty(shape, dtype, order, mem_flags)
    array.fill(0)
    return array


def pagelocked_empty_like(array, mem_flags=0):
    """Of an array's shape."""
    return pagelocked_empty(array.shape, array.dtype, "C", mem_flags)


def pagelocked_zeros_like(array, mem_flags=0):
    """The same, cleared."""
    return pagelocked_zeros(array.shape, array.dtype, "C", mem_flags)


def _host(buffer, writeable):
    """(array, address, bytes) of a buffer of the host."""
    array = _np.asarray(buffer)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("ndarray is not contiguous")
    if writeable and not array.flags.writeable:
        raise ValueError("buffer is read-only")
    return array, array.ctypes.data, array.nbytes


def _move(function, target, source, size, device):
    """The copy itself, which breaks the context down where the device may not go."""
    if _driver.state.sticky:
        return
    if not _memory.valid(device, size):
        _driver.break_down()
        return
    _memory.copy(target, source, size)


def _copy(function, target, source, size, device, stream, keep, locked):
    _need_context(function)
    if stream is None or not locked:  # from or to pageable memory nothing is asynchronous
        if stream is not None:
            stream.synchronize()
        _move(function, target, source, size, device)
        _check(function, _driver.state.sticky)
        return
    stream._work.put(lambda _keep=keep: _move(function, target, source, size, device))


def _is_locked(array):
    base = array
    while isinstance(base, _np.ndarray):
        base = base.base
    return isinstance(base, PagelockedHostAllocation)


def memcpy_htod(dest, src):
    """To the device, at once."""
    array, address, size = _host(src, False)
    _copy("cuMemcpyHtoD", int(dest), address, size, int(dest), None, array, True)


def memcpy_htod_async(dest, src, stream=None):
    """To the device, in the stream's order."""
    array, address, size = _host(src, False)
    _copy("cuMemcpyHtoDAsync", int(dest), address, size, int(dest), stream, array, _is_locked(array))


def memcpy_dtoh(dest, src):
    """From the device, at once."""
    array, address, size = _host(dest, True)
    _copy("cuMemcpyDtoH", address, int(src), size, int(src), None, array, True)


def memcpy_dtoh_async(dest, src, stream=None):
    """From the device, in the stream's order."""
    array, address, size = _host(dest, True)
    _copy("cuMemcpyDtoHAsync", address, int(src), size, int(src), stream, array, _is_locked(array))


def memcpy_dtod(dest, src, size):
    """Within the device, at once."""
    _copy("cuMemcpyDtoD", int(dest), int(src), size, int(src), None, None, True)


def memcpy_dtod_async(dest, src, size, stream=None):
    """Within the device, in the stream's order."""
    _copy("cuMemcpyDtoDAsync", int(dest), int(src), size, int(src), stream, None, True)


def memset_d8(dest, data, count):
    """Fills device memory."""
    _need_context("cuMemsetD8")
    if not _memory.valid(int(dest), count):
        _driver.break_down()
    _check("cuMemsetD8", _driver.state.sticky)
    _ctypes.memset(int(dest), data, count)
