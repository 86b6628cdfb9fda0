"""Opening the file: its settings, its tables and their versions, all in one step that a power cut leaves whole or undone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Sequence, Tuple

from peewee import PeeweeException, SchemaManager, SqliteDatabase

from edge_agent.errors import StoreError
from edge_agent.store.tables import TABLES, Meta

#: everything that SQLite, by itself or through Peewee, raises
DATABASE_ERRORS = (PeeweeException, sqlite3.Error)
#: one wait for somebody else's lock; the writer asks again for BUSY_LIMIT_S and shows that it lives in between
BUSY_TIMEOUT_S = 0.5
BUSY_LIMIT_S = 5.0
WAL_LIMIT_BYTES = 8 * 1024 * 1024

_Step = Callable[[SqliteDatabase], None]


def _create(db: SqliteDatabase) -> None:
    for table in TABLES:
        SchemaManager(table, db).create_all(safe=True)


#: step n brings a file from schema n to n + 1; each may run again on its own work
STEPS: Sequence[_Step] = (_create,)
SCHEMA_VERSION = len(STEPS)


def connect(path: Path) -> SqliteDatabase:
    """A connection for the calling thread, in WAL mode; creates the file, readable by its group, when there is none.

    Raises:
        peewee.PeeweeException: SQLite cannot use it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(str(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640))
    db = SqliteDatabase(str(path), timeout=BUSY_TIMEOUT_S, autoconnect=False)
    db.connect()
    try:
        connection = raw(db)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA journal_size_limit=%d" % WAL_LIMIT_BYTES)
        connection.execute("PRAGMA temp_store=MEMORY")  # a small or full /tmp is none of our business
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        db.close()
        raise
    return db


def raw(db: SqliteDatabase) -> sqlite3.Connection:
    """SQLite's own connection of the calling thread, for statements that Peewee would only slow down."""
    untyped: Any = db
    connection: sqlite3.Connection = untyped.connection()
    return connection


@contextlib.contextmanager
def transaction(db: SqliteDatabase, alive: Callable[[], None], wait_s: float = BUSY_LIMIT_S) -> Iterator[None]:
    """BEGIN IMMEDIATE to COMMIT; `alive` is called between two waits for a lock that another process holds."""
    _begin(db, alive, max(1, round(wait_s / BUSY_TIMEOUT_S)))
    try:
        yield
        raw(db).execute("COMMIT")
    except BaseException:
        if raw(db).in_transaction:  # a full disk may have rolled back by itself
            with contextlib.suppress(*DATABASE_ERRORS):
                raw(db).execute("ROLLBACK")
        raise


def _begin(db: SqliteDatabase, alive: Callable[[], None], tries: int) -> None:
    for left in reversed(range(tries)):
        alive()
        try:
            raw(db).execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as exc:
            if not left or not is_busy(exc):
                raise


def migrate(db: SqliteDatabase, path: Path, alive: Callable[[], None]) -> None:
    """Bring the tables to this version's schema, each step together with its number in one transaction.

    Raises:
        StoreError: the file is another program's, or a newer agent's; it is left as it was.
    """
    found = version_of(db, path)
    if found > SCHEMA_VERSION:
        raise StoreError(
            "%s was written by a newer edge-agent (schema %d, this one knows %d): install that version, or move the file away"
            % (path, found, SCHEMA_VERSION)
        )
    for version in range(found, SCHEMA_VERSION):
        with transaction(db, alive):
            STEPS[version](db)
            write_meta(db, {"schema_version": str(version + 1)})


def version_of(db: SqliteDatabase, path: Path) -> int:
    """The file's schema version; 0 for an empty file."""
    names = {row[0] for row in raw(db).execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names:
        return 0
    text = read_meta(db).get("schema_version", "") if "meta" in names else ""
    if not text.isdigit():
        raise StoreError("%s is an SQLite file of another program: name another [store] path, or move it away" % path)
    return int(text)


def read_meta(db: SqliteDatabase) -> Dict[str, str]:
    """All facts of table `meta`."""
    return {row["key"]: row["value"] for row in Meta.select().dicts().execute(db)}


def write_meta(db: SqliteDatabase, facts: Dict[str, str]) -> None:
    """Set facts of table `meta`; to be called within a transaction."""
    for key, value in facts.items():
        Meta.insert(key=key, value=value).on_conflict_replace().execute(db)


def sequences(db: SqliteDatabase) -> Dict[str, int]:
    """The highest `seq` ever given, by table."""
    return {name: int(seq) for name, seq in raw(db).execute("SELECT name, seq FROM sqlite_sequence")}


def is_busy(exc: BaseException) -> bool:
    """Whether another connection's lock was the reason."""
    return "locked" in str(exc)


def is_full(exc: BaseException) -> bool:
    """Whether no room on the disk was the reason."""
    return "disk is full" in str(exc)


def is_damaged(exc: BaseException) -> bool:
    """Whether the file is not, or no longer, a whole database."""
    return any(words in str(exc) for words in ("malformed", "not a database", "unsupported file format"))


def sizes(path: Path) -> Tuple[int, int]:
    """Bytes of the file and of its write-ahead log; 0 where there is none."""
    return _size(path), _size(wal_of(path))


def wal_of(path: Path) -> Path:
    """The write-ahead log beside the file."""
    return path.with_name(path.name + "-wal")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
