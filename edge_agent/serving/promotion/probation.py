"""Whether a version that took another one's place has done well for so long that what harms it later is not the change."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict

from edge_agent.domain.clock import Clock
from edge_agent.serving.promotion.ledger import Ledger, Record
from edge_agent.serving.servable import Servable
from edge_agent.serving.threads import in_thread
from edge_agent.telemetry.tasks import Tasks

ANSWERS = 1000  #: good ones, or
SERVICE_S = 3600.0  #: of service; then it is not taken back by itself any more
_PAUSE_S = 10.0  #: a longer one between two answers counts as this
_KEEP_ANSWERS = 100  #: what is not written yet may be lost with the power
_KEEP_S = 60.0


def is_over(record: Record) -> bool:
    """Whether the version that serves has shown what it can."""
    return record.answered >= ANSWERS or record.served_s >= SERVICE_S


class Probation:
    """Counts good answers since the last change, over restarts."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._last: Dict[str, float] = {}  #: when a model gave its last answer
        self._new: Dict[str, Record] = {}  #: what is counted and not in the ledger yet, by model
        self._tasks = Tasks()

    async def stop(self) -> None:
        """Keeps what was counted."""
        for name in list(self._new):
            self._put(name)
        await self._tasks.stop()
        await in_thread(self._ledger.save, *self._ledger.content())

    def answered(self, version: Servable) -> None:
        """It gave a good answer, of its own."""
        name, kept = version.name, self._ledger.of(version.name)
        if kept.previous is None or version.version != str(kept.active) or is_over(kept):
            return
        counted = self._new.get(name)
        if counted is None or (counted.active, counted.previous) != (kept.active, kept.previous):
            counted = self._new[name] = kept.copy()  # of another version nothing holds
        now = self._clock.monotonic()
        counted.answered += 1
        counted.served_s += min(now - self._last.get(name, now), _PAUSE_S)
        self._last[name] = now
        news = counted.answered - kept.answered >= _KEEP_ANSWERS or counted.served_s - kept.served_s >= _KEEP_S
        if news or is_over(counted):
            self._put(name)
            self._tasks.spawn(in_thread(self._ledger.save, *self._ledger.content()), "probation:" + name)

    def _put(self, name: str) -> None:
        counted, kept = self._new.pop(name), self._ledger.of(name)
        if (counted.active, counted.previous) == (kept.active, kept.previous):
            self._ledger.put(name, replace(kept, answered=counted.answered, served_s=counted.served_s))
