"""Looks for TensorRT, PyCUDA, the driver and a GPU, in an order in which nothing crashes, and says what there is."""

import importlib
import threading

from edge_agent.engine_host.failures import shortened
from edge_agent.engine_host.trt import device, driver, logger, mapped, names, outputs
from edge_agent.engine_host.trt.driver import Unavailable

_lock = threading.Lock()
_found = []  # the Library of this process, once it was found


class Library:
    """TensorRT of this process, ready to use."""

    def __init__(self, trt, gpu, native):
        self.trt = trt  #: the module tensorrt
        self.device = gpu
        self.cuda = gpu.cuda  #: the module pycuda.driver
        self.native = native  #: libcuda, by ctypes
        self.log = logger.make(trt)
        self.runtime = _runtime(trt, self.log)
        self.output_allocator = outputs.allocator_class(trt) if self.has("io_tensors") else None
        if self.has("plugins"):
            trt.init_libnvinfer_plugins(self.log, "")  # plans name the plugins that they need

    def has(self, feature):
        """Whether TensorRT has a feature of names.FEATURES."""
        return names.has(self.trt, feature)

    @property
    def api(self):
        """Which of the two ways to run engines it has."""
        return "io_tensors" if self.has("io_tensors") else "bindings"

    def new_runtime(self):
        """One more runtime, for engines of another DLA core."""
        return _runtime(self.trt, self.log)

    def facts(self):
        """What the agent wants to know, as JSON."""
        gpu, capability = self.device, self.device.capability
        return {
            "engine": "tensorrt",
            "available": True,
            "code": "",
            "text": "",
            "tensorrt": str(self.trt.__version__),
            "api": self.api,
            "cuda_driver": driver.version(self.native),
            "cuda_runtime": mapped.cuda_runtime(),
            "plugins": mapped.plugin_digests(),
            "device": gpu.name,
            "compute_capability": list(capability),
            "multiprocessors": gpu.multiprocessors,
            "memory_bytes": gpu.memory_bytes,
            "integrated": gpu.integrated,
            "fp16": device.fast_fp16(capability),
            "int8": device.fast_int8(capability),
            "bf16": self.has("bf16") and device.has_bf16(capability),
            "dla_cores": max(0, int(self.runtime.num_DLA_cores)),
            "strongly_typed_only": not self.has("weak_types"),
        }


def probe():
    """The Library; Unavailable says why there is none. What was found stays; what was not is looked for again."""
    with _lock:
        if not _found:
            _found.append(_look())
        return _found[0]


def facts():
    """The facts of the library as JSON; where there is none, `available` is false and `text` says why. Never raises."""
    try:
        return probe().facts()
    except Unavailable as error:
        code, text = error.code, error.text
    except Exception as error:  # noqa: BLE001 - foreign libraries raise what they like, and this must tell it
        code, text = "engine.no_library", "looking for TensorRT failed: %s: %s" % (type(error).__name__, shortened(error))
    return {"engine": "tensorrt", "available": False, "code": code, "text": text}


def _look():
    native = driver.open_driver()  # first of all: without a driver TensorRT crashes later on
    driver.ask_to_block(native)
    trt = _import(
        "tensorrt", "engine.no_library", "install TensorRT's Python package for this interpreter (python3-libnvinfer)"
    )
    cuda = _import("pycuda.driver", "engine.no_pycuda", "install pycuda for this interpreter")
    try:
        cuda.init()
        gpu = device.Device(cuda)
    except cuda.Error as error:
        raise Unavailable("engine.no_device", "PyCUDA cannot use the GPU: %s" % shortened(error)) from error
    return Library(trt, gpu, native)


def _import(name, code, cure):
    """A library that needs another which is missing raises ImportError, or OSError where it opens it itself."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        text = "'import %s' failed: %s; %s, or name the interpreter that has it in [hosts.gpu] python"
        raise Unavailable(code, text % (name.partition(".")[0], shortened(error), cure)) from error


def _runtime(trt, log):
    with logger.Hearing(log) as heard:
        try:
            runtime = trt.Runtime(log)
        except TypeError as error:  # pybind's way to say that the library gave none
            raise Unavailable("engine.no_library", "TensorRT cannot start: %s" % heard.words) from error
    return runtime
