"""How long to wait before the next connection, and whether someone else uses our client id; pure."""

from __future__ import annotations

import random
from typing import Callable

_SHORT_LIFE_S = 20.0  #: a connection that ends sooner proves nothing
_DUELS = 3  #: so many short lives in a row, each ended by the broker right after an accepted connect: a second client
_DUEL_LIMIT_S = 180.0


class Backoff:
    """Doubling delays with jitter, forgotten after a connection that lasted."""

    def __init__(self, first_s: float, limit_s: float, chance: Callable[[], float] = random.random) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._chance = chance
        self._step = 0
        self._duels = 0
        self._last_s = 0.0

    @property
    def duel(self) -> bool:
        """Whether it looks as if another client with our id throws us out again and again."""
        return self._duels >= _DUELS

    def failed(self) -> float:
        """Seconds to wait after a connection that never came about."""
        self._duels = 0
        return self._next(self._limit_s)

    def lost(self, lived_s: float, thrown_out: bool) -> float:
        """Seconds to wait after a connection that worked for `lived_s`; `thrown_out`: the broker ended it."""
        if lived_s >= max(_SHORT_LIFE_S, 2 * self._last_s):
            self._step = 0
        short = self._step > 0 or lived_s < _SHORT_LIFE_S
        self._duels = self._duels + 1 if short and thrown_out else 0
        return self._next(max(_DUEL_LIMIT_S, self._limit_s) if self.duel else self._limit_s)

    def _next(self, limit_s: float) -> float:
        delay = min(limit_s, self._first_s * 2.0 ** min(self._step, 30))
        self._step += 1
        self._last_s = delay
        return delay * (0.5 + 0.5 * self._chance())
