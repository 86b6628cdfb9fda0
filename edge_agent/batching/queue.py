"""The waiting requests of one model: by shape, oldest first, with exact deadlines."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Deque, Dict, Hashable, List, Optional, Tuple

from edge_agent import errors
from edge_agent.domain.requests import InferRequest

_order = itertools.count()


@dataclass(eq=False)
class Pending:
    """One request on its way: owns its future, so one caller's leaving never touches another's."""

    request: InferRequest
    rows: int
    key: Hashable  #: requests of equal keys may share a batch
    future: asyncio.Future[Any]
    enqueued_at: float
    deadline: Optional[float] = None  #: after this it is not sent any more
    retried: bool = False  #: its host died once; it runs alone now
    sent_at: float = 0.0
    number: int = field(default_factory=lambda: next(_order))

    @property
    def ended(self) -> bool:
        """Answered, failed, or its caller left."""
        return self.future.done()

    def fail(self, error: BaseException) -> None:
        """Ends it with an error, once."""
        if not self.future.done():
            self.future.set_exception(error)

    def give_back(self) -> None:
        """Its caller was cancelled, maybe in the moment the answer came: nobody else releases what that holds."""
        future = self.future
        if future.done() and not future.cancelled() and future.exception() is None:
            future.result().release()


class RequestQueue:
    """Bounded: one request over `max_size` is refused with QueueFull. Ended requests are skipped, then dropped."""

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self.refused = 0
        self._groups: Dict[Hashable, Deque[Pending]] = {}
        self._retries: Deque[Pending] = deque()
        self._deadlines: List[Tuple[float, int, Pending]] = []

    def __len__(self) -> int:
        waiting = sum(1 for group in self._groups.values() for pending in group if not pending.ended)
        return waiting + sum(1 for pending in self._retries if not pending.ended)

    def push(self, pending: Pending) -> None:
        """One more at the end; QueueFull when the bound is met."""
        if self._size() >= self.max_size:
            self._purge()
        if self._size() >= self.max_size:
            self.refused += 1
            raise errors.QueueFull(
                "Exceeds maximum queue size: %d requests wait for model '%s'" % (self.max_size, pending.request.model)
            )
        self._groups.setdefault(pending.key, deque()).append(pending)
        self._watch(pending)

    def push_retry(self, pending: Pending) -> None:
        """Before all that wait in groups, to run alone."""
        self._retries.append(pending)
        self._watch(pending)

    def _size(self) -> int:
        return sum(map(len, self._groups.values())) + len(self._retries)

    def _purge(self) -> None:
        """Drops what has ended anywhere in the queue, not just at its heads."""
        for key, group in list(self._groups.items()):
            self._groups[key] = deque(pending for pending in group if not pending.ended)
        self._deadlines = [entry for entry in self._deadlines if not entry[2].ended]
        heapq.heapify(self._deadlines)

    def _watch(self, pending: Pending) -> None:
        if pending.deadline is not None:
            heapq.heappush(self._deadlines, (pending.deadline, pending.number, pending))

    def next_deadline(self) -> Optional[float]:
        """When the next waiting request expires."""
        while self._deadlines and self._deadlines[0][2].ended:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now: float) -> List[Pending]:
        """Takes out the requests whose deadline has come; those already sent are not among them."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now:
            pending = heapq.heappop(self._deadlines)[2]
            if not pending.ended and not pending.sent_at:
                late.append(pending)
        return late

    def next_waiting(self) -> bool:
        """Whether anything waits."""
        return self.retry() is not None or any(not p.ended for group in self._groups.values() for p in group)

    def retry(self) -> Optional[Pending]:
        """The next request that must run alone."""
        while self._retries and self._retries[0].ended:
            self._retries.popleft()
        return self._retries[0] if self._retries else None

    def oldest_group(self, most: int) -> Optional[List[Pending]]:
        """The requests that may share a batch with the oldest one, oldest first, at most `most` of them."""
        for key in [key for key, group in self._groups.items() if not self._trim(group)]:
            del self._groups[key]
        if not self._groups:
            return None
        group = min(self._groups.values(), key=lambda group: group[0].number)
        return list(itertools.islice((pending for pending in group if not pending.ended), most))

    @staticmethod
    def _trim(group: Deque[Pending]) -> Deque[Pending]:
        while group and group[0].ended:
            group.popleft()
        return group

    def has_others(self, key: Hashable) -> bool:
        """Whether requests of another shape wait."""
        return any(other != key and any(not p.ended for p in group) for other, group in self._groups.items())

    def take(self, batch: List[Pending]) -> None:
        """Takes these out, the head of the retries or the leading requests of one shape: they are being sent."""
        if self._retries and self._retries[0] is batch[0]:
            self._retries.popleft()
            return
        group = self._groups[batch[0].key]
        while group.popleft() is not batch[-1]:
            pass
        if not group:
            del self._groups[batch[0].key]

    def clear(self) -> List[Pending]:
        """Takes out everything that still waits."""
        waiting = [p for group in self._groups.values() for p in group] + list(self._retries)
        self._groups.clear()
        self._retries.clear()
        self._deadlines.clear()
        return [pending for pending in waiting if not pending.ended]
