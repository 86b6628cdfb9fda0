"""The waiting requests of one model: by priority and shape, oldest first, with exact deadlines."""

from __future__ import annotations

import heapq
from typing import Dict, Hashable, List, Optional, Tuple

from edge_agent import errors
from edge_agent.batching.line import Line
from edge_agent.batching.pending import Pending
from edge_agent.batching.policy import BatchPolicy

_SPARE_DEADLINES = 64  #: so many of departed requests are not worth a clearing


class RequestQueue:
    """Bounded by level: one request over the level's bound is refused with QueueFull. Who leaves frees its place at once."""

    def __init__(self, policy: BatchPolicy) -> None:
        self.refused = 0  #: for want of a place
        self._policy = policy
        self._lines: Dict[int, Line] = {}  #: by rank, see _rank(); only those in which somebody waits
        self._retries = Line()
        self._deadlines: List[Tuple[float, int, Pending]] = []

    def __len__(self) -> int:
        return sum(map(len, self._lines.values())) + len(self._retries)

    # -- in and out -------------------------------------------------------------------------------------------------

    def push(self, pending: Pending) -> None:
        """One more at the end of its level; QueueFull when the level's bound is met."""
        bound = self._policy.queue_policy(pending.level).max_queue_size
        if self.waiting_at(pending.level) >= bound:
            self.refused += 1
            text = "Exceeds maximum queue size: %d requests wait for model '%s'" % (bound, pending.request.model)
            raise errors.QueueFull(text + (" at priority %d" % pending.level if self._policy.priority_levels else ""))
        self._add(pending, deferred=False)
        self._watch(pending)

    def push_retry(self, pending: Pending) -> None:
        """Before all that wait in lines, to run alone; no bound of its own, for it has been let in before."""
        pending.defer_at = None
        self._retries.add(pending)
        self._watch(pending)

    def remove(self, pending: Pending) -> None:
        """Takes one out wherever it waits; nothing when it does not."""
        line = pending.line
        if line is None:
            return
        line.remove(pending)
        if not line and line is not self._retries:
            self._lines = {rank: other for rank, other in self._lines.items() if other}

    def take(self, batch: List[Pending]) -> None:
        """Takes these out: they are being sent."""
        for pending in batch:
            self.remove(pending)

    def clear(self) -> List[Pending]:
        """Takes out everything that still waits."""
        waiting = [p for rank in sorted(self._lines) for p in self._lines[rank]] + list(self._retries)
        self.take(waiting)
        self._deadlines.clear()
        return [pending for pending in waiting if not pending.ended]

    def _add(self, pending: Pending, deferred: bool) -> None:
        self._lines.setdefault(_rank(pending.level, deferred), Line()).add(pending)

    # -- what waits -------------------------------------------------------------------------------------------------

    def waiting_at(self, level: int) -> int:
        """Requests of one level that wait; those that are tried again are not counted."""
        lines = (self._lines.get(_rank(level, deferred)) for deferred in (False, True))
        return sum(len(line) for line in lines if line is not None)

    def retry(self) -> Optional[Pending]:
        """The next request that must run alone."""
        waiting = [pending for pending in self._retries if not pending.ended]
        return min(waiting, key=lambda pending: (pending.level, pending.number)) if waiting else None

    def first_group(self, most: int) -> List[Pending]:
        """The first request and those that may share its batch, in order, at most `most` of them.

        Within a rank requests of other shapes are passed over; a later rank is not looked at while any waits in an
        earlier one, so no request is ever sent before one of a higher priority.
        """
        items: List[Pending] = []
        for rank in sorted(self._lines):
            line = self._lines[rank]
            head = items[0] if items else line.oldest()
            if head is None:
                continue
            items += line.of(head.key, most - len(items))
            if len(items) >= most or line.has_others(head.key):
                break
        return items

    def has_others(self, key: Hashable) -> bool:
        """Whether requests of another shape wait at any level."""
        return any(line.has_others(key) for line in self._lines.values())

    # -- deadlines --------------------------------------------------------------------------------------------------

    def _watch(self, pending: Pending) -> None:
        for at in (pending.deadline, pending.defer_at):
            if at is not None:
                heapq.heappush(self._deadlines, (at, pending.number, pending))
        if len(self._deadlines) > 2 * len(self) + _SPARE_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if entry[2].line is not None]
            heapq.heapify(self._deadlines)

    def next_deadline(self) -> Optional[float]:
        """When something is due for a waiting request: its end, or its going behind the others of its level."""
        while self._deadlines and self._deadlines[0][2].line is None:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now: float) -> List[Pending]:
        """Takes out the requests whose deadline has come, and defers those whose time to be deferred has."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now:
            pending = heapq.heappop(self._deadlines)[2]
            if pending.line is None:
                continue
            if pending.deadline is not None and pending.deadline <= now:
                self.remove(pending)
                if not pending.ended:
                    late.append(pending)
            elif pending.defer_at is not None and pending.defer_at <= now:
                self._defer(pending)
        return late

    def _defer(self, pending: Pending) -> None:
        self.remove(pending)
        pending.defer_at = None
        self._add(pending, deferred=True)


def _rank(level: int, deferred: bool) -> int:
    """Order in which lines are served: by level, the deferred ones of a level after the others of it."""
    return 2 * level + deferred
