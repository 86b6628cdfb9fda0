"""How long the batch that an instance runs may take: longer for the first of its shape, and then its host hangs."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Optional, Set, Tuple

from edge_agent.domain.clock import Clock

_SHAPES_REMEMBERED = 256

Shapes = Tuple[Any, ...]


class Patience:
    """Follows the oldest batch with one timer, which is moved when it fires, not with each batch."""

    def __init__(
        self,
        label: str,
        clock: Clock,
        batch_timeout_s: float,
        load_timeout_s: float,
        on_hang: Callable[[str], None],
        on_busy: Callable[[float], None],
    ) -> None:
        self._label = label
        self._clock = clock
        self._batch_timeout_s = batch_timeout_s
        self._first_timeout_s = max(batch_timeout_s, load_timeout_s)
        self._on_hang = on_hang
        self._on_busy = on_busy
        self._run: Set[Shapes] = set()
        self._budget_s: Optional[float] = None  #: of the oldest batch; None: nothing runs
        self._since = 0.0
        self._paused_at: Optional[float] = None
        self._timer: Optional[asyncio.TimerHandle] = None

    def forget(self, warm: Optional[Shapes]) -> None:
        """A new process: of all shapes only that of its warm-up, if it had one, has run."""
        self._run = set() if warm is None else {warm}

    def budget_s(self, shapes: Shapes) -> float:
        """How long a batch of this shape may run."""
        return self._batch_timeout_s if shapes in self._run else self._first_timeout_s

    def ran(self, shapes: Shapes) -> None:
        """One of this shape was answered."""
        if len(self._run) >= _SHAPES_REMEMBERED:
            self._run.clear()
        self._run.add(shapes)

    def begin(self, budget_s: Optional[float]) -> None:
        """The oldest batch begins to run, or (None) none is left: its host may be silent meanwhile."""
        self._budget_s = budget_s
        self._since = self._clock.monotonic()
        self._paused_at = None
        self._on_busy(0.0 if budget_s is None else self._since + budget_s)
        if self._timer is None and budget_s is not None:
            self._look()

    def pause(self) -> None:
        """The oldest batch waits for another model, which has a budget of its own."""
        if self._budget_s is not None and self._paused_at is None:
            self._paused_at = self._clock.monotonic()
            self._on_busy(0.0)

    def resume(self) -> None:
        """It goes on with what was left."""
        if self._budget_s is not None and self._paused_at is not None:
            self._since += self._clock.monotonic() - self._paused_at
            self._paused_at = None
            self._on_busy(self._since + self._budget_s)

    def stop(self) -> None:
        """Nothing runs any more."""
        self._budget_s = self._paused_at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._budget_s is None:
            return
        now = self._clock.monotonic() if self._paused_at is None else self._paused_at
        left_s = self._since + self._budget_s - now
        if left_s <= 0:
            self._on_hang("a batch of %s ran for more than %g s" % (self._label, self._budget_s))
            return
        self._timer = asyncio.get_running_loop().call_later(min(left_s, self._batch_timeout_s), self._look)
