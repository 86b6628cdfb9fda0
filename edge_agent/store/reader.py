"""Reading: read-only connections with a time limit, and the one thread that asks for the loop."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, TypeVar

from edge_agent.domain.clock import Clock
from edge_agent.errors import QueueFull, StoreError
from edge_agent.store.schema import wal_of

#: a question may take this long; a reader that stays keeps the write-ahead log from shrinking
READ_LIMIT_S = 5.0
#: questions that may wait for the reader thread
READS_MAX = 32
_INSTRUCTIONS_BETWEEN_CHECKS = 20_000

_CLOCK = Clock(boot_id="")

Answer = TypeVar("Answer")


@contextlib.contextmanager
def open_readonly(path: Path, deadline: Optional[float] = None) -> Iterator[sqlite3.Connection]:
    """A connection that can only read, closed at the end; queries past `deadline` (monotonic) are interrupted.

    Raises:
        StoreError: no file, no database, or SQLite failed on it.
    """
    if not path.exists():
        raise StoreError("there is no database at %s: the agent has not run with this configuration" % path)
    connection: Optional[sqlite3.Connection] = None
    try:
        connection = _connect(path)
        if deadline is not None:
            until = deadline
            connection.set_progress_handler(lambda: int(_CLOCK.monotonic() > until), _INSTRUCTIONS_BETWEEN_CHECKS)
        yield connection
    except sqlite3.Error as exc:
        if "interrupted" in str(exc):
            raise StoreError("the question took too long: ask for a shorter time or fewer rows") from exc
        raise StoreError("the database %s cannot be read: %s" % (path, exc)) from exc
    finally:
        if connection is not None:
            connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    address = path.absolute().as_uri() + "?mode=ro"
    try:
        return _probed(address)
    except sqlite3.OperationalError:
        if wal_of(path).exists():
            raise
    # nobody writes, and the folder is not ours to put a shared-memory file in: then the file itself is all there is
    return _probed(address + "&immutable=1")


def _probed(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=2.0, isolation_level=None)
    try:
        connection.text_factory = _text
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


class Reader:
    """Answers the loop's questions, one at a time, in thread `store-reader`."""

    def __init__(self, path: Path, limit_s: float = READ_LIMIT_S) -> None:
        self._path = path
        self._limit_s = limit_s
        self._executor: Optional[ThreadPoolExecutor] = None
        self._waiting = 0
        self.refused = 0

    def start(self) -> None:
        """Make the thread."""
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-reader")

    def stop(self) -> None:
        """Answer nothing more; a question that runs ends within its limit."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    async def read(self, function: Callable[..., Answer], *args: Any, **kwargs: Any) -> Answer:
        """What `function(connection, *args, **kwargs)` answers.

        Raises:
            QueueFull: too many questions wait already.
            StoreError: it failed or took too long.
        """
        if self._executor is None:
            raise StoreError("the store does not run")
        if self._waiting >= READS_MAX:
            self.refused += 1
            raise QueueFull("%d questions to the database wait already" % self._waiting)
        self._waiting += 1
        deadline = _CLOCK.monotonic() + self._limit_s
        asked = asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: _ask(self._path, deadline, function, *args, **kwargs)
        )
        asked.add_done_callback(self._answered)
        done, _ = await asyncio.wait({asked}, timeout=self._limit_s + 1.0)
        if not done:
            raise StoreError("the disk does not answer")
        return asked.result()

    def _answered(self, asked: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not asked.cancelled():
            asked.exception()  # somebody who left does not leave a warning behind


def _ask(path: Path, deadline: float, function: Callable[..., Answer], *args: Any, **kwargs: Any) -> Answer:
    if _CLOCK.monotonic() > deadline:
        raise StoreError("the database had no time for the question: ask again")
    with open_readonly(path, deadline) as connection:
        return function(connection, *args, **kwargs)
