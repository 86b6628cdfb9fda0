from __future__ import annotations

import queue
import sqlite3

import pytest

from edge_agent.errors import StoreError
from edge_agent.store.file import Origin, StoreFile
from edge_agent.store.inbox import Inbox, PendingResult
from edge_agent.store.writer import Writer


class _Future:
    """Only its being there counts: somebody waits."""


@pytest.fixture
def start_writer(db_path, clock):
    """A writer without a loop; what it says lands in queues."""
    running = []

    def start(file=None):
        inbox, said, turns, opened, ended = Inbox(clock), queue.Queue(), queue.Queue(), queue.Queue(), queue.Queue()
        held = file or StoreFile(db_path, Origin("box"), 100, clock, lambda: None)
        writer = Writer(held, inbox, 0.01, clock, said.put, turns.put, opened.put, lambda: ended.put(True))
        writer.start()
        running.append((inbox, writer))
        assert opened.get(timeout=10) is None
        return inbox, writer, said, turns, ended

    yield start
    for inbox, writer in running:
        inbox.close()
        writer.join()


def _awaited(said):
    while True:
        verdicts = said.get(timeout=10)
        if verdicts:
            return verdicts


def test_who_waits_is_told_the_uid_and_the_end_is_told_last(start_writer, make_result):
    inbox, writer, said, _turns, ended = start_writer()
    inbox.put("result", PendingResult(make_result(), _Future()), urgent=True)
    ((_, uid),) = _awaited(said)
    assert uid.endswith("/result/1")
    inbox.close()
    assert ended.get(timeout=10)
    assert writer.counters.rows == 1


def test_an_unforeseen_error_fails_its_row_and_not_the_thread(start_writer, make_result, db_path, clock, caplog):
    class Clumsy(StoreFile):
        def write(self, batch, durable):
            if any(item.result.source == "bad" for item in batch.get("result", ())):
                raise ZeroDivisionError("a bug")
            return super().write(batch, durable)

    inbox, _writer, said, _turns, _ended = start_writer(Clumsy(db_path, Origin("box"), 100, clock, lambda: None))
    inbox.put("result", PendingResult(make_result(source="bad"), _Future()), urgent=True)
    ((_, error),) = _awaited(said)
    assert isinstance(error, StoreError)
    assert "a bug" in str(error)
    inbox.put("result", PendingResult(make_result(), _Future()), urgent=True)
    assert isinstance(_awaited(said)[0][1], str)
    assert "the store's writer failed" in caplog.text


def test_turning_bad_and_good_is_said_once_each(start_writer, make_result, db_path, clock):
    class Stuck(StoreFile):
        stuck = True

        def write(self, batch, durable):
            if self.stuck:
                raise sqlite3.OperationalError("database or disk is full")
            return super().write(batch, durable)

    file = Stuck(db_path, Origin("box"), 100, clock, lambda: None)
    inbox, writer, said, turns, _ended = start_writer(file)
    inbox.put("result", PendingResult(make_result(), None))
    for _ in range(3):
        inbox.put("result", PendingResult(make_result(), _Future()), urgent=True)
        assert _awaited(said)[0][1].code == "store.full"
    file.stuck = False
    assert turns.get(timeout=10).code == "store.full"
    assert turns.get(timeout=10).code == ""
    assert turns.empty()
    assert writer.counters.rows == 1
    assert writer.counters.failures >= 3


def test_what_could_not_be_written_at_the_end_is_counted(start_writer, make_result, db_path, clock):
    class Broken(StoreFile):
        def write(self, batch, durable):
            raise sqlite3.OperationalError("disk I/O error")

    inbox, writer, said, _turns, ended = start_writer(Broken(db_path, Origin("box"), 100, clock, lambda: None))
    for _ in range(3):
        inbox.put("result", PendingResult(make_result(), None))
    inbox.put("result", PendingResult(make_result(), _Future()), urgent=True)
    assert isinstance(_awaited(said)[0][1], StoreError)
    inbox.close()
    assert ended.get(timeout=10)
    assert writer.counters.lost == 3
