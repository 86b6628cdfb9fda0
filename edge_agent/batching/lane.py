"""The instances of one model, each with the batches handed to it: which takes the next one, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional, Sequence, Tuple

from edge_agent.batching.instance import Instance
from edge_agent.batching.pending import Pending
from edge_agent.batching.service_time import ServiceTime
from edge_agent.engines.batch import Batch

#: the next batch is handed over this long before the running one is expected to end: what a turn-around costs
_TURNAROUND_S = 0.001
#: a full one: waiting brings it no company, and a busy loop's timers are some milliseconds late (measured: 1.6 ms a batch idle)
_FULL_TURNAROUND_S = 0.005
_DEPTH = 2  #: batches that a host may hold of one instance: the running one and the next


@dataclass(eq=False)
class Lane:
    """One instance with what was handed to it."""

    instance: Instance
    batches: List[Batch[Pending]] = field(default_factory=list)
    started_at: float = 0.0  #: of the batch that runs
    expected_end: float = 0.0


class Lanes:
    """All of a model's. Instants are monotonic seconds."""

    def __init__(self, instances: Sequence[Instance], service_time: ServiceTime) -> None:
        self._lanes = [Lane(instance) for instance in instances]
        self._service_time = service_time

    @property
    def in_flight(self) -> int:
        """Batches that a host holds."""
        return sum(len(lane.batches) for lane in self._lanes)

    def next(self, now: float, full: bool = False, ahead: bool = True) -> Tuple[Optional[Lane], float]:
        """The one that takes the next batch soonest, and from when; None when none will by itself.

        A batch that is `full` already is handed over earlier. Without `ahead` only an idle instance takes one: what the host
        holds cannot be taken back when the running batch takes longer than usual.
        """
        early = _FULL_TURNAROUND_S if full else _TURNAROUND_S
        best: Optional[Lane] = None
        best_at = 0.0
        for lane in self._lanes:
            if not lane.instance.up or len(lane.batches) >= (_DEPTH if ahead else 1):
                continue
            at = now if not lane.batches else max(now, lane.expected_end - early)
            if best is None or (at, len(lane.batches)) < (best_at, len(best.batches)):
                best, best_at = lane, at
        return best, best_at

    def add(self, lane: Lane, batch: Batch[Pending]) -> None:
        """A batch is handed over."""
        lane.batches.append(batch)
        if len(lane.batches) == 1:
            self._begin(lane, batch.sent_at)

    def remove(self, lane: Lane, batch: Batch[Pending], now: float) -> None:
        """A batch has ended."""
        lane.batches.remove(batch)
        if lane.batches:
            self._begin(lane, now)

    def _begin(self, lane: Lane, now: float) -> None:
        expected = self._service_time.expect(lane.batches[0].rows)
        lane.started_at = now
        lane.expected_end = now + (float("inf") if expected is None else expected)

    def free_at(self, now: float, waiting: int, per_batch: int) -> float:
        """When one more request would begin to run behind `waiting` others; `now` when an instance idles."""
        up = [lane for lane in self._lanes if lane.instance.up]
        if not up or (not waiting and any(not lane.batches for lane in up)):
            return now
        ahead = waiting // per_batch * (self._service_time.expect(per_batch) or 0.0) / len(up)
        return max(now, min(self._end(lane, now) for lane in up) + ahead)

    def _end(self, lane: Lane, now: float) -> float:
        if not lane.batches:
            return now
        later = sum(self._service_time.expect(batch.rows) or 0.0 for batch in lane.batches[1:])
        return lane.expected_end + later
