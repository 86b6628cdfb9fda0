"""A TensorRT plan behind the few calls that a host makes of an engine; two runs may be on their way at a time."""

import queue

from edge_agent.engine_host.failures import LoadError, RunFailed, shortened
from edge_agent.engine_host.trt import failures, library, loaded, profiles
from edge_agent.engine_host.trt.memory import BufferSet
from edge_agent.engine_host.trt.run import Runs

_SETS = 2  # one run computes while the next one's inputs are put into place


def open_engine(path, options):
    """The engine of a plan file, on the calling thread, which then alone may use and close it. LoadError otherwise."""
    try:
        found = library.probe()
    except library.Unavailable as error:
        raise LoadError("%s: %s" % (path, error.text), error.code) from error
    try:
        found.device.enter()
    except found.cuda.MemoryError as error:
        text = "%s: the GPU has no memory to begin with: %s"
        raise LoadError(text % (path, shortened(error)), failures.OUT_OF_MEMORY) from error
    try:
        return _open(found, path, options)
    except BaseException:
        found.device.leave()
        raise


def _open(found, path, options):
    cuda = found.cuda
    dla_core = int(options.get("dla_core", -1))
    try:
        plan = loaded.acquire(found, path, dla_core, str(options.get("sha256", "")))
        try:
            return TensorRtEngine(found, plan, path, options)
        except BaseException:
            loaded.release(plan)
            raise
    except cuda.MemoryError as error:
        text = "%s: there is no memory for it on the GPU (%s free): %s"
        text %= (path, failures.megabytes(found.device.free_bytes()), shortened(error))
        raise LoadError(text, failures.OUT_OF_MEMORY) from error
    except cuda.Error as error:
        failures.end_process("%s: %s" % (path, error))


