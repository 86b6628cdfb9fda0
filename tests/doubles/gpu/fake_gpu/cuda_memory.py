"""PyCUDA's memory and copies."""

import ctypes

import numpy as np

from fake_gpu import driver, memory, settings
from fake_gpu.counts import Counted
from fake_gpu.cuda_errors import LogicError, MemoryError, check, need_context
from fake_gpu.cuda_flags import host_alloc_flags


class _Memory(Counted):
    _ON_DEVICE = True

    def __init__(self, function, size):
        need_context(function)
        self._size = int(size)
        self._block = memory.allocate(self._size, self._ON_DEVICE)
        if self._block is None:
            raise MemoryError("%s failed: out of memory" % function)
        self._address = ctypes.addressof(self._block)
        self._count()

    def _give_back(self):
        if not self._release():
            return False
        memory.release(self._block, self._size, self._ON_DEVICE)
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
    need_context("cuMemGetInfo")
    return (memory.free_bytes(), settings.MEMORY_BYTES)


def pagelocked_empty(shape, dtype, order="C", mem_flags=0):
    """An array in page-locked memory."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    dtype = np.dtype(dtype)
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
    return np.asarray(block)


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
    array = np.asarray(buffer)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("ndarray is not contiguous")
    if writeable and not array.flags.writeable:
        raise ValueError("buffer is read-only")
    return array, array.ctypes.data, array.nbytes


def _move(function, target, source, size, device):
    """The copy itself, which breaks the context down where the device may not go."""
    if driver.state.sticky:
        return
    if not memory.valid(device, size):
        driver.break_down()
        return
    memory.copy(target, source, size)


def _copy(function, target, source, size, device, stream, keep, locked):
    need_context(function)
    if stream is None or not locked:  # from or to pageable memory nothing is asynchronous
        if stream is not None:
            stream.synchronize()
        _move(function, target, source, size, device)
        check(function, driver.state.sticky)
        return
    stream._work.put(lambda _keep=keep: _move(function, target, source, size, device))


def _is_locked(array):
    base = array
    while isinstance(base, np.ndarray):
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
    need_context("cuMemsetD8")
    if not memory.valid(int(dest), count):
        driver.break_down()
    check("cuMemsetD8", driver.state.sticky)
    ctypes.memset(int(dest), data, count)
