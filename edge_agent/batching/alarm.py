"""One timer that is set anew whenever something else comes next."""

from __future__ import annotations

import asyncio
from typing import Callable, Optional

from edge_agent.domain.clock import Clock


class Alarm:
    """Calls back at a moment: no poll stands between a deadline and what is due then."""

    def __init__(self, clock: Clock, on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._timer: Optional[asyncio.TimerHandle] = None
        self._at = 0.0

    def set(self, at: Optional[float]) -> None:
        """For this monotonic second instead of any other; None or infinity is never."""
        if self._timer is not None:
            if at == self._at:
                return
            self._timer.cancel()
            self._timer = None
        if at is not None and at != float("inf"):
            self._at = at
            delay = max(0.0, at - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._due)

    def _due(self) -> None:
        self._timer = None
        self._on_due()
