"""Time: monotonic for intervals, aware UTC for records. The one home of both."""

from __future__ import annotations

import functools
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Optional

from edge_agent.domain.discipline import kernel_clock_synced
from edge_agent.domain.results import Instant

_EARLIEST_TRUE = datetime(2024, 1, 1, tzinfo=timezone.utc).timestamp()


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 UTC with milliseconds."""
    second, microsecond = divmod(round(seconds * 1e6), 1_000_000)
    return "%s.%03dZ" % (_to_the_second(second), microsecond // 1000)


@functools.lru_cache(maxsize=8)
def _to_the_second(seconds: int) -> str:
    """Kept: every request has its time, and many share a second."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def _read_boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


class Clock:
    """Monotonic seconds for waiting, wall time for rows."""

    def __init__(self, boot_id: Optional[str] = None) -> None:
        self.boot_id = boot_id if boot_id is not None else _read_boot_id()

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return time.monotonic()

    def monotonic_ns(self) -> int:
        """The same in nanoseconds; comparable between processes of one boot."""
        return time.monotonic_ns()

    def wall(self) -> float:
        """Seconds since the epoch, as the machine believes."""
        return time.time()

    def now(self) -> str:
        """The wall clock as RFC 3339 UTC with milliseconds."""
        return rfc3339(self.wall())

    def synced(self) -> bool:
        """Whether the wall clock follows a time source, as the kernel says."""
        return self.plausible() and kernel_clock_synced()

    def plausible(self) -> bool:
        """Whether the wall clock has ever been set: a board without RTC starts in 1970 or at its image's date."""
        return self.wall() >= _EARLIEST_TRUE

    def instant(self, monotonic_ns: Optional[int] = None) -> Instant:
        """The moment of `monotonic_ns` (now when None) with its wall time."""
        now_ns = self.monotonic_ns()
        at_ns = now_ns if monotonic_ns is None else monotonic_ns
        wall = self.wall() - (now_ns - at_ns) / 1e9
        return Instant(rfc3339(wall), self.synced(), self.boot_id, at_ns)
