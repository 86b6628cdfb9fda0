"""Plans in the memory of this process: read once, shared by the instances of a model, freed with the last of them."""

import hashlib
import os
import threading

from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.trt import bindings, io_tensors
from edge_agent.engine_host.trt.driver import Unavailable
from edge_agent.engine_host.trt.failures import CHANGED, FOREIGN, OUT_OF_MEMORY, blames_plan, megabytes, tells_of_memory
from edge_agent.engine_host.trt.logger import Hearing

_lock = threading.Lock()
_loaded = []
_runtimes = {}  # by DLA core; -1 is the library's own


class Loaded:
    """A deserialised plan and what it takes and gives."""

    def __init__(self, key, engine, tensors, profiles, library):
        self.key = key
        self.engine = engine
        self.tensors = tensors
        self.profiles = profiles
        self.users = 0
        moving = any(dim < 0 for tensor in tensors for dim in tensor.shape)
        #: before version 10 two contexts may not use one profile at a time, which only matters where shapes are not fixed
        self.shareable = not moving or library.has("shared_profiles")

    def context(self, library, path):
        """A new execution context; LoadError when there is no memory for it."""
        with Hearing(library.log) as heard:
            made = self.engine.create_execution_context()
        if made is None:
            library.device.check()
            raise LoadError("%s: TensorRT cannot make an execution context: %s" % (path, heard.words), OUT_OF_MEMORY)
        return _api(library).Context(made, self.tensors, len(self.profiles))


def acquire(library, path, dla_core, sha256=""):
    """The plan, deserialised now or before; give it back by `release`. LoadError with a code that tells a bad plan.

    `sha256`: of the plan that the agent means; another one under its name is not loaded.
    """
    with _lock:
        key = _key(path, sha256, dla_core)
        for loaded in _loaded:
            if loaded.key == key and loaded.shareable:
                loaded.users += 1
                return loaded
        loaded = _load(library, path, dla_core, key, sha256)
        loaded.users = 1
        _loaded.append(loaded)
        return loaded


def release(loaded):
    """One user less; the last one's thread frees it."""
    with _lock:
        loaded.users -= 1
        if loaded.users == 0:
            _loaded.remove(loaded)
            loaded.engine = None


def _key(path, sha256, dla_core):
    """The file as it is now: another one under the same name is another plan."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise LoadError("%s: cannot be read: %s" % (path, os.strerror(error.errno))) from error
    return (os.path.realpath(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, sha256, dla_core)


def _load(library, path, dla_core, key, sha256):
    plan = _read(path)
    if sha256 and hashlib.sha256(plan).hexdigest() != sha256:
        raise LoadError("%s: is not the plan that was checked, somebody has changed it" % path, CHANGED)
    runtime = _runtime(library, path, dla_core)
    with Hearing(library.log) as heard:
        engine = runtime.deserialize_cuda_engine(plan)
    size = len(plan)
    del plan
    if engine is None:
        _refuse(library, path, size, heard)
    if library.has("implicit_batch") and engine.has_implicit_batch_dimension:
        raise LoadError("%s: was built with an implicit batch dimension; build it from ONNX" % path, FOREIGN)
    api = _api(library)
    tensors = api.describe(library.trt, engine, path)
    if not any(not tensor.is_input for tensor in tensors):
        raise LoadError("%s: has no outputs" % path, FOREIGN)
    return Loaded(key, engine, tensors, api.profiles(engine, tensors), library)


def _read(path):
    try:
        with open(path, "rb") as file:
            plan = file.read()
    except OSError as error:
        raise LoadError("%s: cannot be read: %s" % (path, os.strerror(error.errno))) from error
    except MemoryError as error:
        raise LoadError("%s: there is no memory to read the plan" % path, OUT_OF_MEMORY) from error
    if not plan:
        raise LoadError("%s: the file is empty; copy it again" % path, FOREIGN)
    return plan


def _refuse(library, path, size, heard):
    """Only what TensorRT says of the plan itself condemns it; all else may go well another time."""
    library.device.check()
    version, capability = library.trt.__version__, "%d.%d" % library.device.capability
    if tells_of_memory(heard.lines):
        text = "%s: there is no memory for a plan of %s (%s free): %s"
        raise LoadError(text % (path, megabytes(size), megabytes(library.device.free_bytes()), heard.words), OUT_OF_MEMORY)
    text = "%s: TensorRT %s refuses the plan on this GPU (%s, compute capability %s): %s"
    code = FOREIGN if blames_plan(heard.own_errors) else ""
    raise LoadError(text % (path, version, library.device.name, capability, heard.words), code)


def _runtime(library, path, dla_core):
    if dla_core < 0:
        return library.runtime
    cores = max(0, int(library.runtime.num_DLA_cores))
    if dla_core >= cores:
        text = "%s: wants DLA core %d, and this device has %d; set dla_core = -1 in [build]"
        raise LoadError(text % (path, dla_core, cores))
    if dla_core not in _runtimes:
        try:
            runtime = library.new_runtime()
        except Unavailable as error:
            library.device.check()
            raise LoadError("%s: %s" % (path, error.text), error.code) from error
        runtime.DLA_core = dla_core
        _runtimes[dla_core] = runtime
    return _runtimes[dla_core]


def _api(library):
    return io_tensors if library.api == "io_tensors" else bindings
