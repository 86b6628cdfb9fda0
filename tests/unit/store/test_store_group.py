from __future__ import annotations

import sqlite3

import pytest

from edge_agent.domain.results import Detection
from edge_agent.errors import StoreError
from edge_agent.store import schema
from edge_agent.store.group import EventRow, Group, model_version_row
from edge_agent.store.inbox import PendingResult
from edge_agent.store.logtable import LogTable
from edge_agent.store.response_cache import AnswerTable
from edge_agent.store.sampling import CountedRequest
from edge_agent.store.tables import Event, ModelVersion, RequestLog, Result


@pytest.fixture
def db(db_path):
    opened = schema.connect(db_path)
    schema.migrate(opened, db_path, lambda: None)
    yield opened
    opened.close()


@pytest.fixture
def group():
    return Group(lambda kind, seq: "%s/%d" % (kind, seq), LogTable(100), AnswerTable(0))


def _refuse(db, table, column, value):
    schema.raw(db).execute(
        "CREATE TRIGGER no BEFORE INSERT ON %s WHEN NEW.%s = '%s' BEGIN SELECT RAISE(ABORT, 'not that'); END"
        % (table, column, value)
    )


def test_a_row_that_sqlite_refuses_fails_alone_and_numbers_stay_contiguous(db, group, make_result):
    _refuse(db, "result", "source", "camera/bad")
    pending = [PendingResult(make_result(source="camera/" + name), None) for name in ("a", "bad", "b")]
    verdicts = [verdict for _, verdict in group.write(db, {"result": pending})]
    assert verdicts[0] == "result/1"
    assert isinstance(verdicts[1], StoreError)
    assert "camera/bad" in str(verdicts[1])
    assert verdicts[2] == "result/2"
    rows = Result.select(Result.seq, Result.uid, Result.source).tuples().execute(db)
    assert list(rows) == [(1, "result/1", "camera/a"), (2, "result/2", "camera/b")]
    assert group.refused == 1


def test_a_row_without_a_json_form_fails_alone(db, group, make_result):
    bad = make_result(objects=(Detection("x", 1.0, None, {"extra": object()}),))
    verdicts = group.write(db, {"result": [PendingResult(bad, None), PendingResult(make_result(), None)]})
    assert isinstance(verdicts[0][1], StoreError)
    assert verdicts[1][1] == "result/1"


def test_a_refused_request_or_event_does_not_touch_the_others(db, group, make_record):
    _refuse(db, "request_log", "model", "bad")
    schema.raw(db).execute(
        "CREATE TRIGGER no2 BEFORE INSERT ON event WHEN NEW.kind = 'bad' BEGIN SELECT RAISE(ABORT, 'not that'); END"
    )
    requests = [CountedRequest(make_record(model=name), 3) for name in ("a", "bad", "b")]
    events = [EventRow("now", kind, "", "self", "", "{}", "", "{}") for kind in ("a", "bad", "b")]
    group.write(db, {"request": requests, "event": events})
    assert list(RequestLog.select(RequestLog.model, RequestLog.count).tuples().execute(db)) == [("a", 3), ("b", 3)]
    assert list(Event.select(Event.seq, Event.uid, Event.kind).tuples().execute(db)) == [
        (1, "event/1", "a"),
        (2, "event/2", "b"),
    ]
    assert group.refused == 2


def test_trouble_with_the_whole_file_is_not_blamed_on_a_row(db, group, make_result):
    schema.raw(db).execute("ALTER TABLE result RENAME TO gone")
    with pytest.raises(sqlite3.OperationalError):
        group.write(db, {"result": [PendingResult(make_result(), None)]})


def test_a_models_version_has_one_row_that_keeps_what_is_not_told(db, group):
    group.write(db, {"model_version": [model_version_row("m", "1", "onnx", "aa", "ready", "t1", 30, "", {"p50_ms": 4})]})
    group.write(db, {"model_version": [model_version_row("m", "1", "onnx", "aa", "failed", None, None, "broken", {})]})
    group.write(db, {"model_version": [model_version_row("m", "2", "onnx", "bb", "loading", None, None, "", {})]})
    rows = list(ModelVersion.select().order_by(ModelVersion.version).dicts().execute(db))
    assert [(row["version"], row["state"], row["loaded_at"], row["load_ms"], row["error"]) for row in rows] == [
        ("1", "failed", "t1", 30, "broken"), ("2", "loading", None, None, ""),
    ]  # fmt: skip
