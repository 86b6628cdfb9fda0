from __future__ import annotations

import contextlib
import sqlite3
import threading

import pytest

from edge_agent.errors import StoreError
from edge_agent.store import schema
from edge_agent.store.tables import TABLES


def _nothing():
    pass


@pytest.fixture
def db(db_path):
    opened = schema.connect(db_path)
    yield opened
    opened.close()


def test_a_new_file_gets_all_tables_in_wal_mode(db, db_path):
    schema.migrate(db, db_path, _nothing)
    with contextlib.closing(sqlite3.connect(str(db_path))) as other:
        names = {row[0] for row in other.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert names >= {"result", "request_log", "model_version", "event", "log", "media", "response_cache", "sync_sink",
                         "sync_range", "dead_letter", "meta"}  # fmt: skip
        assert len(TABLES) == 11
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert other.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone() == (str(schema.SCHEMA_VERSION),)
    assert db_path.stat().st_mode & 0o777 == 0o640


def test_migrating_twice_changes_nothing(db, db_path):
    schema.migrate(db, db_path, _nothing)
    before = schema.read_meta(db)
    schema.migrate(db, db_path, _nothing)
    assert schema.read_meta(db) == before


def test_a_step_that_fails_leaves_no_trace_and_works_the_next_time(db, db_path, monkeypatch):
    def break_off(_db):
        raise sqlite3.OperationalError("power")

    def widen(opened):
        schema.raw(opened).execute("ALTER TABLE media ADD COLUMN extra TEXT")

    schema.migrate(db, db_path, _nothing)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, lambda opened: (widen(opened), break_off(opened))))
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(db, db_path, _nothing)
    assert schema.version_of(db, db_path) == 1
    monkeypatch.setattr(schema, "STEPS", (schema.STEPS[0], widen))
    schema.migrate(db, db_path, _nothing)
    assert schema.version_of(db, db_path) == 2


def test_a_newer_file_is_refused_and_left_alone(db, db_path):
    schema.migrate(db, db_path, _nothing)
    schema.write_meta(db, {"schema_version": "99"})
    with pytest.raises(StoreError, match=r"newer edge-agent \(schema 99"):
        schema.migrate(db, db_path, _nothing)


def test_another_programs_file_is_refused(db, db_path):
    schema.raw(db).execute("CREATE TABLE recipes (name)")
    with pytest.raises(StoreError, match="another program"):
        schema.migrate(db, db_path, _nothing)


def test_a_lock_of_somebody_else_is_waited_for_with_signs_of_life(db, db_path):
    schema.migrate(db, db_path, _nothing)
    with contextlib.closing(sqlite3.connect(str(db_path), isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(1.2, lambda: other.execute("ROLLBACK"))
        release.start()
        signs = []
        with schema.transaction(db, lambda: signs.append(1)):
            schema.write_meta(db, {"a": "b"})
        release.join()
    assert 2 <= len(signs) <= 5
    assert schema.read_meta(db)["a"] == "b"


def test_a_lock_that_stays_is_given_up_in_time(db, db_path):
    schema.migrate(db, db_path, _nothing)
    with contextlib.closing(sqlite3.connect(str(db_path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as caught, schema.transaction(db, _nothing, wait_s=0.5):
            pass
    assert schema.is_busy(caught.value)


def test_reasons_are_told_apart(tmp_path):
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"this is no database" * 1000)
    with pytest.raises(sqlite3.DatabaseError) as caught:
        schema.connect(junk)
    assert schema.is_damaged(caught.value)
    small = sqlite3.connect(":memory:")
    small.execute("PRAGMA max_page_count=2")
    small.execute("CREATE TABLE t (x)")
    with pytest.raises(sqlite3.OperationalError) as full:
        small.execute("INSERT INTO t VALUES (zeroblob(100000))")
    small.close()
    assert schema.is_full(full.value)
    assert not schema.is_full(caught.value)
