from __future__ import annotations

import pytest

from edge_agent.store import schema
from edge_agent.store.logtable import FOLD_S, LogRow, LogTable
from edge_agent.store.tables import Log


@pytest.fixture
def db(db_path):
    opened = schema.connect(db_path)
    schema.migrate(opened, db_path, lambda: None)
    yield opened
    opened.close()


def _line(seconds, text="no picture", level="warning"):
    return LogRow(seconds, "at-%g" % seconds, level, "cameras", "camera.down", text)


def _rows(db):
    return list(Log.select(Log.seq, Log.text, Log.repeated, Log.at, Log.last_at).order_by(Log.seq).tuples().execute(db))


def test_repeats_are_folded_into_the_first_row_with_the_last_ones_time(db):
    table = LogTable(100)
    table.write(db, [_line(0), _line(1), _line(1, "other")])
    table.write(db, [_line(2), _line(3), _line(4, level="error")])
    assert _rows(db) == [
        (1, "no picture", 3, "at-0", "at-3"), (2, "other", 0, "at-1", "at-1"), (3, "no picture", 0, "at-4", "at-4"),
    ]  # fmt: skip


def test_a_line_that_goes_on_gets_a_new_row_after_a_while(db):
    table = LogTable(100)
    table.write(db, [_line(0), _line(FOLD_S - 1), _line(FOLD_S), _line(FOLD_S + 1)])
    assert [row[2] for row in _rows(db)] == [1, 1]


def test_the_oldest_rows_go_beyond_the_bound(db):
    table = LogTable(10)
    for n in range(25):
        table.write(db, [_line(n, "line %d" % n)])
    assert [row[1] for row in _rows(db)] == ["line %d" % n for n in range(15, 25)]


def test_without_a_bound_all_rows_stay(db):
    LogTable(0).write(db, [_line(n, "line %d" % n) for n in range(300)])
    assert len(_rows(db)) == 300


def test_after_a_rollback_a_repeat_is_a_row_again(db):
    table = LogTable(10)
    schema.raw(db).execute("BEGIN IMMEDIATE")
    table.write(db, [_line(0)])
    schema.raw(db).execute("ROLLBACK")
    table.forget()
    table.write(db, [_line(1)])
    assert len(_rows(db)) == 1
