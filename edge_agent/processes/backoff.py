"""How long to wait before the next try."""

from __future__ import annotations

import random

_MAX_DOUBLINGS = 32


class Backoff:
    """Doubles from `first_s` to `cap_s`, each time with jitter between half and all of it."""

    def __init__(self, first_s: float, cap_s: float, rng: random.Random) -> None:
        self._first_s = first_s
        self._cap_s = cap_s
        self._rng = rng
        self._tries = 0

    def next_s(self) -> float:
        """Seconds to wait now."""
        whole = min(self._cap_s, self._first_s * 2.0 ** min(self._tries, _MAX_DOUBLINGS))
        self._tries += 1
        return whole * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It works again: the next wait is the first one."""
        self._tries = 0
