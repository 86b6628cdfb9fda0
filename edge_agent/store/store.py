"""The store as the other rooms see it: rows in, questions out; nothing here waits for the disk but who asks to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, TypeVar

from edge_agent.domain.clock import Clock
from edge_agent.domain.results import RequestRecord, Result
from edge_agent.domain.status import PartStatus, State
from edge_agent.errors import StoreError, StoreFull
from edge_agent.store.file import Origin, StoreFile
from edge_agent.store.group import EventRow, Verdict, model_version_row
from edge_agent.store.inbox import Inbox, PendingResult
from edge_agent.store.lock import lock
from edge_agent.store.logtable import LogRow
from edge_agent.store.options import StoreOptions
from edge_agent.store.reader import Reader
from edge_agent.store.response_cache import Shelf
from edge_agent.store.rows import as_json, clean, shown
from edge_agent.store.sampling import CountedRequest, RequestSampler
from edge_agent.store.writer import Health, Writer
from edge_agent.telemetry.redaction import redact_all

__all__ = ["Store", "StoreOptions"]

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
OnEvent = Callable[[Dict[str, Any]], None]  #: hears each event, on the loop

#: longest wait of a result for room in the queue, and for its commit
ROOM_LIMIT_S = 5.0
COMMIT_LIMIT_S = 30.0


class Store:
    """One SQLite file: one writer thread, one reader thread, and this on the loop between them."""

    def __init__(self, options: StoreOptions, clock: Clock, on_event: Optional[OnEvent] = None) -> None:
        self._options = options
        self._on_event = on_event
        self._clock = clock
        self._inbox = Inbox(clock)
        self._sampler = RequestSampler(options.request_log, options.request_log_per_s)
        origin = Origin(options.agent_id, options.board_serial)
        cache_bytes = options.response_cache_max_bytes
        self._file = StoreFile(options.path, origin, options.log_max_rows, clock, self._alive, cache_bytes)
        interval_s = options.commit_interval_ms / 1000
        self._writer = Writer(
            self._file,
            self._inbox,
            interval_s,
            clock,
            self._deliver,
            self._health_changed,
            self._file_opened,
            self._thread_ended,
        )
        self._reader = Reader(options.path)
        self.answers = Shelf(self._inbox.put_or_count, self._reader.read, clock, cache_bytes)  #: table `response_cache`
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._running = False
        self._opened: Optional[asyncio.Future[None]] = None
        self._room: Optional[asyncio.Event] = None
        self._ended: Optional[asyncio.Event] = None
        self._lock_descriptor: Optional[int] = None
        self._flush: Optional[asyncio.TimerHandle] = None

    async def start(self) -> None:
        """Open or create the file.

        Raises:
            StoreError: it cannot be used, or another agent uses it.
        """
        self._loop = asyncio.get_running_loop()
        self._room, self._ended, self._opened = asyncio.Event(), asyncio.Event(), self._loop.create_future()
        self._lock_descriptor = lock(self._options.path)
        self._writer.start()
        self._running = True
        try:
            await self._opened
        except BaseException:
            await self.stop()
            raise
        self._reader.start()
        if self._file.set_aside is not None:
            self.event("store.damaged", code="store.damaged", args={"path": str(self._file.set_aside)}, text="set aside")
        elif self._file.lost:
            self.event("store.damaged", code="store.damaged", args={"path": str(self.path)}, text="missing or empty")

    async def stop(self) -> None:
        """Write what waits, close the file; bounded by `stop_limit_s`."""
        self._reader.stop()
        self._flush_rest(final=True)
        self._inbox.close()
        if self._running and self._ended is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._options.stop_limit_s)
            if not self._ended.is_set():
                log.error("the database did not take the last rows in time", extra={"code": "store.failed"})
                return  # the thread is stuck in the disk: it keeps the lock, and ends with the process
            self._writer.join()
            self._running = False
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._options.path

    @property
    def last_end(self) -> str:
        """How the run before this one ended: empty (there was none), clean, crash or power."""
        return self._file.last_end

    @property
    def generation(self) -> str:
        """The part of each uid that changes when the file may be a copy; known after start()."""
        return self._file.generation

    async def add_result(self, result: Result) -> str:
        """Keep a result; its uid, once it is on the disk.

        Raises:
            StoreFull: no room on the disk.
            StoreError: it cannot be stored, or not in time (then it may still be written).
        """
        if self._loop is None:
            raise StoreError("the store does not run")
        future: asyncio.Future[str] = self._loop.create_future()
        pending = PendingResult(result, future)
        give_up = self._clock.monotonic() + ROOM_LIMIT_S
        while not self._inbox.put("result", pending, urgent=True):
            await self._room_for_one(give_up)
        done, _ = await asyncio.wait({future}, timeout=COMMIT_LIMIT_S)
        if not done:
            future.cancel()
            raise StoreError("the result of %s was not on the disk within %d s" % (result.source, COMMIT_LIMIT_S))
        return future.result()

    def add_result_nowait(self, result: Result) -> bool:
        """Keep a result that nobody waits for; False (and counted) when the queue is full."""
        return self._inbox.put_or_count("result", PendingResult(result, None))

    def request_done(self, record: RequestRecord, sampled: bool = False) -> None:
        """Note a request as `[store] request_log` says; `sampled` for camera frames. Never waits."""
        if self._sampler.admit(record, sampled, self._clock.monotonic()):
            self._inbox.put_or_count("request", CountedRequest(record))
        elif self._sampler.counting and self._flush is None and self._loop is not None:
            self._flush = self._loop.call_later(1.0, self._flush_rest)

    def event(
        self,
        kind: str,
        subject: str = "",
        actor: str = "self",
        code: str = "",
        args: Optional[Mapping[str, Any]] = None,
        text: str = "",
        detail: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Note an event (`area.what`), without secrets. Never waits; False (and counted) when the queue is full."""
        said, more = as_json(redact_all(args or {})), as_json(redact_all(detail or {}))
        row = EventRow(self._clock.now(), kind, shown(subject), clean(actor), code, said, shown(text), more)
        if self._on_event is not None:
            self._call(self._on_event, row.as_json())
        return self._inbox.put_or_count("event", row)

    def log_row(self, level: str, logger: str, code: str, text: str) -> None:
        """Note a log line. Never waits; may be called from any thread."""
        row = LogRow(self._clock.monotonic(), self._clock.now(), level, clean(logger), code, clean(text))
        self._inbox.put_or_count("log", row)

    def model_version(
        self,
        name: str,
        version: str,
        platform: str = "",
        sha256: str = "",
        state: str = "",
        load_ms: Optional[int] = None,
        error: str = "",
        metrics: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Note the state of a model's version; a `load_ms` says that it was loaded just now. Never waits."""
        loaded_at = None if load_ms is None else self._clock.now()
        row = model_version_row(name, version, platform, sha256, state, loaded_at, load_ms, error, metrics or {})
        return self._inbox.put_or_count("model_version", row)

    async def read(self, function: Callable[..., Answer], *args: Any, **kwargs: Any) -> Answer:
        """What `function(connection, *args, **kwargs)` answers, from the reader thread, within a time limit."""
        return await self._reader.read(function, *args, **kwargs)

    def progress(self) -> int:
        """A number that grows at least once a second while the writer thread lives."""
        return self._writer.counters.ticks

    def status(self) -> Dict[str, Any]:
        """State, size and counters, for `/api/status`."""
        health, counters = self._writer.health, self._writer.counters
        state = State.FAILED if health.code else State.OK
        dropped = self._inbox.dropped
        return {
            **PartStatus(state, health.since, health.code, {"text": health.text} if health.code else {}).as_json(),
            "path": str(self._options.path),
            "generation": self._file.generation,
            "bytes": counters.bytes,
            "wal_bytes": counters.wal_bytes,
            "rows_written": counters.rows,
            "commits": counters.commits,
            "failed_commits": counters.failures,
            "last_commit_ms": counters.last_commit_ms,
            "longest_commit_ms": counters.longest_commit_ms,
            "queue": self._inbox.waiting(),
            "dropped_results": dropped["result"],
            "dropped_requests": dropped["request"],
            "dropped_events": dropped["event"] + dropped["model_version"],
            "dropped_logs": dropped["log"],
            "dropped_answers": dropped["response_cache"],
            "refused_rows": self._file.group.refused,
            "refused_reads": self._reader.refused,
        }

    async def _room_for_one(self, give_up: float) -> None:
        """Until rows have left the queue; raises when that cannot be hoped for."""
        health, left = self._writer.health, give_up - self._clock.monotonic()
        if self._inbox.closed or self._room is None:
            raise StoreError("the store is stopped")
        if health.code:
            raise (StoreFull if health.code == "store.full" else StoreError)("not stored: " + health.text)
        if left <= 0:
            raise StoreError("the database is too slow: its queue stayed full for %d s" % ROOM_LIMIT_S)
        self._room.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._room.wait(), left)

    def _flush_rest(self, final: bool = False) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        for row in self._sampler.rest(self._clock.monotonic(), final):
            self._inbox.put_or_count("request", row)
        if self._sampler.counting and self._loop is not None:
            self._flush = self._loop.call_later(1.0, self._flush_rest)

    def _alive(self) -> None:
        self._writer.alive()

    def _deliver(self, verdicts: List[Verdict]) -> None:
        if self._inbox.room_wanted() or verdicts:
            self._call(self._delivered, verdicts)

    def _delivered(self, verdicts: List[Verdict]) -> None:
        if self._room is not None:
            self._room.set()
        for pending, verdict in verdicts:
            if pending.future is not None:
                _settle(pending.future, verdict, verdict if isinstance(verdict, StoreError) else None)

    def _file_opened(self, error: Optional[BaseException]) -> None:
        if self._opened is not None:
            self._call(_settle, self._opened, None, error)

    def _health_changed(self, health: Health) -> None:
        self.event(health.code or "store.ok", code=health.code, args={"text": health.text} if health.code else {})

    def _thread_ended(self) -> None:
        if self._ended is not None:
            self._call(self._ended.set)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        """From the writer thread: run on the loop, if there still is one."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed under us: nobody is left to be told
                self._loop.call_soon_threadsafe(function, *args)


def _settle(future: asyncio.Future[Any], value: Any, error: Optional[BaseException]) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
