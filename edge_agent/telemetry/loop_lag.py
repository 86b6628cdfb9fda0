"""How late the event loop comes to what is due: the one number that says whether anything blocks it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Deque, Optional


class LoopLag:
    """Sleeps a little again and again and notes how much later than asked it woke."""

    def __init__(self, interval_s: float = 0.05, kept: int = 1200) -> None:
        self._interval_s = interval_s
        self._lags_s: Deque[float] = deque(maxlen=kept)  # a minute at the default interval; the oldest goes
        self._task: Optional[asyncio.Task[None]] = None

    async def start(self) -> None:
        """Begins to measure."""
        self._task = asyncio.create_task(self._measure())

    async def stop(self) -> None:
        """Ends; what was measured stays readable."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def p50_ms(self) -> float:
        """Median lag of the last minute in milliseconds; 0 before the first measure."""
        return self._quantile_ms(0.50)

    @property
    def p99_ms(self) -> float:
        """99th percentile of the last minute in milliseconds; 0 before the first measure."""
        return self._quantile_ms(0.99)

    @property
    def max_ms(self) -> float:
        """Worst of the last minute in milliseconds."""
        return max(self._lags_s, default=0.0) * 1e3

    def _quantile_ms(self, share: float) -> float:
        ordered = sorted(self._lags_s)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e3 if ordered else 0.0

    async def _measure(self) -> None:
        while True:
            due = time.monotonic() + self._interval_s
            await asyncio.sleep(self._interval_s)
            self._lags_s.append(max(time.monotonic() - due, 0.0))
