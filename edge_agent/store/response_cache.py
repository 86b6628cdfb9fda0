"""Table `response_cache`: answers that outlive a restart, the least recently used deleted beyond a bound of bytes."""

from __future__ import annotations

import itertools
import sqlite3
from typing import Any, Awaitable, Callable, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from peewee import SqliteDatabase

from edge_agent.domain.clock import Clock
from edge_agent.store.rows import clean, integer
from edge_agent.store.schema import raw
from edge_agent.store.tables import ResponseCache, insert_sql

#: what a row counts beside its value: itself, its entries in three indexes, and what remembers its key in memory
ROW_BYTES = 1024
#: rows deleted with one commit, so that it stays short
_DELETE_MAX = 2000
#: how far below the bound the deleting goes, so that it is not done with every commit
_LOW_WATER = 0.95

#: as IGNORE: an equal key is an equal answer, so the first one stays
_INSERT_SQL = insert_sql(ResponseCache, with_key=True).replace("INSERT", "INSERT OR IGNORE", 1)
_HIT_SQL = 'UPDATE "response_cache" SET "hits" = "hits" + ?, "last_hit_at" = ? WHERE "key" = ?'
_FIND_SQL = 'SELECT "value" FROM "response_cache" WHERE "key" = ?'
_KEYS_SQL = 'SELECT "key", "model", "version" FROM "response_cache"'
# length() of a blob is in the head of its row; the column `bytes` lies behind the blob, and SQLite would walk through it
_SUM_SQL = 'SELECT total(length("value") + %d) FROM "response_cache"' % ROW_BYTES
_OLDEST_SQL = 'SELECT rowid, length("value") FROM "response_cache" ORDER BY "last_hit_at", rowid LIMIT %d' % _DELETE_MAX
_DELETE_SQL = 'DELETE FROM "response_cache" WHERE rowid = ?'


class KeptAnswer(NamedTuple):
    """An answer on its way to the file."""

    key: str
    model: str
    version: str
    value: bytes
    at: str

    @property
    def nbytes(self) -> int:
        """What it weighs in the queue."""
        return len(self.value) + ROW_BYTES


class Hits(NamedTuple):
    """How often answers were given again since they were last counted, by key."""

    counts: Mapping[str, int]
    at: str

    @property
    def nbytes(self) -> int:
        """What it weighs in the queue."""
        return len(self.counts) * 128


class Forget(NamedTuple):
    """Answers that nobody may get any more: of every model, of one, of one version; but those whose key begins with `but`."""

    model: str = ""
    version: str = ""
    but: str = ""

    @property
    def nbytes(self) -> int:
        """What it weighs in the queue."""
        return 0


Change = Union[KeptAnswer, Hits, Forget]


class AnswerTable:
    """Writes changes, in their order; in the writer's thread only."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes: Optional[int] = None  #: of all rows; None when that must be asked

    def forget(self) -> None:
        """After a rollback: what was counted may not be there."""
        self._bytes = None

    def write(self, db: SqliteDatabase, changes: Iterable[Change]) -> None:
        """All changes, then deletes the oldest; within the caller's transaction."""
        connection = raw(db)
        for kind, group in itertools.groupby(changes, type):
            if kind is KeptAnswer:
                self._keep(connection, group)
            elif kind is Hits:
                _count(connection, group)
            else:
                self._delete(connection, group)
        self._trim(connection)

    def _keep(self, connection: sqlite3.Connection, answers: Iterable[Any]) -> None:
        known = self._total(connection)
        for answer in answers:
            if connection.execute(_INSERT_SQL, _row(answer)).rowcount:
                known += answer.nbytes
        self._bytes = known

    def _delete(self, connection: sqlite3.Connection, orders: Iterable[Any]) -> None:
        for order in orders:
            where, values = _condition(order)
            connection.execute('DELETE FROM "response_cache"' + where, values)
        self._bytes = None

    def _total(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute(_SUM_SQL).fetchone()[0]) if self._bytes is None else self._bytes

    def _trim(self, connection: sqlite3.Connection) -> None:
        known = self._total(connection)
        if known > self._max_bytes:
            going: List[Tuple[int]] = []
            for rowid, length in connection.execute(_OLDEST_SQL):
                if known <= self._max_bytes * _LOW_WATER:
                    break
                going.append((rowid,))
                known -= length + ROW_BYTES
            connection.executemany(_DELETE_SQL, going)
        self._bytes = known


def _row(answer: KeptAnswer) -> Tuple[Any, ...]:
    """The values of the table in the order of its columns."""
    size = len(answer.value)
    return answer.key, clean(answer.model), clean(answer.version), answer.value, size, answer.at, answer.at, 0


def _count(connection: sqlite3.Connection, groups: Iterable[Any]) -> None:
    connection.executemany(_HIT_SQL, [(integer(count), hits.at, key) for hits in groups for key, count in hits.counts.items()])


def _condition(order: Forget) -> Tuple[str, List[str]]:
    where = [('"model" = ?', order.model), ('"version" = ?', order.version)]
    said = [(condition, value) for condition, value in where if value]
    if order.but:
        said.append(('substr("key", 1, %d) <> ?' % len(order.but), order.but))
    text = " AND ".join(condition for condition, _ in said)
    return (" WHERE " + text if text else ""), [value for _, value in said]


class Shelf:
    """The same for the loop: changes go to the writer and nobody waits for them, questions to the reader."""

    def __init__(
        self, put: Callable[[str, Any], bool], read: Callable[..., Awaitable[Any]], clock: Clock, max_bytes: int
    ) -> None:
        self._put = put
        self._read = read
        self._clock = clock
        self.max_bytes = max_bytes

    def keep(self, key: str, model: str, version: str, value: bytes) -> bool:
        """Keeps an answer; False when none are kept, or (and counted) when the queue is full."""
        return self.max_bytes > 0 and self._put("response_cache", KeptAnswer(key, model, version, value, self._clock.now()))

    def count(self, hits: Mapping[str, int]) -> bool:
        """Notes how often answers were given again, by key; so they are not the least recently used."""
        return self.max_bytes > 0 and self._put("response_cache", Hits(dict(hits), self._clock.now()))

    def forget(self, model: str = "", version: str = "", but: str = "") -> bool:
        """Deletes answers: all, of one model, of one version; not those whose key begins with `but`."""
        return self._put("response_cache", Forget(model, version, but))

    async def find(self, key: str) -> Optional[bytes]:
        """The answer, None when there is none; StoreError or QueueFull when the file does not say."""
        found: Optional[bytes] = await self._read(_find, key)
        return found

    async def keys(self) -> List[Tuple[str, str, str]]:
        """Key, model and version of every answer; StoreError or QueueFull when the file does not say."""
        found: List[Tuple[str, str, str]] = await self._read(_keys)
        return found


def _find(connection: sqlite3.Connection, key: str) -> Optional[bytes]:
    row = connection.execute(_FIND_SQL, (key,)).fetchone()
    return row[0] if row is not None and isinstance(row[0], bytes) else None


def _keys(connection: sqlite3.Connection) -> List[Tuple[str, str, str]]:
    return list(connection.execute(_KEYS_SQL))
