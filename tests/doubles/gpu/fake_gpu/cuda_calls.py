"""Puts a libcuda.so.1 into the process that Python answers: what is called by ctypes finds the same device as PyCUDA.

Imported by a .pth file of the interpreters that tests/fake_gpu.py makes; `install` does nothing without a driver.
"""

import ctypes

from fake_gpu import driver, settings, streams

_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_void_p] * 6))
_kept = []  # the library and the callbacks live as long as the process
_texts = {}

ATTRIBUTES = {
    16: lambda: settings.MULTIPROCESSORS,
    18: lambda: int(settings.INTEGRATED),
    19: lambda: 1,  # can map host memory
    41: lambda: 1,  # unified addressing
    75: lambda: settings.COMPUTE_CAPABILITY[0],
    76: lambda: settings.COMPUTE_CAPABILITY[1],
}


def install():
    """Loads the library and takes its calls."""
    if _kept or not settings.DRIVER or not settings.LIBCUDA:
        return
    library = ctypes.CDLL(settings.LIBCUDA, mode=ctypes.RTLD_GLOBAL)
    _kept.append(library)
    for name, function in _CALLS.items():
        callback = _HANDLER(_guarded(function))
        _kept.append(callback)
        if not library.fake_cuda_answer(name.encode(), callback):
            raise RuntimeError("libcuda.c has no %s" % name)


def uninstall():
    """Its calls are answered by nobody from now on; a loaded library cannot be unloaded."""
    if _kept:
        for name in _CALLS:
            _kept[0].fake_cuda_answer(name.encode(), None)
        del _kept[:]


def _guarded(function):
    count = getattr(function, "takes", None) or function.__code__.co_argcount

    def call(*args):
        return function(*[arg or 0 for arg in args[:count]])

    return call


def _int(value):
    return value & 0xFFFFFFFF


def _store(kind, pointer, value):
    kind.from_address(pointer).value = value
    return 0


def _needs_init(function):
    def call(*args):
        return (0 if driver.state.initialised else 3) or driver.state.sticky or function(*args)

    call.takes = function.__code__.co_argcount
    return call


def _init(_flags):
    return driver.initialise()


def _version(pointer):
    return _store(ctypes.c_int, pointer, settings.CUDA_VERSION)


@_needs_init
def _count(pointer):
    return _store(ctypes.c_int, pointer, 1)


@_needs_init
def _get(pointer, ordinal):
    return 101 if _int(ordinal) else _store(ctypes.c_int, pointer, 0)


@_needs_init
def _name(pointer, size, _device):
    text = settings.DEVICE.encode()[: max(_int(size) - 1, 0)] + b"\0"
    ctypes.memmove(pointer, text, len(text))
    return 0


@_needs_init
def _attribute(pointer, number, _device):
    value = ATTRIBUTES.get(_int(number))
    return 1 if value is None else _store(ctypes.c_int, pointer, value())


@_needs_init
def _total(pointer, _device):
    return _store(ctypes.c_size_t, pointer, settings.MEMORY_BYTES)


@_needs_init
def _capability(major, minor, _device):
    _store(ctypes.c_int, major, settings.COMPUTE_CAPABILITY[0])
    return _store(ctypes.c_int, minor, settings.COMPUTE_CAPABILITY[1])


@_needs_init
def _flags(_device, _value):
    return 0


@_needs_init
def _primary_state(_device, flags, active):
    _store(ctypes.c_uint, flags, 4)
    return _store(ctypes.c_int, active, 0)


def _error_text(code, pointer):
    text = _texts.setdefault(_int(code), ctypes.c_char_p(driver.WORDS.get(_int(code), "unknown error").encode()))
    return _store(ctypes.c_void_p, pointer, ctypes.cast(text, ctypes.c_void_p).value)


@_needs_init
def _begin_capture(stream, _mode):
    work = streams.find(stream)
    return 400 if work is None else work.begin_capture()


@_needs_init
def _end_capture(stream, pointer):
    work = streams.find(stream)
    code, number = (400, 0) if work is None else work.end_capture()
    _store(ctypes.c_void_p, pointer, number)
    return code


@_needs_init
def _is_capturing(stream, pointer):
    work = streams.find(stream)
    return _store(ctypes.c_int, pointer, int(work is not None and work.capturing))


def _exchange_mode(_pointer):
    return 0


@_needs_init
def _instantiate(pointer, graph):
    jobs = streams.graph(graph)
    return 400 if jobs is None else _store(ctypes.c_void_p, pointer, streams.keep_graph(jobs))


@_needs_init
def _upload(executable, _stream):
    return 400 if streams.graph(executable) is None else 0


@_needs_init
def _launch(executable, stream):
    jobs = streams.graph(executable)
    if jobs is None:
        return 400
    for job in jobs:
        streams.run(stream, job)
    return 0


@_needs_init
def _destroy(number):
    return streams.drop_graph(number)


_CALLS = {
    "cuInit": _init,
    "cuDriverGetVersion": _version,
    "cuDeviceGetCount": _count,
    "cuDeviceGet": _get,
    "cuDeviceGetName": _name,
    "cuDeviceGetAttribute": _attribute,
    "cuDeviceTotalMem": _total,
    "cuDeviceTotalMem_v2": _total,
    "cuDeviceComputeCapability": _capability,
    "cuDevicePrimaryCtxSetFlags": _flags,
    "cuDevicePrimaryCtxSetFlags_v2": _flags,
    "cuDevicePrimaryCtxGetState": _primary_state,
    "cuGetErrorString": _error_text,
    "cuGetErrorName": _error_text,
    "cuStreamBeginCapture": _begin_capture,
    "cuStreamBeginCapture_v2": _begin_capture,
    "cuStreamEndCapture": _end_capture,
    "cuStreamIsCapturing": _is_capturing,
    "cuThreadExchangeStreamCaptureMode": _exchange_mode,
    "cuGraphInstantiate": _instantiate,
    "cuGraphInstantiate_v2": _instantiate,
    "cuGraphInstantiateWithFlags": _instantiate,
    "cuGraphUpload": _upload,
    "cuGraphLaunch": _launch,
    "cuGraphDestroy": _destroy,
    "cuGraphExecDestroy": _destroy,
}
