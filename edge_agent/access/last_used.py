"""Writes when tokens were last used, once a minute and off the loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Optional

from edge_agent.access.tokens import TokenFile
from edge_agent.errors import ConfigError

_log = logging.getLogger(__name__)


class LastUsed:
    """The service around TokenFile.save_uses."""

    def __init__(self, tokens: TokenFile, interval_s: float = 60.0, stop_timeout_s: float = 5.0) -> None:
        self._tokens = tokens
        self._interval_s = interval_s
        self._stop_timeout_s = stop_timeout_s
        self._task: Optional[asyncio.Task[None]] = None

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="tokens-last-used")

    async def stop(self) -> None:
        """Write the last uses and end."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait({task})
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._save(), self._stop_timeout_s)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._save()

    async def _save(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._tokens.save_uses)
        except ConfigError as error:
            _log.warning("when tokens were last used is not kept: %s", error, extra={"code": "access.tokens_unwritable"})
