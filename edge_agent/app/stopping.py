"""An orderly stop within one deadline, of which the store keeps a share: it closes last and must not be cut off."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Awaitable, Sequence

from edge_agent import errors
from edge_agent.app.parts import Parts, Service
from edge_agent.domain.clock import Clock

_log = logging.getLogger(__name__)

_STORE_SHARE = 0.25
_DRAIN_SHARE = 0.5


class OrderlyStop:
    """Ready has fallen; what is in flight ends, then the parts end backwards."""

    def __init__(self, parts: Parts, budget_s: float, clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._began = clock.monotonic()
        self._budget_s = budget_s

    async def run(self, running: Sequence[Service]) -> None:
        """Stops the parts that run, given in start order. What nobody foresaw is raised when all have been stopped."""
        async with contextlib.AsyncExitStack() as stack:
            for part in running:
                stack.push_async_callback(self._stop_part, part)
            self._parts.store.event("agent.stopping", code="agent.stopping")
            await self._drain()

    def _left_s(self, share: float) -> float:
        """Seconds until `share` of the budget is used."""
        return max(0.1, self._began + share * self._budget_s - self._clock.monotonic())

    async def _drain(self) -> None:
        """Nothing new comes in; what was begun ends: requests at the doors first, then those in serving."""
        parts = self._parts
        if parts.mqtt is not None:
            parts.mqtt.drain()
        cameras = asyncio.gather(*(camera.stop() for camera in parts.cameras.values()), return_exceptions=True)
        ended = await parts.api.drained(self._left_s(_DRAIN_SHARE))
        parts.serving.drain()
        if not (await parts.serving.drained(self._left_s(_DRAIN_SHARE)) and ended):
            _log.warning("stopped with requests still in flight")
        await self._within(cameras, self._left_s(_DRAIN_SHARE), "the cameras")

    async def _stop_part(self, part: Service) -> None:
        share = 1.0 if part is self._parts.store else 1.0 - _STORE_SHARE
        await self._within(part.stop(), self._left_s(share), type(part).__name__)

    @staticmethod
    async def _within(work: Awaitable[Any], limit_s: float, name: str) -> None:
        try:
            await asyncio.wait_for(work, limit_s)
        except asyncio.TimeoutError:
            _log.error("%s did not stop within %.1f s", name, limit_s)
        except errors.EdgeAgentError:
            _log.exception("%s did not stop in order", name)
