from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from edge_agent.errors import InvalidRequest, StoreError
from edge_agent.store import queries, schema
from edge_agent.store.rows import result_row
from edge_agent.store.tables import Event, Log, Result, insert_sql


@pytest.fixture
def db(db_path):
    opened = schema.connect(db_path)
    schema.migrate(opened, db_path, lambda: None)
    yield opened
    opened.close()


@pytest.fixture
def put(db, make_result, clock):
    def put(**changes):
        seq = schema.sequences(db).get("result", 0) + 1
        schema.raw(db).execute(insert_sql(Result, True), result_row(make_result(**changes), seq, "box/g/result/%d" % seq))
        return seq

    return put


def _at(clock, text):
    instant = clock.instant()
    return type(instant)(text, True, instant.boot_id, instant.monotonic_ns)


def _seqs(page):
    return [row["seq"] for row in page[0]]


def test_rows_have_the_tables_columns_in_order_with_json_parsed(db_path, put):
    put()
    (row,), following = queries.results(db_path)
    assert list(row) == Result._meta.sorted_field_names
    assert row["objects"] == [{"label": "face", "score": 0.9877, "box": [1.0, 2, 3, 4]}]
    assert row["stages_us"] == {"queue": 5, "infer": 900}
    assert row["clock_synced"] is True
    assert following is None


def test_pages_are_stable_while_rows_are_added(db_path, put):
    for _ in range(25):
        put()
    seen, cursor = [], ""
    while cursor is not None:
        page = queries.results(db_path, limit=10, cursor=cursor)
        seen += _seqs(page)
        cursor = page[1]
        put()
    assert seen == list(range(25, 0, -1))


def test_a_full_last_page_has_no_next(db_path, put):
    for _ in range(10):
        put()
    assert queries.results(db_path, limit=10)[1] is None
    assert queries.results(db_path, limit=9)[1] == "2"


def test_filters_and_times_narrow_the_rows(db_path, put, clock):
    first = put(captured=_at(clock, "2026-01-01T10:00:00.000Z"))
    second = put(captured=_at(clock, "2026-01-01T11:00:00.000Z"), source="http/door")
    third = put(captured=_at(clock, "2026-01-01T12:00:00.000Z"), model="other")
    late = put(captured=_at(clock, "2026-01-01T10:30:00.000Z"))  # written last, captured earlier
    assert _seqs(queries.results(db_path)) == [late, third, second, first]
    assert _seqs(queries.results(db_path, source="http/door")) == [second]
    assert _seqs(queries.results(db_path, model="face", source="camera/dock")) == [late, first]
    assert _seqs(queries.results(db_path, since="2026-01-01T11:00:00Z")) == [third, second]
    assert _seqs(queries.results(db_path, until="2026-01-01T11:00:00Z")) == [late, second, first]
    assert _seqs(queries.results(db_path, since="2026-01-01T10:15:00Z", until="2026-01-01T16:45:00+05:30")) == [late, second]
    assert _seqs(queries.results(db_path, since="2027-01-01T00:00:00Z", until="2027-01-02T00:00:00Z")) == []
    assert _seqs(queries.results(db_path, since="1h")) == []


def test_a_time_is_looked_up_in_its_index_alone(db):
    plan = " ".join(
        str(tuple(row))
        for row in schema.raw(db).execute(
            'EXPLAIN QUERY PLAN SELECT min(seq), max(seq) FROM "result" WHERE "captured_at" >= ? AND "captured_at" <= ?',
            ("1", "2"),
        )
    )
    assert "COVERING INDEX result_captured_at" in plan


