"""Results that did not fit their slot, kept until the agent gives a larger one or drops them."""

import collections
import threading

_MAX_ANSWERS = 64
_MAX_BYTES = 256 << 20


class KeptAnswers:
    """Bounded by count and bytes; the oldest goes first, and is counted. For two threads."""

    def __init__(self, max_answers=_MAX_ANSWERS, max_bytes=_MAX_BYTES):
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._answers = collections.OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self.evicted = 0

    def put(self, batch, request, payload, nbytes):
        """Keeps one answer; one alone is kept whatever its size."""
        with self._lock:
            self._answers[(batch, request)] = (payload, nbytes)
            self._bytes += nbytes
            while len(self._answers) > 1 and (len(self._answers) > self._max_answers or self._bytes > self._max_bytes):
                _, (_, gone) = self._answers.popitem(last=False)
                self._bytes -= gone
                self.evicted += 1

    def take(self, batch, request):
        """The answer, no longer kept; None when there is none (any more)."""
        with self._lock:
            payload, nbytes = self._answers.pop((batch, request), (None, 0))
            self._bytes -= nbytes
            return payload

    def __len__(self):
        return len(self._answers)
