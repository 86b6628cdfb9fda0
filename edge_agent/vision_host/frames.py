"""The newest frame of a camera, the few that somebody still wants, and the signs of life that they give."""

import collections
import threading
import zlib

from edge_agent.vision_host.instant import monotonic_ns

KEPT = 4
_HASHED_ROWS = 64
_RATE_OVER = 64  # frames


class Frame:
    """One picture with its number and the moment it came."""

    __slots__ = ("sequence", "captured_ns", "picture")

    def __init__(self, sequence, captured_ns, picture):
        self.sequence = sequence
        self.captured_ns = captured_ns
        self.picture = picture


def fingerprint(picture):
    """A cheap number that is another for another picture: some rows of it, each in full."""
    step = max(1, picture.shape[0] // _HASHED_ROWS)
    return zlib.crc32(picture[::step].tobytes())


class Frames:
    """Written by the reader thread, read by the thread that answers operations."""

    def __init__(self):
        self._changed = threading.Condition()
        self._newest = None
        self._sequence = 0
        self._filled = 0
        self._kept = collections.OrderedDict()
        self._closed = True
        self._print = None
        self._arrivals = collections.deque(maxlen=_RATE_OVER)
        self._changing_ns = 0
        self._changes = 0

    def begin(self, sequence):
        """A source was asked for: numbers go on above `sequence`, signs of life start anew."""
        with self._changed:
            self._sequence = max(self._sequence, sequence)
            self._closed = False
            self._newest = self._print = None
            self._arrivals.clear()
            self._changing_ns = self._changes = 0

    def end(self):
        """The source gives no more: who waits need not. The last frame is gone, the kept ones stay."""
        with self._changed:
            self._closed = True
            self._newest = None
            self._changed.notify_all()

    def put(self, picture):
        """The camera gave this one."""
        now = monotonic_ns()
        seen = fingerprint(picture)
        with self._changed:
            self._sequence += 1
            self._newest = Frame(self._sequence, now, picture)
            self._arrivals.append(now)
            if seen != self._print:
                self._changes += self._print is not None
                self._print = seen
                self._changing_ns = now
            self._changed.notify_all()

    def newer(self, sequence, wait_s):
        """The newest frame, once it is newer than `sequence`; None when none comes in time or the source ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._is_newer(sequence), wait_s)
            return self._newest if self._is_newer(sequence) else None

    def _is_newer(self, sequence):
        return self._newest is not None and self._newest.sequence > sequence

    def keep(self, frame):
        """Keeps it for encode(); answers how many frames came since the one kept before, unseen by anybody."""
        with self._changed:
            skipped = max(0, frame.sequence - self._filled - 1) if self._filled else 0
            self._filled = max(self._filled, frame.sequence)
            self._kept[frame.sequence] = frame
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return skipped

    def kept(self, sequence):
        """A kept frame, or the newest for sequence 0; None when it is gone."""
        with self._changed:
            return self._kept.get(sequence) if sequence else self._newest

    def drop(self, sequence):
        """Nobody will ask for it again."""
        with self._changed:
            self._kept.pop(sequence, None)

    def signs(self):
        """Signs of life since begin(): frames, fps_in, moments (0 before the first) and the number of changes."""
        with self._changed:
            arrivals = self._arrivals
            spread = arrivals[-1] - arrivals[0] if len(arrivals) > 1 else 0
            return {
                "sequence": self._sequence,
                "frame_ns": arrivals[-1] if arrivals else 0,
                "changing_ns": self._changing_ns,
                "changes": self._changes,
                "fps_in": round((len(arrivals) - 1) * 1e9 / spread, 2) if spread else 0.0,
            }
