"""Wrong tokens leave a trace: one event a minute and address, so that guessing shows and cannot flood the store."""

from __future__ import annotations

from typing import Dict

from aiohttp import web

from edge_agent.api.services import StoreDoor
from edge_agent.domain.clock import Clock
from edge_agent.errors import AccessError

_EVERY_S = 60.0
_MAX_ADDRESSES = 256


class DeniedLog:
    """Notes refused tokens."""

    def __init__(self, store: StoreDoor, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._noted: Dict[str, float] = {}
        self.refused = 0  #: requests with a token that was not enough

    def note(self, request: web.Request, error: AccessError) -> None:
        """A request was refused; those without a token are no news."""
        if "Authorization" not in request.headers:
            return
        self.refused += 1
        address = request.remote or "unknown"
        now = self._clock.monotonic()
        if now - self._noted.get(address, -_EVERY_S) < _EVERY_S:
            return
        if len(self._noted) >= _MAX_ADDRESSES:
            self._noted.pop(next(iter(self._noted)))
        self._noted.pop(address, None)
        self._noted[address] = now
        self._store.event("access.denied", address, code=error.code, args={"address": address, "text": str(error)})