def test_events_and_logs_are_asked_by_subject_and_logger(db_path, db):
    blank = {"actor": "self", "code": "", "text": "", "detail": "{}", "uid": ""}
    Event.insert(at="2026-01-01T10:00:00.000Z", kind="camera.up", subject="dock", args='{"a": 1}', **blank).execute(db)
    Event.insert(at="2026-01-01T10:00:00.000Z", kind="model.loaded", subject="face", args="{}", **blank).execute(db)
    Log.insert(at="2026-01-01T10:00:00.000Z", level="warning", logger="a.b", code="", text="x", repeated=0, last_at="").execute(
        db
    )
    assert [row["args"] for row in queries.events(db_path, source="dock")[0]] == [{"a": 1}]
    assert [row["kind"] for row in queries.events(db_path, model="face")[0]] == ["model.loaded"]
    assert _seqs(queries.logs(db_path, source="a.b")) == [1]
    assert _seqs(queries.logs(db_path, source="a")) == []
    assert queries.requests(db_path) == ([], None)
    with pytest.raises(InvalidRequest, match="^model: "):
        queries.logs(db_path, model="face")


def test_events_of_a_model_and_of_a_camera_are_found_by_the_names_that_people_know(db_path, db):
    rows = [
        ("model.loaded", "face/1"), ("model.loaded", "face/2"), ("model.failed", "face"), ("model.loaded", "face_two/1"),
        ("model.loaded", "face0/1"), ("camera.up", "face"), ("camera.up", "clip"), ("model.loaded", "clip/1"),
        ("camera.down", "clip"), ("engine_host.up", "clip"), ("mqtt.retained_request", "camera/clip"),
    ]  # fmt: skip
    for kind, subject in rows:
        Event.insert(
            at="2026-01-01T10:00:00.000Z",
            kind=kind,
            subject=subject,
            args="{}",
            actor="self",
            code="",
            text="",
            detail="{}",
            uid="",
        ).execute(db)

    def found(**filters):
        return [(row["kind"], row["subject"]) for row in queries.events(db_path, **filters)[0]][::-1]

    assert found(model="face") == rows[:3]
    assert found(model="face/2") == [rows[1]]
    assert found(model="f%") == found(model="camera/clip") == found(model="fac") == []
    assert found(source="camera/clip") == [rows[6], rows[8], rows[10]]
    assert found(source="clip") == [rows[6], rows[8], rows[9]]
    assert found(source="face/1") == [rows[0]]
    assert found(source="camera/clip", model="face") == found(source="camera/") == []


@pytest.mark.parametrize("question", [queries.results, queries.requests, queries.events, queries.logs])
@pytest.mark.parametrize(
    ("wrong", "name"),
    [({"limit": 0}, "limit"), ({"limit": 1001}, "limit"), ({"cursor": "x"}, "cursor"), ({"cursor": "-1"}, "cursor"),
     ({"cursor": "9" * 30}, "cursor"), ({"since": "soon"}, "since"), ({"until": "1 h"}, "until")],
)  # fmt: skip
def test_bad_parameters_are_named(db_path, db, question, wrong, name):
    with pytest.raises(InvalidRequest, match="^%s: " % name):
        question(db_path, **wrong)


def test_sql_in_a_filter_is_only_text(db_path, put):
    put()
    assert queries.results(db_path, source="' OR 1=1 --") == ([], None)


def test_json_that_somebody_broke_by_hand_is_shown_as_it_is(db_path, db, put):
    put()
    schema.raw(db).execute("UPDATE result SET objects = 'oops', request_id = CAST(x'ff41' AS TEXT)")
    (row,), _ = queries.results(db_path)
    assert row["objects"] == "oops"
    assert row["request_id"] == "\ufffdA"


def test_a_connection_can_be_asked_too(db_path, put):
    put()
    with contextlib.closing(sqlite3.connect(str(db_path))) as connection:
        assert _seqs(queries.results(connection)) == [1]
        assert json.dumps(queries.columns(connection, "result")) == json.dumps(Result._meta.sorted_field_names)


def test_no_file_is_said_so(tmp_path):
    with pytest.raises(StoreError, match="there is no database at"):
        queries.results(tmp_path / "none.db")
