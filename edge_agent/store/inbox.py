"""The bounded way from the loop (and from any logging thread) to the writer thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from edge_agent.domain.clock import Clock
from edge_agent.domain.results import Result

#: rows of each kind that may wait; a kind that is full refuses, and the caller waits (results) or counts (all others)
BOUNDS: Mapping[str, int] = {
    "result": 5000, "request": 5000, "event": 1000, "model_version": 1000, "log": 1000, "response_cache": 200,
}  # fmt: skip
#: and bytes of one kind, where rows (they have `nbytes`) differ much in size
BYTE_BOUNDS: Mapping[str, int] = {"response_cache": 8 * 1024 * 1024}
#: rows of one kind in one commit: keeps the write lock short
GROUP_MAX = 1000

Batch = Dict[str, List[Any]]


class PendingResult(NamedTuple):
    """A result on its way; with a future, somebody waits until it is on disk."""

    result: Result
    future: Optional[asyncio.Future[str]]


class Inbox:
    """Rows by kind, taken in groups: at once when somebody waits for one, else when the oldest has waited long enough."""

    def __init__(self, clock: Clock, bounds: Mapping[str, int] = BOUNDS) -> None:
        self._clock = clock
        self._bounds = bounds
        self._rows: Batch = {kind: [] for kind in bounds}
        self._changed = threading.Condition()
        self._first_at = 0.0
        self._count = 0
        self._urgent = False
        self._closed = False
        self._refused = False
        self.dropped: Dict[str, int] = dict.fromkeys(bounds, 0)

    def put(self, kind: str, row: Any, urgent: bool = False) -> bool:
        """Add a row; False when that kind is full or the inbox closed. Never waits longer than a list append takes."""
        with self._changed:
            rows = self._rows[kind]
            if self._closed or len(rows) >= self._bounds[kind] or _too_heavy(kind, rows, row):
                self._refused = True
                return False
            rows.append(row)
            self._count += 1
            if self._count == 1:
                self._first_at = self._clock.monotonic()
            if self._count == 1 or (urgent and not self._urgent):
                self._changed.notify()
            self._urgent = self._urgent or urgent
            return True

    def put_or_count(self, kind: str, row: Any) -> bool:
        """The same for rows that nobody waits for: a refused one is counted in `dropped`."""
        taken = self.put(kind, row)
        if not taken:
            self.lose(kind, 1)
        return taken

    def lose(self, kind: str, count: int) -> None:
        """Count rows that will not be written."""
        if count:
            with self._changed:
                self.dropped[kind] += count

    def take(self, interval_s: float, tick_s: float, held: Optional[Batch] = None) -> Batch:
        """The next group, after those `held` back from a failed one; empty after `tick_s` without a due row."""
        started = self._clock.monotonic()
        with self._changed:
            while not (self._urgent or self._closed):
                due = min(started + tick_s, self._first_at + interval_s if self._count else started + tick_s)
                left = due - self._clock.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            if not self._urgent and not self._closed and self._clock.monotonic() < self._first_at + interval_s:
                return held or {}
            return self._cut(held or {})

    def _cut(self, held: Batch) -> Batch:
        batch = {}
        for kind, rows in self._rows.items():
            kept = held.get(kind, [])
            room = max(0, GROUP_MAX - len(kept))
            batch[kind] = kept + rows[:room]
            del rows[:room]
        self._count = sum(len(rows) for rows in self._rows.values())
        self._urgent = any(row.future is not None for row in self._rows["result"])
        return {kind: rows for kind, rows in batch.items() if rows}

    def take_awaited(self) -> List[PendingResult]:
        """Only the results that somebody waits for, to be refused while the disk takes nothing."""
        with self._changed:
            rows: List[PendingResult] = self._rows["result"]
            awaited = [row for row in rows if row.future is not None]
            self._rows["result"] = [row for row in rows if row.future is None]
            self._count -= len(awaited)
            self._urgent = False
            return awaited

    def room_wanted(self) -> bool:
        """Whether a row was refused since the last call."""
        with self._changed:
            wanted, self._refused = self._refused, False
            return wanted

    def close(self) -> None:
        """Take nothing more; what is there can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def waiting(self) -> Dict[str, int]:
        """Rows that wait, by kind."""
        with self._changed:
            return {kind: len(rows) for kind, rows in self._rows.items()}


def _too_heavy(kind: str, rows: List[Any], row: Any) -> bool:
    limit = BYTE_BOUNDS.get(kind)
    return limit is not None and row.nbytes + sum(waiting.nbytes for waiting in rows) > limit
