"""CUDA graphs: a run whose shapes and memory come again and again is recorded once and launched as one piece.

NVIDIA warrants nothing for a graph whose context was changed after its recording, by other shapes or another profile: then
all of them are dropped. Through the driver by ctypes, since PyCUDA of old has none of it.
"""

import ctypes
import sys

_SEEN_BEFORE = 3  # so many plain runs come first
_SEEN_AT_MOST = 64
_THREAD_LOCAL = 1  # what other threads do meanwhile does not spoil the recording


class GraphsFailed(Exception):
    """The driver refused; the code says why."""


class Graphs:
    """The recorded runs of one execution context as it is, one for each key: a set of memory.

    A recording that fails ends them for good; plain runs go on.
    """

    def __init__(self, native, label):
        self._native = _functions(native)
        self._label = label
        self._seen = {}  # key: how often it ran plainly
        self._made = {}  # key: executable graph
        self._wanted = _SEEN_BEFORE
        self.on = self._native is not None
        self.launched = 0

    def __len__(self):
        return len(self._made)

    def launch(self, key, stream):
        """Launches the graph of the key; False where there is none. GraphsFailed when the driver cannot."""
        graph = self._made.get(key)
        if graph is None:
            return False
        code = self._native.cuGraphLaunch(graph, ctypes.c_void_p(stream))
        if code:
            raise GraphsFailed("cuGraphLaunch answered %d" % code)
        self.launched += 1
        return True

    def ran(self, key):
        """A plain run of the key took place."""
        self._seen[key] = self._seen.get(key, 0) + 1

    def due(self, key):
        """Whether it came often enough to be recorded."""
        return self.on and self._seen.get(key, 0) >= self._wanted

    def record(self, key, stream, enqueue):
        """Records what `enqueue()` puts on the stream, without running it; False when that failed and graphs are off now."""
        try:
            graph = self._capture(ctypes.c_void_p(stream), enqueue)
        except GraphsFailed as error:
            sys.stderr.write("%s: runs without CUDA graphs: %s\n" % (self._label, error))
            sys.stderr.flush()
            self.on = False
            self.clear()
            return False
        self._made[key] = graph
        return True

    def _capture(self, stream, enqueue):
        code = self._native.cuStreamBeginCapture_v2(stream, ctypes.c_int(_THREAD_LOCAL))
        if code:
            raise GraphsFailed("cuStreamBeginCapture answered %d" % code)
        enqueued = False
        graph = ctypes.c_void_p()
        try:
            enqueued = enqueue()
        finally:
            code = self._native.cuStreamEndCapture(stream, ctypes.byref(graph))
        try:
            if code or not enqueued or not graph.value:
                raise GraphsFailed("the run cannot be recorded (cuStreamEndCapture answered %d)" % code)
            executable = ctypes.c_void_p()
            code = self._native.instantiate(executable, graph)
            if code:
                raise GraphsFailed("cuGraphInstantiate answered %d" % code)
            return executable
        finally:
            if graph.value:
                self._native.cuGraphDestroy(graph)

    def forget(self, key):
        """Destroys the graph of a key: its memory has moved."""
        if key in self._made:
            self._native.cuGraphExecDestroy(self._made.pop(key))
        self._seen.pop(key, None)

    def drop(self):
        """Destroys all, since the context changes; where sizes come by turns, more and more runs are awaited next time."""
        if self._made:
            self._wanted = min(2 * self._wanted, _SEEN_AT_MOST)
        self.clear()

    def clear(self):
        """Destroys all."""
        while self._made:
            self._native.cuGraphExecDestroy(self._made.popitem()[1])
        self._seen.clear()


class _Functions:
    """The driver's functions."""


_NEEDED = (
    "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy",
)  # fmt: skip


def _functions(native):
    """The functions of a driver; None where one is missing."""
    found = _Functions()
    for name in _NEEDED:
        function = getattr(native, name, None)
        if function is None:
            return None
        setattr(found, name, function)
    found.instantiate = _instantiate(native)
    return found if found.instantiate is not None else None


def _instantiate(native):
    """From 11.4 on it takes flags; before, room for a log."""
    with_flags = getattr(native, "cuGraphInstantiateWithFlags", None)
    if with_flags is not None:
        return lambda made, graph: with_flags(ctypes.byref(made), graph, ctypes.c_ulonglong(0))
    before = getattr(native, "cuGraphInstantiate_v2", None) or getattr(native, "cuGraphInstantiate", None)
    if before is None:
        return None
    return lambda made, graph: before(ctypes.byref(made), graph, None, None, ctypes.c_size_t(0))
