"""PyCUDA's streams and events."""

import threading
import time

from fake_gpu import driver, streams
from fake_gpu.counts import Counted
from fake_gpu.cuda_errors import LogicError, check, need_context
from fake_gpu.cuda_flags import event_flags


class Stream(Counted):
    """Work in order."""

    def __init__(self, flags=0):
        need_context()
        self._work = streams.Work()
        self._count()

    def __del__(self):
        if self._release():
            self._work.close()

    @property
    def handle(self):
        return self._work.handle

    def synchronize(self):
        code = streams.illegal_in_capture(self._work)
        if not code:
            self._work.mark().wait()
            code = driver.state.sticky
        check("cuStreamSynchronize", code)

    def is_done(self):
        check("cuStreamQuery", streams.illegal_in_capture(self._work))
        return self._work.mark().wait(0.001)

    def wait_for_event(self, evt):
        check("cuStreamWaitEvent", driver.state.sticky)
        done = evt._done
        if done is not None:
            self._work.put(done.wait)


class Event(Counted):
    """A place in a stream."""

    def __init__(self, flags=0):
        need_context()
        self._timing = not flags & event_flags.DISABLE_TIMING
        self._done = None
        self._at = [0.0]
        self._count()

    def record(self, stream=None):
        need_context("cuEventRecord")
        self._at = at = [0.0]
        if stream is None:
            self._done = threading.Event()
            at[0] = time.monotonic()
            self._done.set()
            return self
        if not stream._work.capturing:
            stream._work.put(lambda: at.__setitem__(0, time.monotonic()))
        self._done = stream._work.mark()
        return self

    def synchronize(self):
        if self._done is not None:
            self._done.wait()
        check("cuEventSynchronize", driver.state.sticky)
        return self

    def query(self):
        check("cuEventQuery", driver.state.sticky)
        return self._done is None or self._done.is_set()

    def time_since(self, start):
        if not self._timing or not start._timing or self._done is None or start._done is None:
            raise LogicError("cuEventElapsedTime failed: invalid resource handle")
        if not self._done.is_set() or not start._done.is_set():
            raise LogicError("cuEventElapsedTime failed: device not ready")
        return (self._at[0] - start._at[0]) * 1000.0

    def time_till(self, end):
        return end.time_since(self)
