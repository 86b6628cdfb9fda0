"""Who may use the image child now: in order of asking, so many at once, so many waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Deque, Tuple

from edge_agent.errors import DeadlineExceeded, QueueFull


class Turns:
    """A counting gate whose waiters are served strictly in order, those who want it all included."""

    def __init__(self, at_once: int, max_waiting: int) -> None:
        self._free = at_once
        self._max_waiting = max_waiting
        self._waiting: Deque[Tuple[int, asyncio.Future[None]]] = deque()
        self.refused = 0  #: turned away because too many waited

    async def take(self, places: int, timeout_s: float) -> None:
        """Takes so many places. DeadlineExceeded when they are not had in time, QueueFull when too many wait already."""
        if not self._waiting and self._free >= places:
            self._free -= places
            return
        if len(self._waiting) >= self._max_waiting:
            self.refused += 1
            raise QueueFull("%d others wait already" % self._max_waiting)
        loop = asyncio.get_running_loop()
        entry = (places, loop.create_future())
        self._waiting.append(entry)
        try:
            await asyncio.wait({entry[1]}, timeout=max(0.0, timeout_s))
        except asyncio.CancelledError:
            self._leave(entry)
            raise
        if not entry[1].done():
            self._leave(entry)
            raise DeadlineExceeded("no turn came in time: others were before")

    def give(self, places: int) -> None:
        """Gives them back."""
        self._free += places
        while self._waiting and self._free >= self._waiting[0][0]:
            wanted, turn = self._waiting.popleft()
            self._free -= wanted
            turn.set_result(None)

    def _leave(self, entry: Tuple[int, asyncio.Future[None]]) -> None:
        """Does not want it any more: gives it back if it was just granted."""
        if entry[1].done():
            self.give(entry[0])
            return
        self._waiting.remove(entry)
        self.give(0)
