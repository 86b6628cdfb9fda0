"""Questions to the file: pages of rows, newest first. They only read, and work beside a running agent or without one."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any, ContextManager, Dict, List, Optional, Sequence, Tuple, Union

from edge_agent.domain.clock import Clock
from edge_agent.errors import InvalidRequest
from edge_agent.store.periods import moment
from edge_agent.store.reader import open_readonly
from edge_agent.store.tables import JSON_COLUMNS

Db = Union[Path, sqlite3.Connection]
Page = Tuple[List[Dict[str, Any]], Optional[str]]  #: rows with the table's columns in order, and the cursor of the next page

LIMIT_MAX = 1000
_LAST_MOMENT = "9999"
_Filter = Tuple[str, List[str]]  #: a condition and its values


def results(
    db: Db, since: str = "", until: str = "", source: str = "", model: str = "", limit: int = 100, cursor: str = ""
) -> Page:
    """Kept results. `since` and `until` take RFC 3339 or 15m, 1h, 2d; empty is no bound."""
    return _page(db, "result", "captured_at", since, until, _equal(source=source, model=model), limit, cursor)


def requests(
    db: Db, since: str = "", until: str = "", source: str = "", model: str = "", limit: int = 100, cursor: str = ""
) -> Page:
    """Served and refused requests."""
    return _page(db, "request_log", "received_at", since, until, _equal(source=source, model=model), limit, cursor)


def events(
    db: Db, since: str = "", until: str = "", source: str = "", model: str = "", limit: int = 100, cursor: str = ""
) -> Page:
    """Events. `source`: camera/NAME, or a subject as it stands; `model`: NAME with all its versions, or NAME/VERSION."""
    return _page(db, "event", "at", since, until, (*_of_source(source), *_of_model(model)), limit, cursor)


def _of_source(source: str) -> List[_Filter]:
    """The subject of a camera's events is its bare name."""
    if not source:
        return []
    area, _, name = source.partition("/")
    if area != "camera" or not name:
        return [('"subject" = ?', [source])]
    return [('("subject" = ? OR ("subject" = ? AND "kind" GLOB \'camera.*\'))', [source, name])]


def _of_model(model: str) -> List[_Filter]:
    """The subject of a model's events is NAME/VERSION, or NAME when no version of it could be found."""
    if not model:
        return []
    return [
        ('"kind" GLOB \'model.*\' AND ("subject" = ? OR ("subject" >= ? AND "subject" < ?))', [model, model + "/", model + "0"])
    ]


def logs(
    db: Db, since: str = "", until: str = "", source: str = "", model: str = "", limit: int = 100, cursor: str = ""
) -> Page:
    """Log lines; `source` is the logger's name."""
    if model:
        raise InvalidRequest("model: log lines name no model; leave it out")
    return _page(db, "log", "at", since, until, _equal(logger=source), limit, cursor)


def columns(db: Db, table: str) -> List[str]:
    """The columns of a table of this file, in order."""
    with _connection(db) as connection:
        return [row[1] for row in connection.execute('PRAGMA table_info("%s")' % table.replace('"', '""'))]


def _equal(**values: str) -> List[_Filter]:
    return [('"%s" = ?' % column, [value]) for column, value in values.items() if value]


def _page(db: Db, table: str, at: str, since: str, until: str, filters: Sequence[_Filter], limit: int, cursor: str) -> Page:
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidRequest("limit: %d is not between 1 and %d" % (limit, LIMIT_MAX))
    first, last = 0, _position(cursor)
    now = Clock(boot_id="").wall()
    begin = moment(since, now, "since") if since else ""
    end = moment(until, now, "until") if until else _LAST_MOMENT
    where = [condition for condition, _ in filters]
    values: List[Any] = [value for _, given in filters for value in given]
    with _connection(db) as connection:
        if since or until:
            first, newest = _bounds(connection, table, at, begin, end)
            last = min(last, newest)
            where += ['+"%s" >= ?' % at, '+"%s" <= ?' % at]
            values += [begin, end]
        where += ["seq >= ?", "seq <= ?"]  # one bound each way: SQLite searches by one of several and filters by the others
        values += [first, last]
        sql = 'SELECT * FROM "%s" WHERE %s ORDER BY seq DESC LIMIT %d' % (table, " AND ".join(where), limit + 1)
        rows = _fetch(connection, sql, values)
    more = len(rows) > limit
    return rows[:limit], str(rows[limit - 1]["seq"]) if more else None


def _bounds(connection: sqlite3.Connection, table: str, at: str, begin: str, end: str) -> Tuple[int, int]:
    """First and last `seq` within a time, from the time's index alone, so that the page needs not read the whole table.

    Rows stay in the order of `seq`: wall clocks jump, and a row from a wrong future must not stay on top for ever.
    """
    sql = 'SELECT min(seq), max(seq) FROM "%s" WHERE "%s" >= ? AND "%s" <= ?' % (table, at, at)
    first, last = connection.execute(sql, (begin, end)).fetchone()
    return (1, 0) if first is None else (first, last)


def _fetch(connection: sqlite3.Connection, sql: str, values: Sequence[Any]) -> List[Dict[str, Any]]:
    answer = connection.execute(sql, values)
    names = [column[0] for column in answer.description]
    return [{name: _value(name, value) for name, value in zip(names, row)} for row in answer]


def _value(name: str, value: Any) -> Any:
    if name == "clock_synced":
        return bool(value)
    if name in JSON_COLUMNS and isinstance(value, str):
        with contextlib.suppress(ValueError):  # written by hand: shown as it is
            return json.loads(value)
    return value


def _position(cursor: str) -> int:
    """The highest `seq` of the page that the cursor stands for."""
    if not cursor:
        return 2**63 - 1
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidRequest("cursor: %r is none; send the `next` of the page before" % cursor[:64])
    return int(cursor) - 1


def _connection(db: Db) -> ContextManager[sqlite3.Connection]:
    return open_readonly(db) if isinstance(db, Path) else contextlib.nullcontext(db)
