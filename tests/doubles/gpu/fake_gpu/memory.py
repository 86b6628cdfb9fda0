"""Device and page-locked memory: plain memory of this process at its real addresses."""

import bisect
import ctypes
import threading

from fake_gpu import faults, settings

_lock = threading.RLock()
_starts = []  # sorted, with the sizes beside
_sizes = []
_state = {"used": 0, "watching": False}


def allocate(size, device):
    """A ctypes array, or None when the device has no memory for it. Page-locked memory is the device's on a Jetson."""
    counted = size if device or settings.INTEGRATED else 0
    limit = faults.get("alloc_above")
    with _lock:
        if (limit is not None and counted > limit) or _state["used"] + counted > settings.MEMORY_BYTES:
            return None
        block = (ctypes.c_byte * max(size, 1))()
        start = ctypes.addressof(block)
        index = bisect.bisect(_starts, start)
        _starts.insert(index, start)
        _sizes.insert(index, size)
        _state["used"] += counted
        _state["watching"] = True
    return block


def release(block, size, device):
    """Gives an allocation back; its address means nothing from then on."""
    counted = size if device or settings.INTEGRATED else 0
    with _lock:
        index = bisect.bisect_left(_starts, ctypes.addressof(block))
        del _starts[index], _sizes[index]
        _state["used"] -= counted


def free_bytes():
    """What the device has left."""
    with _lock:
        return settings.MEMORY_BYTES - _state["used"]


def valid(address, size):
    """Whether a device may touch those bytes. Addresses of another driver (real PyCUDA) are taken as they are."""
    with _lock:
        if not _state["watching"]:
            return address != 0
        index = bisect.bisect(_starts, address) - 1
        return index >= 0 and address + size <= _starts[index] + _sizes[index]


def copy(target, source, size):
    """Moves bytes between two addresses."""
    ctypes.memmove(target, source, size)
