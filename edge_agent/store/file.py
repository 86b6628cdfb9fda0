"""The writer's hold on the file: opened, brought up to date, given its generation, marked, closed; in its thread only."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Optional

from peewee import SqliteDatabase

from edge_agent.domain.clock import Clock
from edge_agent.errors import StoreError
from edge_agent.store import schema
from edge_agent.store.generation import Mark, choose, read_mark, uid, write_mark
from edge_agent.store.group import Group, Verdict
from edge_agent.store.inbox import Batch
from edge_agent.store.logtable import LogTable
from edge_agent.store.response_cache import AnswerTable

log = logging.getLogger(__name__)

#: seconds between two marks beside the file
MARK_INTERVAL_S = 60.0
#: seconds between two tries to shrink the write-ahead log
_SHRINK_INTERVAL_S = 10.0
_DAMAGED_KEPT = 3


@dataclass(frozen=True)
class Origin:
    """Whose rows these are."""

    agent_id: str
    board_serial: str = ""


class StoreFile:
    """One open database file and what lies beside it."""

    def __init__(
        self,
        path: Path,
        origin: Origin,
        log_max_rows: int,
        clock: Clock,
        alive: Callable[[], None],
        response_cache_max_bytes: int = 0,
    ) -> None:
        self.path = path
        self._origin = origin
        self._clock = clock
        self._alive = alive
        self._log_table = LogTable(log_max_rows)
        self._answer_table = AnswerTable(response_cache_max_bytes)
        self.group = Group(self._uid, self._log_table, self._answer_table)
        self._db: Optional[SqliteDatabase] = None
        self._synchronous = ""
        self._marked_at = 0.0
        self._marked: Optional[Mark] = None
        self._shrunk_at = 0.0
        self.generation = ""
        self.last_end = ""  #: how the run before ended: "" (none), clean, crash, power
        self.set_aside: Optional[Path] = None  #: where a damaged file went at this start
        self.lost = False  #: whether there was a file once that is not there, or is empty, now

    def open(self) -> None:
        """Open or create the file; one that is no database any more is set aside and a new one begun.

        Raises:
            StoreError: it cannot be used; the text says why.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._open()
            except schema.DATABASE_ERRORS as exc:
                if not schema.is_damaged(exc):
                    raise
                self._set_aside()
                self._open()
        except (*schema.DATABASE_ERRORS, OSError) as exc:
            raise StoreError("the database %s cannot be used: %s" % (self.path, exc)) from exc
        self._mark()

    def write(self, batch: Batch, durable: bool) -> List[Verdict]:
        """One commit; `durable` waits until it is on the disk itself. Raises what SQLite raises; then nothing was written."""
        db = self._connected()
        self._set_synchronous(db, "FULL" if durable else "NORMAL")
        try:
            with schema.transaction(db, self._alive):
                return self.group.write(db, batch)
        except BaseException:
            self._log_table.forget()
            self._answer_table.forget()
            raise

    def idle(self) -> None:
        """What can wait until nothing else is to be done."""
        now = self._clock.monotonic()
        if now - self._marked_at >= MARK_INTERVAL_S:
            self._mark()
        if now - self._shrunk_at >= _SHRINK_INTERVAL_S and schema.sizes(self.path)[1] > schema.WAL_LIMIT_BYTES:
            self._shrunk_at = now
            schema.raw(self._connected()).execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def reopen(self) -> None:
        """Drop the connection; the next write makes a new one."""
        if self._db is not None:
            with contextlib.suppress(*schema.DATABASE_ERRORS):
                self._db.close()
        self._db = None

    def close(self) -> None:
        """Note a clean end and close; what fails here fails quietly, the rows are safe already."""
        if self._db is None:
            return
        with contextlib.suppress(*schema.DATABASE_ERRORS):
            self._set_synchronous(self._db, "FULL")
            with schema.transaction(self._db, self._alive, wait_s=1.0):
                schema.write_meta(self._db, {"last_run": "clean"})
        self._mark()
        self.reopen()

    def _uid(self, kind: str, seq: int) -> str:
        return uid(self._origin.agent_id, self.generation, kind, seq)

    def _connected(self) -> SqliteDatabase:
        if self._db is None:
            self._db = schema.connect(self.path)
            self._synchronous = "FULL"
        return self._db

    def _set_synchronous(self, db: SqliteDatabase, wanted: str) -> None:
        if self._synchronous != wanted:
            schema.raw(db).execute("PRAGMA synchronous=" + wanted)
            self._synchronous = wanted

    def _open(self) -> None:
        try:
            db = self._connected()
            schema.migrate(db, self.path, self._alive)
            meta = schema.read_meta(db)
            mark = read_mark(self._mark_path)
            self.lost = mark is not None and "generation" not in meta
            self.generation = choose(meta, schema.sequences(db), mark, self._origin.board_serial)
            self.last_end = _last_end(meta, self._clock.boot_id)
            facts = {"generation": self.generation, "last_run": "running " + self._clock.boot_id}
            if self._origin.board_serial:
                facts["board_serial"] = self._origin.board_serial
            with schema.transaction(db, self._alive):
                schema.write_meta(db, facts)
        except BaseException:
            self.reopen()
            raise

    @property
    def _mark_path(self) -> Path:
        return self.path.with_name("store.mark")

    def _mark(self) -> None:
        """Remember the highest ids outside of the file, and the clock inside."""
        self._marked_at = self._clock.monotonic()
        try:
            db = self._connected()
            mark = Mark(self.generation, schema.sequences(db))
            if mark == self._marked:
                return
            if self._clock.synced():
                self._set_synchronous(db, "FULL")  # ids in the mark must not be newer than the rows on the disk
                with schema.transaction(db, self._alive, wait_s=1.0):
                    schema.write_meta(db, {"last_good_clock": self._clock.now()})
            write_mark(self._mark_path, mark)
            self._marked = mark
        except (*schema.DATABASE_ERRORS, OSError) as exc:
            log.warning("the mark beside the database was not written: %s", exc, extra={"code": "store.failed"})

    def _set_aside(self) -> None:
        """Move the damaged file and its companions away; keep only the newest few such sets."""
        stamp = self._clock.now().replace(":", "").replace("-", "").replace(".", "")
        for suffix in ("-shm", "-wal", ""):  # the file itself last: a power cut in between repeats the whole
            source = self.path.with_name(self.path.name + suffix)
            if source.exists():
                os.replace(source, self.path.with_name("%s.damaged-%s%s" % (self.path.name, stamp, suffix)))
        self.set_aside = self.path.with_name("%s.damaged-%s" % (self.path.name, stamp))
        sets = sorted(p for p in self.path.parent.glob(self.path.name + ".damaged-*") if p.name[-1] == "Z")
        for old in sets[:-_DAMAGED_KEPT]:
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    old.with_name(old.name + suffix).unlink()


def _last_end(meta: dict[str, str], boot_id: str) -> str:
    last = meta.get("last_run", "")
    if not last.startswith("running "):
        return last
    return "crash" if last == "running " + boot_id else "power"
