"""The state that the CUDA driver keeps for a process: present, initialised, each thread's contexts, a sticky error."""

import threading

from fake_gpu import faults, settings

NO_DRIVER = 35  # what TensorRT says of it
NO_DEVICE = 100
ILLEGAL_ADDRESS = 700

WORDS = {
    2: "out of memory",
    3: "initialization error",
    100: "no CUDA-capable device is detected",
    201: "invalid device context",
    400: "invalid resource handle",
    600: "device not ready",
    700: "an illegal memory access was encountered",
    719: "unspecified launch failure",
    801: "operation not supported",
    900: "operation not permitted when stream is capturing",
    901: "operation failed due to a previous error during capture",
    999: "unknown error",
}


class _State:
    initialised = False
    sticky = 0  #: the code that every later call answers


state = _State()
_thread = threading.local()


def initialise():
    """The code of cuInit."""
    code = faults.get("cuda_init", 0) if settings.DRIVER else NO_DEVICE
    state.initialised = state.initialised or code == 0
    return code


def usable():
    """Whether a library that asks the driver by itself would get a device."""
    return settings.DRIVER and (state.initialised or initialise() == 0)


def contexts():
    """This thread's stack of contexts."""
    if not hasattr(_thread, "contexts"):
        _thread.contexts = []
    return _thread.contexts


def break_down(code=ILLEGAL_ADDRESS):
    """From now on each call answers the code, until the process ends."""
    state.sticky = code
