"""A model instance without a host: runs batches after a settable time, answers with what was asked, can die."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, List, Optional

from edge_agent import errors
from edge_agent.domain.results import Detection
from edge_agent.engines.batch import Batch, BatchOwner, Outcome, Ran


class FakeInstance:
    """Serial like a host's thread: the next batch begins when the running one ended. Each answer echoes its request's id."""

    def __init__(self, fixed_s: float = 0.0, per_row_s: float = 0.0) -> None:
        self.up = True
        self.fixed_s = fixed_s
        self.per_row_s = per_row_s
        self.ran: List[List[str]] = []  #: ids of each batch, in order
        self.reasons: List[str] = []
        self.held: List[Any] = []
        self.most_held = 0
        self.fails: Callable[[str], bool] = lambda request_id: False
        self.lone_allowed = True
        self._task: Optional[asyncio.Task[None]] = None

    def may_run_alone(self) -> bool:
        return self.lone_allowed and not self.held

    def send(self, batch: Batch[Any], owner: BatchOwner[Any]) -> None:
        self.ran.append([item.request.id for item in batch.items])
        self.reasons.append(batch.reason)
        self.held.append((batch, owner))
        self.most_held = max(self.most_held, len(self.held))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while self.held and self.up:
            batch, owner = self.held[0]
            await asyncio.sleep(self.fixed_s + self.per_row_s * batch.rows)
            if not self.up:
                return
            self.held.pop(0)
            for place, item in enumerate(batch.items):
                if self.fails(item.request.id):
                    batch.answers[place] = errors.ExecutionError("asked to fail")
                else:
                    batch.answers[place] = Outcome(detections=(Detection(item.request.id, 1.0),))
            owner.finished(batch, Ran(0.0, self.fixed_s, 0.0))

    def die(self, reason: str = "killed", suspect: bool = True) -> None:
        """As a host that ended and was reaped."""
        self.up = False
        if self._task is not None:
            self._task.cancel()
        lost, self.held = self.held, []
        for batch, owner in lost:
            owner.lost(batch, reason, suspect)

    def come_back(self) -> None:
        self.up = True
        self._task = None
