"""TensorRT's one logger of a process: its lines go to stderr, what it complained of is kept for texts."""

import collections
import sys
import threading

_KEPT = 40
_SHOWN = 3
_LINE = 400


def make(trt):
    """The logger; TensorRT lets only the first of a process count."""
    loud = (trt.ILogger.Severity.INTERNAL_ERROR, trt.ILogger.Severity.ERROR)
    told = (*loud, trt.ILogger.Severity.WARNING)

    class Log(trt.ILogger):
        """Called by TensorRT from any thread."""

        def __init__(self):
            trt.ILogger.__init__(self)
            self.count = 0
            self.lines = collections.deque(maxlen=_KEPT)  #: (number, is it an error, line, the thread that was told)

        def log(self, severity, msg):
            """Notes what matters; TensorRT's chatter is dropped."""
            if severity not in told:
                return
            line = " ".join(str(msg).split())[:_LINE]
            self.count += 1
            self.lines.append((self.count, severity in loud, line, threading.get_ident()))
            sys.stderr.write("TensorRT: %s\n" % line)
            sys.stderr.flush()

    return Log()


class Hearing:
    """What the logger says within a `with` block. It is one for all threads: others may be at work meanwhile."""

    def __init__(self, log):
        self._log = log
        self._from = 0
        self._thread = threading.get_ident()

    def __enter__(self):
        self._from = self._log.count
        return self

    def __exit__(self, *_):
        return False

    @property
    def lines(self):
        """Lines since then, errors first: this thread's own, all where it has none."""
        found = [(not loud, line, thread) for number, loud, line, thread in list(self._log.lines) if number > self._from]
        own = [one for one in found if one[2] == self._thread]
        return [line for _, line, _ in sorted(own or found, key=lambda one: one[0])]

    @property
    def own_errors(self):
        """Errors that this thread was told since then, for verdicts that another thread's lines may not change."""
        lines = list(self._log.lines)
        return [line for number, loud, line, thread in lines if number > self._from and loud and thread == self._thread]

    @property
    def words(self):
        """The first few of them in one line, for a text; plain words where it said nothing."""
        return "; ".join(dict.fromkeys(self.lines[:_SHOWN])) or "TensorRT did not say why"
