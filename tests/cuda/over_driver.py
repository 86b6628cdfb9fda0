"""Lets the fake TensorRT run its engines as kernels of the driver of this folder, in the order of the driver's streams.

Imported by a .pth file when the interpreter starts. Python 3.6 syntax.
"""

import ctypes
import itertools

import fake_gpu_settings
from fake_gpu import driver, memory, settings, streams

_library = ctypes.CDLL("libcuda.so.1")  # loaded already
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_launch = _library.test_libcuda_launch
_launch.argtypes = [ctypes.c_void_p, _FUNCTION, _FUNCTION, ctypes.c_void_p]
_reaches = _library.test_libcuda_reaches
_reaches.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_capturing = _library.cuStreamIsCapturing
_capturing.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
_synchronize = _library.cuStreamSynchronize
_synchronize.argtypes = [ctypes.c_void_p]
_numbers = itertools.count(1)
_jobs = {}


@_FUNCTION
def _run_job(number):
    _jobs[number]()


@_FUNCTION
def _forget_job(number):
    del _jobs[number]


class _Done:
    """Whatever the stream was told before is done after `wait`."""

    def __init__(self, handle):
        self._handle = handle

    def wait(self):
        """Until then."""
        _synchronize(self._handle)


class _Stream:
    """A stream of the driver, as far as the fake looks at one."""

    def __init__(self, handle):
        self._handle = handle

    @property
    def capturing(self):
        """Whether what it is told goes into a graph."""
        status = ctypes.c_int(0)
        _capturing(self._handle, ctypes.byref(status))
        return status.value == 1

    def mark(self):
        """To wait for what it was told so far."""
        return _Done(self._handle)


def _run(handle, job):
    number = next(_numbers)
    _jobs[number] = job
    code = _launch(int(handle), _run_job, _forget_job, number)
    if code:
        driver.break_down(code)


def _valid(address, size):
    return size == 0 or bool(_reaches(address, size))


def _break_down(code=driver.ILLEGAL_ADDRESS):
    driver.state.sticky = code
    _library.test_libcuda_break(code)


settings.NAMES = fake_gpu_settings.NAMES
streams.find = lambda handle: _Stream(int(handle)) if int(handle) else None
streams.run = _run
memory.valid = _valid
driver.break_down = _break_down
