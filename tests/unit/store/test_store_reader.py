from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading

import pytest

from edge_agent.errors import QueueFull, StoreError
from edge_agent.store import schema
from edge_agent.store.reader import READS_MAX, Reader, open_readonly

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def file(db_path):
    db = schema.connect(db_path)
    schema.migrate(db, db_path, lambda: None)
    db.close()
    return db_path


@pytest.fixture
def start_reader(file):
    readers = []

    def start(limit_s=5.0):
        reader = Reader(file, limit_s)
        reader.start()
        readers.append(reader)
        return reader

    yield start
    for reader in readers:
        reader.stop()


async def test_a_question_is_answered_in_the_readers_thread(start_reader):
    reader = start_reader()
    name, count = await reader.read(
        lambda db, what: (threading.current_thread().name, db.execute("SELECT count(*) FROM " + what).fetchone()[0]),
        what="result",
    )
    assert name.startswith("store-reader")
    assert count == 0


async def test_nothing_can_be_written_through_a_reader(start_reader):
    with pytest.raises(StoreError, match="readonly"):
        await start_reader().read(lambda db: db.execute("DELETE FROM result"))


async def test_a_question_without_end_is_interrupted(start_reader, clock):
    reader = start_reader(limit_s=0.3)
    started = clock.monotonic()
    with pytest.raises(StoreError, match="took too long"):
        await reader.read(lambda db: db.execute(ENDLESS).fetchone())
    assert clock.monotonic() - started < 2.0
    assert await reader.read(lambda db: 1) == 1


async def test_too_many_questions_are_refused_and_counted(start_reader):
    reader = start_reader()
    gate = threading.Event()
    asked = [asyncio.ensure_future(reader.read(lambda db: gate.wait(5))) for _ in range(READS_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await reader.read(lambda db: 1)
    assert reader.refused == 1
    gate.set()
    assert await asyncio.gather(*asked) == [True] * READS_MAX


async def test_who_leaves_does_not_hold_a_place(start_reader, until):
    reader = start_reader()
    gate = threading.Event()
    asked = asyncio.ensure_future(reader.read(lambda db: gate.wait(5)))
    await asyncio.sleep(0)
    asked.cancel()
    gate.set()
    await until(lambda: reader._waiting == 0)
    assert await reader.read(lambda db: 1) == 1


async def test_a_stopped_reader_says_so(file):
    reader = Reader(file)
    with pytest.raises(StoreError, match="does not run"):
        await reader.read(lambda db: 1)
    reader.stop()


def test_a_file_that_is_no_database_is_said_so(tmp_path):
    path = tmp_path / "x.db"
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(StoreError, match="cannot be read"), open_readonly(path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="drops root's rights in a child")
def test_a_technician_reads_in_a_folder_that_he_may_not_write(file):
    file.chmod(0o644)
    for folder in (file.parent, *file.parent.parents):
        if folder.stat().st_uid == os.geteuid() and folder != folder.parent and str(folder) != "/tmp":
            folder.chmod(0o755)
    code = (
        "import os, sys, sqlite3; from pathlib import Path; from edge_agent.store.reader import open_readonly\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "with open_readonly(Path(sys.argv[1])) as db: print(db.execute('SELECT count(*) FROM result').fetchone()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout == "0\n", done.stderr
    with contextlib.closing(sqlite3.connect(str(file))) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
