"""Streams: a thread each that does its jobs in order, so that work overlaps as on a device; captured into graphs too."""

import itertools
import queue
import threading

from fake_gpu import driver

_handles = itertools.count(0x5EED0001)
_streams = {}
_graphs = {}


class Work:
    """The jobs of one stream. A job raises nothing: what fails on a device breaks its context down."""

    def __init__(self):
        self.handle = next(_handles)
        self._jobs = queue.Queue()
        self._recorded = None
        _streams[self.handle] = self
        threading.Thread(target=self._run, name="fake-stream", daemon=True).start()

    def put(self, job):
        """Done after all that was put before; while the stream is captured, kept instead."""
        if self._recorded is not None:
            self._recorded.append(job)
        else:
            self._jobs.put(job)

    def mark(self):
        """An event that is set when all that was put so far is done."""
        done = threading.Event()
        if self._recorded is None:
            self._jobs.put(done.set)
        else:
            done.set()  # events recorded into a graph order it, and nothing else
        return done

    @property
    def capturing(self):
        """Whether jobs are recorded now."""
        return self._recorded is not None

    def begin_capture(self):
        """From now on jobs are recorded; the code of it."""
        if self._recorded is not None:
            return 901
        self._recorded = []
        return 0

    def end_capture(self):
        """(code, number of a graph)."""
        if self._recorded is None:
            return 901, 0
        jobs, self._recorded = self._recorded, None
        return 0, keep_graph(jobs)

    def close(self):
        """The thread ends after what was put."""
        if _streams.pop(self.handle, None) is not None:
            self._jobs.put(None)

    def _run(self):
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job()


def find(handle):
    """The stream of a handle; None for the default one and for streams of another driver."""
    return _streams.get(int(handle))


def run(handle, job):
    """Puts a job on the stream of that handle, or does it at once where it is no stream of this driver."""
    work = find(handle)
    if work is None:
        job()
    else:
        work.put(job)


def keep_graph(jobs):
    """A number for recorded jobs."""
    number = next(_handles)
    _graphs[number] = jobs
    return number


def graph(number):
    """The jobs of a graph; None when there is none of that number."""
    return _graphs.get(number)


def drop_graph(number):
    """The code of destroying a graph."""
    return 0 if _graphs.pop(number, None) is not None else 400


def live_graphs():
    """How many graphs and executables there are."""
    return len(_graphs)


def illegal_in_capture(work):
    """The code of waiting for a stream that is captured; it spoils the capture."""
    if work is not None and work.capturing:
        work.end_capture()
        return 900
    return driver.state.sticky