class TensorRtEngine:
    """One execution context with its streams and memory."""

    apart = False  #: the rows of several requests run as one
    text = False
    overlaps = True  #: has `begin`: the next run may be begun before the last one's result was taken

    def __init__(self, found, plan, path, options):
        self._found = found
        self._plan = plan
        self._path = path
        self._runs = self._up = self._work = self._down = None
        self._sets = []
        self._free = queue.Queue()  # as many as there are sets
        self.may_pad = False  #: the first size of everything counts rows, so rows may be added and their answers cut off
        self._profiles = _usable(plan, path, options)
        self._inputs = [tensor for tensor in plan.tensors if tensor.is_input]
        self._by_value = any(tensor.on_host for tensor in self._inputs)
        self._outputs = {tensor.name: tensor for tensor in plan.tensors if not tensor.is_input}
        self.inputs = [tensor.spec() for tensor in self._inputs]
        self.outputs = [tensor.spec() for tensor in self._outputs.values()]
        try:
            self._make(options)
        except BaseException:
            self._free_all()
            raise

    def _make(self, options):
        found, plan, cuda = self._found, self._plan, self._found.cuda
        context = plan.context(found, self._path)
        graphs = bool(options.get("cuda_graphs", True))
        self._runs = Runs(found, plan, context, self._path, graphs, self._profiles)
        self._up, self._work, self._down = cuda.Stream(), cuda.Stream(), cuda.Stream()
        for number in range(_SETS):
            self._sets.append(BufferSet(found.device, number, plan.tensors, bool(options.get("spin", False))))
            self._free.put(self._sets[-1])

    # -- what it takes ------------------------------------------------------------------------------------------------

    @property
    def rows(self):
        """Numbers of rows that its profiles name, smallest first."""
        return profiles.rows(self._profiles)

    def usual_shapes(self, specs, count):
        """Shapes of the inputs by name for a warm-up with `count` rows; None where no profile takes so many."""
        if self._by_value:
            return None  # zeros are no sizes
        return profiles.usual_shapes(self._profiles, specs, count)

    @property
    def graphs(self):
        """Its CUDA graphs, for tests and figures."""
        return self._runs.graphs

    # -- running ------------------------------------------------------------------------------------------------------

    def enter(self):
        """Whoever takes results on another thread calls this there first."""
        self._found.device.enter()

    def leave(self):
        """And this at last."""
        self._found.device.leave()

    def run(self, names, feeds):
        """The named outputs as arrays of their own."""
        with self.begin(names, {name: [array] for name, array in feeds.items()}) as pending:
            return [array.copy() for array in pending.result()]

    def begin(self, names, parts):
        """Begins a run; waits while two are on their way. `parts`: each input's arrays, one below the other.

        RunFailed for what the plan does not take and for want of memory; what is worse ends the process.
        """
        shapes = {name: _joined(arrays) for name, arrays in parts.items()}
        profile, padded = self._runs.choose(shapes, self.may_pad and not self._by_value)
        cut = None
        if padded is not None:
            cut = (padded, next(iter(shapes.values()))[0])
            shapes = {name: (padded,) + shape[1:] for name, shape in shapes.items()}
        buffers = self._free.get()
        try:
            return self._begin(buffers, names, parts, shapes, profile, cut)
        except self._found.cuda.MemoryError as error:
            self._give_up(buffers)
            raise RunFailed(self._want_of_memory(parts, error), failures.OUT_OF_MEMORY) from error
        except self._found.cuda.Error as error:
            failures.end_process("%s: %s" % (self._path, error))
        except BaseException:
            self._give_up(buffers)
            raise

    def _begin(self, buffers, names, parts, shapes, profile, cut):
        for tensor in self._inputs:
            buffer = buffers.buffers[tensor.name]
            buffer.ensure(_nbytes(tensor, shapes[tensor.name]))
            _gather(buffer.array(tensor.dtype, shapes[tensor.name]), parts[tensor.name])
        given = self._runs.configure(profile, shapes, self._work, buffers.buffers)
        allocators = self._runs.place(buffers.buffers, given)
        self._upload(buffers, shapes)
        self._runs.start(buffers, self._work, allocators)
        given = {name: allocators[name].shape if name in allocators else shape for name, shape in given.items()}
        unknown = [name for name in names if given[name] is None]
        if unknown:
            raise RunFailed("TensorRT did not tell the size of output '%s'" % unknown[0])
        if cut is not None:
            given = {name: _cut(shape, *cut) for name, shape in given.items()}
        self._download(buffers, names, given)
        return Pending(self, buffers, [(self._outputs[name], given[name]) for name in names])

    def _upload(self, buffers, shapes):
        if not buffers.copies:
            return
        for tensor in self._inputs:
            if not tensor.on_host:
                buffers.buffers[tensor.name].upload(_nbytes(tensor, shapes[tensor.name]), self._up)
        buffers.uploaded.record(self._up)
        self._work.wait_for_event(buffers.uploaded)

    def _download(self, buffers, names, given):
        if not buffers.copies:
            buffers.done.record(self._work)
            return
        buffers.computed.record(self._work)
        self._down.wait_for_event(buffers.computed)
        for name in names:
            if not self._outputs[name].on_host:
                buffers.buffers[name].download(_nbytes(self._outputs[name], given[name]), self._down)
        buffers.done.record(self._down)

    def _give_up(self, buffers):
        """Nothing of the run that failed may still be at work when its memory is used again."""
        try:
            for stream in (self._up, self._work, self._down):
                stream.synchronize()
        except self._found.cuda.Error as error:
            failures.end_process("%s: %s" % (self._path, error))
        self._free.put(buffers)

    def _want_of_memory(self, parts, error):
        asked = sum(array.nbytes for arrays in parts.values() for array in arrays)
        free = self._found.device.free_bytes()
        text = "there is no GPU memory for this batch (inputs of %s, %s free): %s"
        return text % (failures.megabytes(asked), failures.megabytes(free), shortened(error))

    def wait(self, buffers):
        """Waits for a run, on any thread that has entered."""
        try:
            buffers.done.synchronize()
        except self._found.cuda.Error as error:
            failures.end_process("%s: %s" % (self._path, error))

    def release(self, buffers):
        """The memory may be used for another run."""
        self._free.put(buffers)

    def close(self):
        """Frees all that it made; no run may be on its way."""
        try:
            self._free_all()
            loaded.release(self._plan)
        except self._found.cuda.Error as error:
            failures.end_process("%s: %s" % (self._path, error))
        finally:
            self._found.device.leave()

    def _free_all(self):
        """By the thread that made it, the context before the engine."""
        if self._runs is not None:
            self._runs.close()
        for one in self._sets:
            one.free()
        self._sets, self._free = [], None
        self._up = self._work = self._down = None


class Pending:
    """A run on its way. Leaving the `with` block gives its memory to the next run."""

    def __init__(self, engine, buffers, outputs):
        self._engine = engine
        self._buffers = buffers
        self._outputs = outputs  # (tensor, shape) each

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._engine.release(self._buffers)

    def result(self):
        """The outputs, once they are there; they lie in memory that the next run writes."""
        self._engine.wait(self._buffers)
        return [self._buffers.buffers[tensor.name].array(tensor.dtype, shape) for tensor, shape in self._outputs]


def _usable(plan, path, options):
    """The profiles that the engine may use: those that its instance group names, as Triton has it."""
    try:
        return profiles.named(plan.profiles, options.get("profiles", ()))
    except LookupError as error:
        text = "%s: instance_group names profile %s, and the plan has profiles 0 to %d"
        raise LoadError(text % (path, error, len(plan.profiles) - 1)) from error


def _joined(arrays):
    first = arrays[0].shape
    return first if len(arrays) == 1 else (sum(array.shape[0] for array in arrays),) + first[1:]


def _cut(shape, padded, rows):
    return (rows,) + shape[1:] if shape and shape[0] == padded else shape


def _gather(room, arrays):
    """The only copy of the requests' rows: from their slots to where the GPU takes them. Rows that are added are zeros."""
    if len(arrays) == 1 and room.shape == arrays[0].shape:
        room[...] = arrays[0]
        return
    at = 0
    for array in arrays:
        room[at : at + array.shape[0]] = array
        at += array.shape[0]
    room[at:] = 0


def _nbytes(tensor, shape):
    count = tensor.dtype.itemsize
    for dim in shape:
        count *= dim
    return count
