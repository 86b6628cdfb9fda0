"""Wrong tokens leave a trace: guessing shows in the events, and cannot flood the store, from however many addresses."""

from __future__ import annotations

from collections import OrderedDict
from typing import Dict

from aiohttp import web

from edge_agent.api.services import StoreDoor
from edge_agent.domain.clock import Clock
from edge_agent.errors import AccessError

_EVERY_S = 60.0
#: events within that time, one an address; what comes beyond is counted
MAX_EVENTS = 32


class DeniedLog:
    """Notes refused tokens: each address once a minute, and so many addresses in all."""

    def __init__(self, store: StoreDoor, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._noted: OrderedDict[str, float] = OrderedDict()  # when each address was noted, the oldest first
        self.refused = 0  #: requests with a token that was not enough
        self.unnoted = 0  #: those of them that no event tells of

    def note(self, request: web.Request, error: AccessError) -> None:
        """A request was refused; those without a token are no news."""
        if "Authorization" not in request.headers:
            return
        self.refused += 1
        address = request.remote or "unknown"
        self._forget(self._clock.monotonic() - _EVERY_S)
        if address in self._noted or len(self._noted) >= MAX_EVENTS:
            self.unnoted += 1
            return
        self._noted[address] = self._clock.monotonic()
        self._store.event("access.denied", address, code=error.code, args={"address": address, "text": str(error)})

    def status(self) -> Dict[str, int]:
        """Its counters."""
        return {"refused": self.refused, "unnoted": self.unnoted}

    def _forget(self, until: float) -> None:
        while self._noted and next(iter(self._noted.values())) <= until:
            self._noted.popitem(last=False)
