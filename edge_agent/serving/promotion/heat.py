"""Whether the board is too hot to run a second version, and whether that version is what makes it hot: pure."""

from __future__ import annotations

from typing import Optional

_COOLER_C = 5.0  #: below the limit by this it goes on
_WINDOW_S = 600.0  #: what it heats and what its rest cools shows within this
_TIMES = 3  #: chance is that it was hot once


class Heat:
    """Pauses above the limit. Instants are monotonic seconds."""

    def __init__(self, limit_c: float) -> None:
        self.paused = False
        self._limit_c = limit_c
        self._since: Optional[float] = None  #: of what is now, running or paused
        self._suspect = False  #: it had not run for long when the board became hot
        self._blamed = 0

    @property
    def blamed(self) -> bool:
        """Whether the board became hot while it ran, and cool while it did not, again and again."""
        return self._blamed >= _TIMES

    def look(self, degrees: Optional[float], now: float) -> None:
        """The board has so many degrees now; None where it does not tell."""
        if degrees is None:
            self.paused = False
            return
        if not self.paused and degrees >= self._limit_c:
            self.paused = True
            self._suspect = self._since is not None and now - self._since <= _WINDOW_S
            self._since = now
        elif self.paused and degrees <= self._limit_c - _COOLER_C:
            if self._suspect and self._since is not None and now - self._since <= _WINDOW_S:
                self._blamed += 1
            self.paused = False
            self._since = now
        elif self._since is None:
            self._since = now
