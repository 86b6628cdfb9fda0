"""When a camera's next frame is due: `max_fps` kept by a schedule, not by sleeping after the work. Pure."""

from __future__ import annotations

from typing import List


class Pace:
    """Ticks 1/max_fps apart; ticks that could not be kept are left out, not made up for. 0 is no bound."""

    def __init__(self, max_fps: float) -> None:
        self._period_s = 1.0 / max_fps if max_fps > 0 else 0.0
        self._next_at = 0.0

    def due_at(self, now: float) -> float:
        """When the next frame may begin, monotonic seconds; never before `now`."""
        return max(now, self._next_at)

    def took(self, now: float) -> None:
        """A frame began at `now`."""
        late = now - self._next_at
        self._next_at = now + self._period_s if late > self._period_s else self._next_at + self._period_s


class Rate:
    """Events a second over the last few seconds."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._at: List[float] = []

    def count(self, now: float) -> None:
        """One event."""
        self._at.append(now)
        self._trim(now)

    def per_second(self, now: float) -> float:
        """The rate now; 0.0 when nothing came for a while."""
        self._trim(now)
        return round(len(self._at) / self._window_s, 2)

    def _trim(self, now: float) -> None:
        keep = 0
        while keep < len(self._at) and self._at[keep] <= now - self._window_s:
            keep += 1
        del self._at[:keep]
