"""When to dial again after a connection, and whether someone else uses our client id; pure."""

from __future__ import annotations

import random

from edge_agent.processes.backoff import Backoff

_SHORT_LIFE_S = 20.0  #: a connection that ends sooner proves nothing
_DUELS = 3  #: so many short lives in a row, each ended by the broker right after an accepted connect: a second client
_DUEL_CAP_S = 180.0


class Redial:
    """Waits that double with each failure, forgotten after a connection that lasted."""

    def __init__(self, first_s: float, cap_s: float, rng: random.Random) -> None:
        self._usual = Backoff(first_s, cap_s, rng)
        self._in_duel = Backoff(first_s, max(_DUEL_CAP_S, cap_s), rng)
        self._last_s = 0.0  #: the wait before this connection; 0 after one that lasted
        self._duels = 0

    @property
    def duel(self) -> bool:
        """Whether it looks as if another client with our id throws us out again and again."""
        return self._duels >= _DUELS

    def failed(self) -> float:
        """Seconds to wait after a connection that never came about."""
        self._duels = 0
        return self._next()

    def lost(self, lived_s: float, thrown_out: bool) -> float:
        """Seconds to wait after a connection that worked for `lived_s`; `thrown_out`: the broker ended it."""
        if lived_s >= max(_SHORT_LIFE_S, 2 * self._last_s):
            self._usual.reset()
            self._in_duel.reset()
            self._last_s = 0.0
        short = self._last_s > 0 or lived_s < _SHORT_LIFE_S
        self._duels = self._duels + 1 if short and thrown_out else 0
        return self._next()

    def _next(self) -> float:
        usual_s, duel_s = self._usual.next_s(), self._in_duel.next_s()
        self._last_s = duel_s if self.duel else usual_s
        return self._last_s
