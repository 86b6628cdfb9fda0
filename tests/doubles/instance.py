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
        self.alive = True
        self.fixed_s = fixed_s
        self.per_row_s = per_row_s
        self.ran: List[List[str]] = []  #: ids of each batch, in order
        self.rows: List[int] = []
        self.reasons: List[str] = []
        self.held: List[Any] = []
        self.most_held = 0
        self.fails: Callable[[str], bool] = lambda request_id: False
        self.on_send: Callable[[Batch[Any]], None] = lambda batch: None
        self.lone_allowed = True
        self._to_run_empty = False  #: a request waits to run alone, or does
        self._task: Optional[asyncio.Task[None]] = None

    @property
    def up(self) -> bool:
        return self.alive and not self._to_run_empty

    def may_run_alone(self) -> bool:
        if not self.lone_allowed:
            return False
        self._to_run_empty = bool(self.held)
        return not self.held

    def send(self, batch: Batch[Any], owner: BatchOwner[Any]) -> None:
        self.on_send(batch)
        self.ran.append([item.request.id for item in batch.items])
        self.rows.append(batch.rows)
        self.reasons.append(batch.reason)
        self.held.append((batch, owner))
        self.most_held = max(self.most_held, len(self.held))
        self._to_run_empty = batch.reason == "retry"
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while self.held and self.alive:
            batch, owner = self.held[0]
            await asyncio.sleep(self.fixed_s + self.per_row_s * batch.rows)
            if not self.alive:
                return
            self.held.pop(0)
            if not self.held:
                self._to_run_empty = False
            for place, item in enumerate(batch.items):
                if self.fails(item.request.id):
                    batch.answers[place] = errors.ExecutionError("asked to fail")
                else:
                    batch.answers[place] = Outcome(detections=(Detection(item.request.id, 1.0),))
            owner.finished(batch, Ran(0.0, self.fixed_s, 0.0))

    def die(self, reason: str = "killed", suspect: bool = True) -> None:
        """As a host that ended and was reaped."""
        self.alive = False
        self._to_run_empty = False
        if self._task is not None:
            self._task.cancel()
        lost, self.held = self.held, []
        for batch, owner in lost:
            owner.lost(batch, reason, suspect)

    def come_back(self) -> None:
        self.alive = True
        self._task = None
