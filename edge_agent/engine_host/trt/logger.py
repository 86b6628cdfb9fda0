"""TensorRT's one logger of a process: its lines go to stderr, what it complained of is kept for texts."""

import collections
import sys

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
            self.lines = collections.deque(maxlen=_KEPT)  #: (number, is it an error, line)

        def log(self, severity, msg):
            """Notes what matters; TensorRT's chatter is dropped."""
            if severity not in told:
                return
            line = " ".join(str(msg).split())[:_LINE]
            self.count += 1
            self.lines.append((self.count, severity in loud, line))
            sys.stderr.write("TensorRT: %s\n" % line)
            sys.stderr.flush()

    return Log()


class Hearing:
    """What the logger says within a `with` block."""

    def __init__(self, log):
        self._log = log
        self._from = 0

    def __enter__(self):
        self._from = self._log.count
        return self

    def __exit__(self, *_):
        return False

    @property
    def lines(self):
        """All lines since then, errors first."""
        found = [(not loud, line) for number, loud, line in list(self._log.lines) if number > self._from]
        return [line for _, line in sorted(found, key=lambda pair: pair[0])]

    @property
    def words(self):
        """The first few of them in one line, for a text; plain words where it said nothing."""
        return "; ".join(dict.fromkeys(self.lines[:_SHOWN])) or "TensorRT did not say why"
