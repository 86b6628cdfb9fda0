"""One group of rows into an open transaction: executemany where rows are many, Peewee elsewhere."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from peewee import DatabaseError, SqliteDatabase

from edge_agent.errors import StoreError
from edge_agent.store.inbox import Batch, PendingResult
from edge_agent.store.logtable import LogTable
from edge_agent.store.response_cache import AnswerTable
from edge_agent.store.rows import as_json, clean, request_row, result_row, shown
from edge_agent.store.sampling import CountedRequest
from edge_agent.store.schema import raw, sequences
from edge_agent.store.tables import Event, ModelVersion, RequestLog, Result, insert_sql

#: what SQLite says of one row, not of the whole file
ROW_ERRORS = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError, OverflowError)

_RESULT_SQL = insert_sql(Result, with_key=True)
_REQUEST_SQL = insert_sql(RequestLog, with_key=False)

Verdict = Tuple[PendingResult, Union[str, StoreError]]  #: a result's uid, or why it is not in the file


class EventRow(NamedTuple):
    """An event on its way; JSON already made."""

    at: str
    kind: str
    subject: str
    actor: str
    code: str
    args: str
    text: str
    detail: str

    def as_json(self) -> Dict[str, Any]:
        """The event as whoever listens gets it; it has no number yet."""
        return {**self._asdict(), "args": json.loads(self.args), "detail": json.loads(self.detail)}


class Group:
    """Writes groups; keeps nothing but the numbers that rows get."""

    def __init__(self, name_of: Callable[[str, int], str], log: LogTable, answers: AnswerTable) -> None:
        self._name_of = name_of
        self._log = log
        self._answers = answers
        self.refused: int = 0

    def write(self, db: SqliteDatabase, batch: Batch) -> List[Verdict]:
        """All rows of the batch; a row that cannot be written does not touch the others."""
        given = sequences(db)
        verdicts = self._results(raw(db), batch.get("result", ()), given.get("result", 0))
        self._requests(raw(db), batch.get("request", ()))
        self._events(db, batch.get("event", ()), given.get("event", 0))
        for version in batch.get("model_version", ()):
            self._guarded(partial(_put_model_version, db, version))
        if "log" in batch:
            self._log.write(db, batch["log"])
        if "response_cache" in batch:
            self._answers.write(db, batch["response_cache"])
        return verdicts

    def _results(self, connection: sqlite3.Connection, pending: Sequence[PendingResult], last: int) -> List[Verdict]:
        try:
            rows = [result_row(item.result, seq, self._name_of("result", seq)) for seq, item in enumerate(pending, last + 1)]
            if rows:
                _all_or_none(connection, _RESULT_SQL, rows)
            verdicts: List[Verdict] = [(item, row[1]) for item, row in zip(pending, rows)]
        except (*ROW_ERRORS, TypeError, ValueError):
            verdicts = self._results_one_by_one(connection, pending, last)
        return verdicts

    def _results_one_by_one(self, connection: sqlite3.Connection, pending: Sequence[PendingResult], last: int) -> List[Verdict]:
        verdicts: List[Verdict] = []
        for item in pending:
            uid = self._name_of("result", last + 1)
            try:
                connection.execute(_RESULT_SQL, result_row(item.result, last + 1, uid))
            except (*ROW_ERRORS, TypeError, ValueError) as exc:
                self.refused += 1
                verdicts.append((item, StoreError("a result of %s cannot be stored: %s" % (item.result.source, exc))))
            else:
                last += 1
                verdicts.append((item, uid))
        return verdicts

    def _requests(self, connection: sqlite3.Connection, requests: Sequence[CountedRequest]) -> None:
        rows = [request_row(item.record, item.number) for item in requests]
        if not rows:
            return
        try:
            _all_or_none(connection, _REQUEST_SQL, rows)
        except ROW_ERRORS:
            for row in rows:
                self._guarded(partial(connection.execute, _REQUEST_SQL, row))

    def _events(self, db: SqliteDatabase, events: Sequence[EventRow], last: int) -> None:
        for event in events:
            fields = {**event._asdict(), "seq": last + 1, "uid": self._name_of("event", last + 1)}
            if self._guarded(partial(Event.insert(**fields).execute, db)):
                last += 1

    def _guarded(self, write: Callable[[], Any]) -> bool:
        try:
            write()
        except (*ROW_ERRORS, DatabaseError) as exc:
            if not is_row_error(exc):
                raise
            self.refused += 1
            return False
        return True


def is_row_error(exc: BaseException) -> bool:
    """Whether only this row is at fault (Peewee's classes wrap SQLite's of the same name)."""
    return type(exc).__name__ in {kind.__name__ for kind in ROW_ERRORS}


def _all_or_none(connection: sqlite3.Connection, sql: str, rows: Sequence[Tuple[Any, ...]]) -> None:
    connection.execute("SAVEPOINT rows")
    try:
        connection.executemany(sql, rows)
    except ROW_ERRORS:
        connection.execute("ROLLBACK TO rows")
        raise
    finally:
        if connection.in_transaction:
            connection.execute("RELEASE rows")


def _put_model_version(db: SqliteDatabase, row: Dict[str, Any]) -> None:
    same = (ModelVersion.name == row["name"]) & (ModelVersion.version == row["version"])
    known = ModelVersion.select(ModelVersion.name).where(same).tuples().execute(db)
    if list(known):
        ModelVersion.update(**{key: value for key, value in row.items() if value is not None}).where(same).execute(db)
    else:
        ModelVersion.insert(**row).execute(db)


def model_version_row(
    name: str,
    version: str,
    platform: str,
    sha256: str,
    state: str,
    loaded_at: Optional[str],
    load_ms: Optional[int],
    error: str,
    metrics: Any,
) -> Dict[str, Any]:
    """A row of `model_version`; `loaded_at` and `load_ms` None leave the known ones."""
    return {
        "name": clean(name),
        "version": clean(version),
        "platform": platform,
        "sha256": sha256,
        "state": state,
        "loaded_at": loaded_at,
        "load_ms": load_ms,
        "error": shown(error),
        "metrics": as_json(metrics),
    }
