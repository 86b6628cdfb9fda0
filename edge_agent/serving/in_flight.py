"""The requests that are being answered, and when there is none any more."""

from __future__ import annotations

import asyncio
from typing import Optional


class InFlight:
    """A count, for the end of the agent: what is in flight then is waited for."""

    def __init__(self) -> None:
        self.count = 0
        self._idle: Optional[asyncio.Event] = None  #: set when the last request ends

    def enter(self) -> None:
        """A request came."""
        self.count += 1

    def leave(self) -> None:
        """It ended."""
        self.count -= 1
        if not self.count and self._idle is not None:
            self._idle.set()

    async def ended(self, timeout_s: float) -> bool:
        """Waits until there is none; False when the time was over first."""
        self._idle = asyncio.Event()
        if self.count:
            try:
                await asyncio.wait_for(self._idle.wait(), timeout_s)
            except asyncio.TimeoutError:
                return False
        return not self.count
