from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading

import pytest

from edge_agent.errors import StoreError, StoreFull
from edge_agent.store import inbox as inbox_module
from edge_agent.store import queries

ACKNOWLEDGE = """
import asyncio, sys
from pathlib import Path
from edge_agent.domain.clock import Clock
from edge_agent.domain.results import Detection, Result
from edge_agent.store.store import Store, StoreOptions

async def keep(store, clock, source):
    while True:
        uid = await store.add_result(Result(source, "face", "1", clock.instant(), 6, 4, (Detection("face", 0.5),), {}, 1))
        sys.stdout.write(uid + "\\n")
        sys.stdout.flush()

async def main():
    clock = Clock()
    store = Store(StoreOptions(Path(sys.argv[1]), "box"), clock)
    await store.start()
    await asyncio.gather(*(keep(store, clock, "http/%d" % n) for n in range(8)))

asyncio.run(main())
"""


def _rows(path, sql):
    with contextlib.closing(sqlite3.connect(str(path))) as db:
        return db.execute(sql).fetchall()


async def test_an_acknowledged_result_is_in_the_file(open_store, make_result, db_path):
    store = await open_store()
    uid = await store.add_result(make_result())
    assert uid == "box/%s/result/1" % store.generation
    assert _rows(db_path, "SELECT uid, source FROM result") == [(uid, "camera/dock")]


def test_no_acknowledged_result_is_lost_when_the_agent_is_killed(db_path):
    with subprocess.Popen([sys.executable, "-c", ACKNOWLEDGE, str(db_path)], stdout=subprocess.PIPE, text=True) as agent:
        acknowledged = [agent.stdout.readline().strip() for _ in range(400)]
        agent.kill()
        acknowledged += agent.stdout.read().split()
    kept = {row[0] for row in _rows(db_path, "SELECT uid FROM result")}
    assert len(acknowledged) >= 400
    assert not {uid for uid in acknowledged if uid.count("/") == 3 and uid[-1].isdigit()} - kept
    assert [row[0] for row in _rows(db_path, "SELECT seq FROM result ORDER BY seq")] == list(range(1, len(kept) + 1))


async def test_five_thousand_waiting_results_need_few_commits(open_store, make_result, db_path):
    store = await open_store()
    uids = await asyncio.gather(*(store.add_result(make_result(request_id=str(n))) for n in range(5000)))
    assert len(set(uids)) == 5000
    assert _rows(db_path, "SELECT count(*), max(seq) FROM result") == [(5000, 5000)]
    assert store.status()["commits"] < 50
    named = dict(_rows(db_path, "SELECT uid, request_id FROM result"))
    assert [named[uid] for uid in uids] == [str(n) for n in range(5000)]


async def test_results_that_nobody_waits_for_follow_within_the_interval(open_store, make_result, db_path, until):
    store = await open_store(commit_interval_ms=20)
    assert store.add_result_nowait(make_result())
    await until(lambda: _rows(db_path, "SELECT count(*) FROM result") == [(1,)], limit_s=2.0)


async def test_more_results_than_the_queue_holds_all_arrive(open_store, make_result, db_path, monkeypatch):
    store = await open_store()
    store._inbox._bounds = {**inbox_module.BOUNDS, "result": 10}
    uids = await asyncio.gather(*(store.add_result(make_result()) for _ in range(300)))
    assert len(set(uids)) == 300
    assert _rows(db_path, "SELECT count(*) FROM result") == [(300,)]


async def test_a_full_queue_drops_and_counts_what_nobody_waits_for(open_store, make_record, make_result, until):
    store = await open_store(commit_interval_ms=10_000)
    for n in range(inbox_module.BOUNDS["request"] + 7):
        store.request_done(make_record(source="http/%d" % (n % 250)))
    for n in range(inbox_module.BOUNDS["log"] + 5):
        store.log_row("warning", "x", "", str(n))
    for _ in range(inbox_module.BOUNDS["event"] + 3):
        store.event("camera.up")
    taken = [store.add_result_nowait(make_result()) for _ in range(inbox_module.BOUNDS["result"] + 2)]
    status = store.status()
    assert (status["dropped_requests"], status["dropped_logs"], status["dropped_events"]) == (7, 5, 3)
    assert taken.count(False) == status["dropped_results"] == 2
    await store.stop()
    assert store.status()["queue"] == dict.fromkeys(inbox_module.BOUNDS, 0)


async def test_a_flood_of_requests_is_counted_in_one_row_a_second(open_store, make_record, db_path, until):
    store = await open_store(commit_interval_ms=10)
    for _ in range(150):
        store.request_done(make_record())
    await until(lambda: _rows(db_path, "SELECT count(*), sum(count) FROM request_log") == [(101, 150)])


