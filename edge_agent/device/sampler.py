"""The board's values, read off the loop every few seconds; who asks gets the last ones."""

from __future__ import annotations

import asyncio
from typing import Any, Dict

from edge_agent.device.sysfs import DeviceReader
from edge_agent.telemetry.tasks import Tasks

_INTERVAL_S = 2.0


class DeviceSampler:
    """Reads in a thread of the executor: some sensors answer over a slow bus, and one may hang."""

    def __init__(self, reader: DeviceReader, interval_s: float = _INTERVAL_S) -> None:
        self.values: Dict[str, Any] = {}
        self._reader = reader
        self._interval_s = interval_s
        self._tasks = Tasks()

    async def start(self) -> None:
        """Reads once, then goes on in the background."""
        await self._sample()
        self._tasks.spawn(self._run(), "device")

    async def stop(self) -> None:
        """Ends the reading."""
        await self._tasks.stop()

    async def _sample(self) -> None:
        self.values = await asyncio.get_running_loop().run_in_executor(None, self._reader.read)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._sample()
