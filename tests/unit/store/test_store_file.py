from __future__ import annotations

import contextlib
import shutil
import sqlite3

import pytest

from edge_agent.domain.clock import Clock
from edge_agent.errors import StoreError
from edge_agent.store.file import Origin, StoreFile
from edge_agent.store.inbox import PendingResult


@pytest.fixture
def open_file(db_path):
    opened = []

    def start(serial="S1", boot_id="boot-a"):
        file = StoreFile(db_path, Origin("box", serial), 100, Clock(boot_id), lambda: None)
        opened.append(file)
        file.open()
        return file

    yield start
    for file in opened:
        file.reopen()


def _add(file, make_result, count=1):
    verdicts = file.write({"result": [PendingResult(make_result(), None)] * count}, durable=True)
    return [uid for _, uid in verdicts]


def test_numbers_go_on_over_restarts_in_the_same_generation(open_file, make_result):
    first = open_file()
    one = _add(first, make_result, 2)
    first.close()
    second = open_file()
    assert second.generation == first.generation
    assert [*one, *_add(second, make_result)] == ["box/%s/result/%d" % (first.generation, n) for n in (1, 2, 3)]


def test_a_deleted_newest_row_does_not_give_its_number_away(open_file, make_result, db_path):
    file = open_file()
    _add(file, make_result, 3)
    file.close()
    with contextlib.closing(sqlite3.connect(str(db_path))) as other:
        other.execute("DELETE FROM result")
        other.commit()
    assert _add(open_file(), make_result)[0].endswith("/4")


def test_an_older_copy_gets_a_new_generation(open_file, make_result, db_path, tmp_path):
    file = open_file()
    _add(file, make_result)
    file.close()
    shutil.copy(str(db_path), str(tmp_path / "copy"))
    file = open_file()
    _add(file, make_result)
    file.close()
    shutil.copy(str(tmp_path / "copy"), str(db_path))
    assert open_file().generation != file.generation


def test_another_board_gets_a_new_generation(open_file):
    first = open_file("S1")
    first.close()
    second = open_file("S2")
    second.close()
    assert second.generation != first.generation
    assert open_file("S2").generation == second.generation


def test_how_the_last_run_ended_is_known(open_file):
    first = open_file()
    assert first.last_end == ""
    first.close()
    second = open_file(boot_id="boot-a")
    assert second.last_end == "clean"
    second.reopen()
    third = open_file(boot_id="boot-a")
    assert third.last_end == "crash"
    third.reopen()
    assert open_file(boot_id="boot-b").last_end == "power"


@pytest.mark.parametrize("damage", [b"junk " * 4000, b"\0" * 8192])
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(open_file, make_result, db_path, damage):
    file = open_file()
    _add(file, make_result)
    file.close()
    db_path.write_bytes(damage)
    again = open_file()
    assert again.generation != file.generation
    assert again.set_aside.read_bytes() == damage
    assert _add(again, make_result)


def test_only_the_newest_damaged_files_are_kept(open_file, db_path):
    for n in range(5):
        db_path.with_name("edge-agent.db.damaged-2020010%dT000000000Z" % n).write_bytes(b"old")
        db_path.with_name("edge-agent.db.damaged-2020010%dT000000000Z-wal" % n).write_bytes(b"old")
    db_path.write_bytes(b"junk " * 4000)
    file = open_file()
    kept = sorted(p.name for p in db_path.parent.glob("*.damaged-*Z"))
    assert kept == [
        "edge-agent.db.damaged-20200103T000000000Z", "edge-agent.db.damaged-20200104T000000000Z", file.set_aside.name,
    ]  # fmt: skip
    assert len(list(db_path.parent.glob("*.damaged-*-wal"))) == 2


def test_an_emptied_file_is_a_loss_and_not_a_first_start(open_file, make_result, db_path):
    file = open_file()
    assert not file.lost
    _add(file, make_result)
    file.close()
    db_path.write_bytes(b"")
    again = open_file()
    assert again.lost
    assert again.generation != file.generation


def test_a_foreign_or_impossible_file_is_a_clear_error(open_file, db_path):
    db_path.mkdir()
    with pytest.raises(StoreError, match="cannot be used"):
        open_file()
    db_path.rmdir()
    with contextlib.closing(sqlite3.connect(str(db_path))) as other:
        other.execute("CREATE TABLE recipes (name)")
    with pytest.raises(StoreError, match="another program"):
        open_file()
    with contextlib.closing(sqlite3.connect(str(db_path))) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]


def test_a_grown_write_ahead_log_is_cut_once_its_reader_is_gone(open_file, make_result, db_path):
    file = open_file()
    wal = db_path.with_name(db_path.name + "-wal")
    with contextlib.closing(sqlite3.connect(str(db_path), isolation_level=None)) as slow:
        slow.execute("BEGIN")
        slow.execute("SELECT * FROM meta").fetchall()
        big = make_result(request_id="x" * 3900)
        while wal.stat().st_size <= 8 * 1024 * 1024:
            file.write({"result": [PendingResult(big, None)] * 500}, durable=False)
        slow.execute("ROLLBACK")
    file.idle()
    assert wal.stat().st_size == 0