async def test_the_last_counted_row_is_written_at_stop(open_store, make_record, db_path):
    store = await open_store()
    for _ in range(150):
        store.request_done(make_record())
    await store.stop()
    assert _rows(db_path, "SELECT count(*), sum(count) FROM request_log") == [(101, 150)]


async def test_all_kinds_of_rows_can_be_asked_for(open_store, make_record, make_result, db_path):
    store = await open_store()
    store.request_done(make_record())
    store.event("camera.down", subject="dock", code="camera.unreachable", args={"source": "rtsp://x"}, detail={"n": 1})
    for _ in range(3):
        store.log_row("error", "edge_agent.cameras", "camera.unreachable", "no \0 answer \ud800")
    store.model_version("face", "1", platform="onnxruntime_onnx", sha256="aa", state="ready", load_ms=12, metrics={"p50_ms": 3})
    await store.add_result(make_result())
    (request,), _ = await store.read(queries.requests)
    assert (request["request_id"], request["status"], request["count"]) == ("id-1", "ok", 1)
    (event,), _ = await store.read(queries.events, source="dock")
    assert (event["kind"], event["actor"], event["args"], event["detail"]) == (
        "camera.down", "self", {"source": "rtsp://x"}, {"n": 1},
    )  # fmt: skip
    assert event["uid"] == "box/%s/event/1" % store.generation
    (line,), _ = await store.read(queries.logs, since="1m", limit=5)
    assert (line["repeated"], line["text"]) == (2, "no \ufffd answer \ufffd")
    assert _rows(db_path, "SELECT name, state, load_ms, metrics FROM model_version") == [("face", "ready", 12, '{"p50_ms":3}')]


async def test_secrets_that_errors_quote_are_not_kept(open_store, make_record, db_path):
    store = await open_store()
    said = "cannot open http://10.0.0.5/video?user=a&pwd=hunter2"
    store.event("config.rejected", "rtsp://a:hunter2@h", args={"text": said, "more": [said]}, text=said, detail={"x": said})
    store.request_done(make_record(status="request.invalid", error=said))
    store.model_version("face", "1", error=said)
    await store.stop()
    with contextlib.closing(sqlite3.connect(str(db_path))) as connection:
        dump = "\n".join(connection.iterdump())
    assert dump.count("http://10.0.0.5/video?user=a&pwd=***") == 6
    assert "hunter2" not in dump


