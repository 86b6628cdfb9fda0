"""The door: requests are counted from their head to their answer, and none comes in any more once the agent stops."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Callable, Iterator, List

from edge_agent.errors import Draining

#: what tells how the agent is: answered to the end, and not waited for
_ALWAYS_OPEN = frozenset({"/v2/health/live", "/v2/health/ready", "/api/status", "/metrics", "/metrics/"})


class Door:
    """What has begun goes on to its end, whatever it still needs: its body, a picture decoded, a slot, a model."""

    def __init__(self, draining: Callable[[], bool]) -> None:
        self._draining = draining
        self._waiting: List[asyncio.Future[None]] = []
        self.in_flight = 0
        self.refused = 0  #: requests that came while the agent stopped

    @contextlib.contextmanager
    def passage(self, path: str) -> Iterator[None]:
        """Around one request; Draining when it may not come in."""
        if path in _ALWAYS_OPEN:
            yield
            return
        if self._draining():
            self.refused += 1
            raise Draining("Server exiting")
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._tell()

    async def drained(self, timeout_s: float) -> bool:
        """Waits until nothing is in flight; False when something still is after that time."""
        if self.in_flight:
            told = asyncio.get_running_loop().create_future()
            self._waiting.append(told)
            await asyncio.wait({told}, timeout=timeout_s)
        return not self.in_flight

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            told.set_result(None)
