"""Feeds the service manager's watchdog from real progress: the loop turns and the store's writer moves."""

from __future__ import annotations

import asyncio
import logging
from typing import Callable

from edge_agent.telemetry.notify import ServiceManager
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)


class Watchdog:
    """Says WATCHDOG=1 only when `progress()` has moved since the last time; a dead engine host does not withhold it."""

    def __init__(self, manager: ServiceManager, progress: Callable[[], int]) -> None:
        self._manager = manager
        self._progress = progress
        self._tasks = Tasks()

    async def start(self) -> None:
        """Begins, where the service manager watches."""
        if self._manager.watchdog_interval_s is not None:
            self._tasks.spawn(self._run(self._manager.watchdog_interval_s), "watchdog")

    async def stop(self) -> None:
        """Ends the feeding."""
        await self._tasks.stop()

    async def _run(self, interval_s: float) -> None:
        last = -1
        while True:
            moved = self._progress()
            if moved != last:
                self._manager.watchdog()
            else:
                _log.error("the store's writer does not move: the watchdog is not fed", extra={"code": "store.failed"})
            last = moved
            await asyncio.sleep(interval_s)