async def test_logs_may_come_from_any_thread_and_before_the_start(open_store, clock, db_path, until):
    store = await open_store()
    threads = [threading.Thread(target=store.log_row, args=("error", "t", "", str(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    await store.stop()
    assert _rows(db_path, "SELECT count(*) FROM log") == [(8,)]


async def test_a_reader_in_another_process_does_not_hold_up_the_writer(open_store, make_result, db_path, clock):
    store = await open_store()
    await store.add_result(make_result())
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); db.execute('BEGIN')\n"
        "print(db.execute('SELECT count(*) FROM result').fetchone()[0], flush=True); sys.stdin.read()\n"
        "print(db.execute('SELECT count(*) FROM result').fetchone()[0], flush=True)"
    )
    pipe = asyncio.subprocess.PIPE
    reader = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(db_path), stdin=pipe, stdout=pipe)
    assert await reader.stdout.readline() == b"1\n"
    started = clock.monotonic()
    await asyncio.gather(*(store.add_result(make_result()) for _ in range(50)))
    assert clock.monotonic() - started < 2.0
    out, _ = await reader.communicate(b"")
    assert out == b"1\n"  # its own moment, undisturbed


async def test_a_foreign_write_lock_delays_a_result_and_the_thread_shows_life(open_store, make_result, db_path, until):
    store = await open_store()
    with contextlib.closing(sqlite3.connect(str(db_path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(store.add_result(make_result()))
        before = store.progress()
        await until(lambda: store.progress() >= before + 3)
        assert not waiting.done()
        other.execute("ROLLBACK")
        assert (await waiting).endswith("/1")


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the sqlite3 shell")
async def test_the_sqlite_shell_reads_the_file_beside_the_agent(open_store, make_result, db_path):
    store = await open_store()
    await store.add_result(make_result(source="camera/a\0b"))
    sql = "SELECT source, json_extract(objects, '$[0].label') FROM result"
    shell = await asyncio.create_subprocess_exec("sqlite3", str(db_path), sql, stdout=asyncio.subprocess.PIPE)
    out, _ = await shell.communicate()
    assert out.decode() == "camera/a\ufffdb|face\n"


async def test_when_the_file_takes_nothing_who_waits_is_told_and_the_rest_is_kept(
    open_store, make_result, db_path, until, caplog
):
    store = await open_store(commit_interval_ms=10)
    with contextlib.closing(sqlite3.connect(str(db_path), isolation_level=None)) as other:
        other.execute("ALTER TABLE result RENAME TO gone")
        assert store.add_result_nowait(make_result(request_id="kept"))
        with pytest.raises(StoreError, match="no such table"):
            await store.add_result(make_result())
        with pytest.raises(StoreError, match="no such table"):
            await store.add_result(make_result())
        assert store._writer.health.code == "store.failed"
        other.execute("ALTER TABLE gone RENAME TO result")
    await until(lambda: _rows(db_path, "SELECT request_id FROM result") == [("kept",)])
    assert await store.add_result(make_result())
    status = store.status()
    assert (status["state"], status["code"]) == ("ok", "")
    assert status["failed_commits"] >= 2
    assert [row[0] for row in _rows(db_path, "SELECT kind FROM event ORDER BY seq")] == ["store.failed", "store.ok"]
    assert [record.code for record in caplog.records] == ["store.failed", "store.ok"]


async def test_stopping_while_the_file_takes_nothing_ends_in_time(open_store, make_result, db_path, clock):
    store = await open_store()
    with contextlib.closing(sqlite3.connect(str(db_path), isolation_level=None)) as other:
        other.execute("ALTER TABLE result RENAME TO gone")
        assert store.add_result_nowait(make_result())
        waiting = asyncio.ensure_future(store.add_result(make_result()))
        with pytest.raises(StoreError):
            await waiting
        started = clock.monotonic()
        await store.stop()
        assert clock.monotonic() - started < 5.0


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)], check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill_up(path):
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


async def _add_many(store, result):
    for _ in range(200):
        await store.add_result(result)


async def test_a_full_disk_is_told_to_who_waits_and_is_over_by_itself(open_store, make_result, small_disk, until):
    store = await open_store(path=small_disk / "edge-agent.db", commit_interval_ms=10)
    await store.add_result(make_result())
    ballast = small_disk / "ballast"
    _fill_up(ballast)
    with pytest.raises(StoreFull):
        await _add_many(store, make_result(request_id="x" * 3000))
    assert store._writer.health.code == "store.full"
    kept = store.add_result_nowait(make_result(request_id="kept"))
    ballast.unlink()
    await until(lambda: not store._writer.health.code)
    assert kept
    assert await store.add_result(make_result())
    (last, before), _ = await store.read(queries.results, limit=2)
    assert (last["request_id"], before["request_id"]) == ("r-1", "kept")
    assert store.status()["state"] == "ok"


async def test_the_thread_shows_life_without_work(open_store, until):
    store = await open_store()
    before = store.progress()
    await until(lambda: store.progress() >= before + 2, limit_s=2.5)


async def test_a_caller_who_left_does_not_disturb_the_others(open_store, make_result, db_path):
    store = await open_store()
    left = asyncio.ensure_future(store.add_result(make_result()))
    await asyncio.sleep(0)
    left.cancel()
    assert await store.add_result(make_result())
    assert store.progress() > 0
    assert left.cancelled()


async def test_two_agents_on_one_file_are_refused(open_store):
    await open_store()
    with pytest.raises(StoreError, match="another agent uses"):
        await open_store()


async def test_a_file_that_cannot_be_used_fails_the_start_and_leaves_no_thread(open_store, db_path):
    db_path.mkdir()
    with pytest.raises(StoreError, match="cannot be used"):
        await open_store()
    assert not [thread for thread in threading.enumerate() if thread.name == "store-writer"]
    db_path.rmdir()
    await open_store()


async def test_a_damaged_file_is_an_event_in_the_new_one(open_store, db_path):
    db_path.write_bytes(b"junk " * 4000)
    store = await open_store()
    await store.stop()
    ((kind, code),) = _rows(db_path, "SELECT kind, code FROM event")
    assert (kind, code) == ("store.damaged", "store.damaged")


async def test_after_stop_everything_is_refused_clearly_and_stop_may_be_called_again(open_store, make_result, make_record):
    store = await open_store()
    await store.stop()
    await store.stop()
    with pytest.raises(StoreError, match="stopped"):
        await store.add_result(make_result())
    with pytest.raises(StoreError, match="does not run"):
        await store.read(queries.results)
    assert not store.add_result_nowait(make_result())
    store.request_done(make_record())
    store.log_row("error", "x", "", "late")
    assert store.event("agent.stopping") is False


async def test_nothing_but_the_file_its_lock_and_its_mark_is_left(open_store, make_result, db_path):
    store = await open_store()
    await store.add_result(make_result())
    await store.stop()
    assert {p.name for p in db_path.parent.iterdir()} == {"edge-agent.db", "edge-agent.db.lock", "store.mark"}
    again = await open_store()
    assert again.last_end == "clean"
    assert (await again.add_result(make_result())) == "box/%s/result/2" % store.generation
