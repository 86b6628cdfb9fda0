"""The CUDA driver itself, by ctypes: asked before TensorRT is imported, and for what PyCUDA of old does not offer."""

import ctypes

_LIBRARY = "libcuda.so.1"
_NO_DEVICE = 100
_SCHED_BLOCKING_SYNC = 4


class Unavailable(Exception):
    """TensorRT cannot be used here: a stable code, and a text that says what was tried and what to do."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code
        self.text = text


def open_driver():
    """The driver after cuInit, with at least one device; Unavailable otherwise.

    TensorRT without a driver makes a runtime all the same, and crashes the process when it is used.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        text = "the NVIDIA driver's %s cannot be opened (%s); install the driver, or on a Jetson the package nvidia-l4t-cuda"
        raise Unavailable("engine.no_driver", text % (_LIBRARY, error)) from error
    code = library.cuInit(ctypes.c_uint(0))
    if code == _NO_DEVICE:
        raise Unavailable("engine.no_device", "the NVIDIA driver finds no GPU (cuInit answered 100)%s" % _ADVICE)
    if code:
        text = "the NVIDIA driver does not start (cuInit answered %d)%s"
        raise Unavailable("engine.no_driver", text % (code, _ADVICE))
    count = ctypes.c_int(0)
    code = library.cuDeviceGetCount(ctypes.byref(count))
    if code or count.value < 1:
        text = "the NVIDIA driver shows %d GPUs (cuDeviceGetCount answered %d)%s"
        raise Unavailable("engine.no_device", text % (count.value, code, _ADVICE))
    return library


_ADVICE = (
    "; let the agent's user be in the groups video and render, and look whether CUDA_VISIBLE_DEVICES hides it"
    " or the driver's version differs from the kernel module's"
)


def version(library):
    """The CUDA version that the driver knows, as 1000 * major + 10 * minor; 0 where it does not say."""
    found = ctypes.c_int(0)
    return 0 if library.cuDriverGetVersion(ctypes.byref(found)) else found.value


def ask_to_block(library, device=0):
    """Asks that waiting threads sleep instead of spinning. It is a wish: an old driver refuses once a context is there."""
    for name in ("cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxSetFlags"):
        function = getattr(library, name, None)
        if function is not None:
            return function(ctypes.c_int(device), ctypes.c_uint(_SCHED_BLOCKING_SYNC)) == 0
    return False
