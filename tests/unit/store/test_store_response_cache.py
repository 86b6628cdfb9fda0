from __future__ import annotations

import sqlite3

import pytest

from edge_agent.domain.clock import Clock
from edge_agent.errors import StoreError
from edge_agent.store import schema
from edge_agent.store.inbox import BYTE_BOUNDS, Inbox
from edge_agent.store.response_cache import ROW_BYTES, AnswerTable, Forget, Hits, KeptAnswer


@pytest.fixture
def db(db_path):
    opened = schema.connect(db_path)
    schema.migrate(opened, db_path, lambda: None)
    yield opened
    opened.close()


def answer(key, at="2026-01-01T00:00:00.000Z", size=100, model="face", version="1"):
    return KeptAnswer(key, model, version, b"\0" * size, at)


def keys(db):
    return [row[0] for row in schema.raw(db).execute('SELECT "key" FROM "response_cache" ORDER BY "key"')]


def test_the_least_recently_used_answers_go_when_the_bytes_are_over_the_bound(db):
    table = AnswerTable(max_bytes=3 * (ROW_BYTES + 100))
    table.write(db, [answer(key, "2026-01-01T00:00:0%d.000Z" % second) for second, key in enumerate("abc")])
    assert keys(db) == ["a", "b", "c"]
    table.write(db, [Hits({"a": 2}, "2026-01-01T00:01:00.000Z")])
    table.write(db, [answer("d", "2026-01-01T00:00:30.000Z")])
    assert "a" in keys(db)
    assert "d" in keys(db)
    assert "b" not in keys(db)


def test_a_bound_that_became_smaller_holds_for_what_an_earlier_run_left(db):
    AnswerTable(max_bytes=10**6).write(db, [answer(key) for key in "abcd"])
    AnswerTable(max_bytes=2 * (ROW_BYTES + 100)).write(db, [answer("e", "2026-01-02T00:00:00.000Z")])
    assert 1 <= len(keys(db)) <= 2
    assert "e" in keys(db)


def test_hits_are_counted_and_an_equal_key_keeps_its_first_answer(db):
    table = AnswerTable(max_bytes=10**6)
    table.write(db, [answer("a", size=10), Hits({"a": 3, "gone": 1}, "2026-01-02T00:00:00.000Z"), answer("a", size=20)])
    table.write(db, [Hits({"a": 1}, "2026-01-03T00:00:00.000Z")])
    row = schema.raw(db).execute('SELECT hits, last_hit_at, created_at, bytes, length("value") FROM response_cache').fetchone()
    assert row == (4, "2026-01-03T00:00:00.000Z", "2026-01-01T00:00:00.000Z", 10, 10)


@pytest.mark.parametrize(
    ("order", "left"),
    [
        (Forget(), []),
        (Forget("face"), ["new.c", "old.d"]),
        (Forget("face", "1"), ["new.b", "new.c", "old.d"]),
        (Forget("face", "1", "new."), ["new.a", "new.b", "new.c", "old.d"]),
        (Forget("car", "", "new."), ["new.a", "new.b", "new.c", "old.a"]),
        (Forget("absent"), ["new.a", "new.b", "new.c", "old.a", "old.d"]),
    ],
)
def test_answers_of_what_is_gone_are_deleted_and_no_others(db, order, left):
    rows = [answer("old.a"), answer("new.a"), answer("new.b", version="2")]
    rows += [answer("new.c", model="car"), answer("old.d", model="car")]
    AnswerTable(max_bytes=10**6).write(db, [*rows, order])
    assert keys(db) == left


def test_the_count_of_bytes_is_right_again_after_a_rollback(db):
    table = AnswerTable(max_bytes=3 * (ROW_BYTES + 100))
    table.write(db, [answer("a")])
    schema.raw(db).execute("BEGIN")
    table.write(db, [answer("b"), answer("c")])
    schema.raw(db).execute("ROLLBACK")
    table.forget()
    table.write(db, [answer("d"), answer("e")])
    assert keys(db) == ["a", "d", "e"]


def test_answers_that_wait_for_the_writer_are_bounded_by_their_bytes():
    inbox = Inbox(Clock())
    half = answer("a", size=BYTE_BOUNDS["response_cache"] // 2 - ROW_BYTES)
    assert [inbox.put_or_count("response_cache", half) for _ in range(3)] == [True, True, False]
    assert inbox.dropped["response_cache"] == 1


async def test_an_answer_is_found_after_a_restart(open_store, until):
    store = await open_store(response_cache_max_bytes=10**6)
    assert store.answers.keep("k", "face", "1", b"\x00\xff")
    assert store.answers.count({"k": 2})
    await store.stop()
    store = await open_store(response_cache_max_bytes=10**6)
    assert await store.answers.find("k") == b"\x00\xff"
    assert await store.answers.find("absent") is None
    assert await store.answers.keys() == [("k", "face", "1")]
    assert store.answers.forget("face")
    await until(lambda: no_keys(store))


async def no_keys(store):
    return await store.answers.keys() == []


async def test_without_a_bound_on_disk_nothing_is_kept(open_store, db_path):
    store = await open_store(response_cache_max_bytes=0)
    assert not store.answers.keep("k", "face", "1", b"x")
    assert not store.answers.count({"k": 1})
    await store.stop()
    connection = sqlite3.connect(str(db_path))
    assert connection.execute("SELECT count(*) FROM response_cache").fetchone() == (0,)
    connection.close()


async def test_answers_do_not_wait_for_a_disk_that_takes_nothing(open_store, db_path, until):
    store = await open_store(response_cache_max_bytes=10**6)
    blocker = sqlite3.connect(str(db_path), isolation_level=None)
    blocker.execute("ALTER TABLE response_cache RENAME TO elsewhere")
    store.answers.keep("k", "face", "1", b"x")
    await until(lambda: store.status()["dropped_answers"] == 1)
    blocker.execute("ALTER TABLE elsewhere RENAME TO response_cache")
    blocker.close()
    store.answers.keep("k2", "face", "1", b"x")
    await until(lambda: store.answers.find("k2"))
    assert await store.answers.find("k") is None


async def test_a_store_that_does_not_run_says_so(clock, open_store):
    store = await open_store(response_cache_max_bytes=10**6)
    await store.stop()
    with pytest.raises(StoreError):
        await store.answers.find("k")
