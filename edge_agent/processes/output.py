"""What a child prints, line by line into the log, bounded in length and rate."""

from __future__ import annotations

import asyncio
import logging
import os

from edge_agent.domain.clock import Clock

_MAX_LINE = 1000
_MAX_LINES_A_SECOND = 50
_CHUNK = 16384
_TELLING_S = 2.0


class ChildOutput:
    """Reads the pipe that is a child's stdout and stderr into the logger `child.<name>`, on the loop that runs when it is made.

    Lines over the rate are counted, not logged; the last one is kept, as it often says why a child ended.
    """

    def __init__(self, descriptor: int, name: str, clock: Clock) -> None:
        self._descriptor = descriptor
        self._log = logging.getLogger("child." + name)
        self._clock = clock
        self._rest = b""
        self._second = 0
        self._lines = 0
        self._skipped = 0
        self.closed = False
        self._last = ""
        self._last_at = 0.0
        os.set_blocking(descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._readable)

    @property
    def last(self) -> str:
        """The last line, if it is of this moment: an older one says nothing about the child's end."""
        return self._last if self._clock.monotonic() - self._last_at < _TELLING_S else ""

    def close(self) -> None:
        """Reads what is left in the pipe, then closes it. Idempotent."""
        if self.closed:
            return
        for _ in range(4):  # a pipe holds 64 KiB
            if self.closed or not self._readable():
                break
        self._end()

    def _end(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._take_line(self._rest)
        self._rest = b""
        self._say_skipped()

    def _readable(self) -> bool:
        """One chunk; False when there was nothing to read."""
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self._end()
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take_line(line)
        if len(self._rest) > _MAX_LINE:
            self._take_line(self._rest)
            self._rest = b""
        return True

    def _take_line(self, line: bytes) -> None:
        text = line[:_MAX_LINE].decode("utf-8", "replace").rstrip()
        if not text:
            return
        self._last, self._last_at = text, self._clock.monotonic()
        second = int(self._clock.monotonic())
        if second != self._second:
            self._say_skipped()
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > _MAX_LINES_A_SECOND:
            self._skipped += 1
        else:
            self._log.info("%s", text)

    def _say_skipped(self) -> None:
        if self._skipped:
            self._log.warning("%d more lines within a second were not logged", self._skipped)
            self._skipped = 0
