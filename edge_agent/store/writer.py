"""The one thread that writes: takes groups from the inbox, commits them, says so; no row and no full disk ends it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional

from edge_agent.domain.clock import Clock
from edge_agent.errors import StoreError, StoreFull
from edge_agent.store import schema
from edge_agent.store.file import StoreFile
from edge_agent.store.group import Verdict
from edge_agent.store.inbox import Batch, Inbox, PendingResult

log = logging.getLogger(__name__)

#: the thread shows that it lives at least this often
TICK_S = 0.5
#: pause between two tries while the disk takes nothing and nobody waits
RETRY_S = 1.0


@dataclass
class Counters:
    """What the writer did; written by its thread only, read by anybody."""

    ticks: int = 0
    commits: int = 0
    rows: int = 0
    failures: int = 0
    lost: int = 0  #: rows given up at the end because the disk took nothing
    last_commit_ms: float = 0.0
    longest_commit_ms: float = 0.0
    bytes: int = 0
    wal_bytes: int = 0


@dataclass(frozen=True)
class Health:
    """Whether commits work, and since when; `code` is empty when they do."""

    since: str
    code: str = ""
    text: str = ""


class Writer:
    """Thread `store-writer`; all callables are called in it, `ended` last; `deliver` also says that rows left the inbox."""

    def __init__(
        self,
        file: StoreFile,
        inbox: Inbox,
        interval_s: float,
        clock: Clock,
        deliver: Callable[[List[Verdict]], None],
        changed: Callable[[Health], None],
        opened: Callable[[Optional[BaseException]], None],
        ended: Callable[[], None],
    ) -> None:
        self._file = file
        self._inbox = inbox
        self._interval_s = interval_s
        self._clock = clock
        self._deliver = deliver
        self._changed = changed
        self._held: Batch = {}
        self._opened = opened
        self._ended = ended
        self._thread = threading.Thread(  # noqa: TID251 - the store's one writer thread
            target=self._run, name="store-writer", daemon=True
        )
        self.counters = Counters()
        self.health = Health("")

    def start(self) -> None:
        """Start the thread; `opened` is told once whether the file can be used."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of a thread that has said `ended`."""
        self._thread.join()

    def alive(self) -> None:
        """Count a sign of life."""
        self.counters.ticks += 1

    def _run(self) -> None:
        try:
            try:
                self._file.open()
            except Exception as exc:  # noqa: BLE001 - thread runner: whoever waits in start() gets it
                self._opened(exc)
                return
            self.health = Health(self._clock.now())
            self._measure()
            self._opened(None)
            while self._step():
                pass
            self._give_up()
            self._file.close()
        finally:
            self._ended()

    def _step(self) -> bool:
        """One group, or one idle tick; False when all is written and the inbox is closed."""
        self.alive()
        failing = bool(self.health.code)
        batch = self._inbox.take(RETRY_S if failing else self._interval_s, TICK_S, self._held)
        if not batch:
            if self._inbox.closed:
                return False
            self._guarded(self._file.idle, {})
            self._measure()
            return True
        self._held = {}
        self._guarded(lambda: self._commit(batch), batch)
        return not (self.health.code and self._inbox.closed)

    def _guarded(self, work: Callable[[], None], batch: Batch) -> None:
        try:
            work()
        except schema.DATABASE_ERRORS as exc:
            self._failed(batch, exc)
        except Exception as exc:  # noqa: BLE001 - thread runner: the thread must live
            log.exception("the store's writer failed", extra={"code": "store.failed"})
            self._refuse(batch.pop("result", []), StoreError("the row could not be written: %r" % (exc,)))

    def _commit(self, batch: Batch) -> None:
        started = self._clock.monotonic()
        durable = any(item.future is not None for item in batch.get("result", ()))
        verdicts = self._file.write(batch, durable)
        took_ms = (self._clock.monotonic() - started) * 1000
        counters = self.counters
        counters.commits += 1
        counters.rows += sum(len(rows) for rows in batch.values())
        counters.last_commit_ms = round(took_ms, 2)
        counters.longest_commit_ms = max(counters.longest_commit_ms, counters.last_commit_ms)
        if self.health.code:
            self._turn(Health(self._clock.now()))
        self._deliver([verdict for verdict in verdicts if verdict[0].future is not None])

    def _failed(self, batch: Batch, exc: Exception) -> None:
        """Nothing of the batch was written: who waits is told, the rest is held for the next try."""
        self.counters.failures += 1
        full = schema.is_full(exc)
        kind = StoreFull if full else StoreError
        results = batch.pop("result", [])
        self._inbox.lose("response_cache", len(batch.pop("response_cache", ())))  # large, and nobody misses them
        self._held = {**batch, "result": [item for item in results if item.future is None]}
        code = "store.full" if full else "store.failed"
        if self.health.code != code:
            self._turn(Health(self._clock.now(), code, str(exc)))
        self._refuse([*results, *self._inbox.take_awaited()], kind("not stored: %s (%s)" % (exc, self._file.path)))
        if not (full or (isinstance(exc, sqlite3.OperationalError) and schema.is_busy(exc))):
            self._file.reopen()

    def _refuse(self, results: List[PendingResult], error: StoreError) -> None:
        self._deliver([(item, error) for item in results if item.future is not None])

    def _turn(self, health: Health) -> None:
        """Commits stopped or work again: said once, not for every row."""
        self.health = health
        if health.code:
            log.error("the database takes nothing: %s", health.text, extra={"code": health.code})
        else:
            log.warning("the database takes rows again", extra={"code": "store.ok"})
        self._changed(health)

    def _give_up(self) -> None:
        """At the end: what the disk would not take is counted, whoever waits is told."""
        self._refuse(self._inbox.take_awaited(), StoreError("the store is stopping and the disk takes nothing"))
        left: Dict[str, int] = self._inbox.waiting()
        self.counters.lost += sum(left.values()) + sum(len(rows) for rows in self._held.values())

    def _measure(self) -> None:
        self.counters.bytes, self.counters.wal_bytes = schema.sizes(self._file.path)
