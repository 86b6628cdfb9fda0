from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from edge_agent.domain.results import Detection
from edge_agent.store.rows import as_json, clean, integer, request_row, result_row
from edge_agent.store.tables import RequestLog, Result


def test_a_row_has_one_value_for_each_column(make_result, make_record):
    assert len(result_row(make_result(), 1, "u")) == len(Result._meta.sorted_field_names)
    assert len(request_row(make_record(), 1)) == len(RequestLog._meta.sorted_field_names) - 1


def test_a_result_lies_under_the_right_names(make_result):
    result = make_result(media_id="abc")
    row = dict(zip(Result._meta.sorted_field_names, result_row(result, 7, "u/7")))
    assert json.loads(row.pop("objects")) == [{"label": "face", "score": 0.9877, "box": [1.0, 2, 3, 4]}]
    assert json.loads(row.pop("stages_us")) == {"queue": 5, "infer": 900}
    assert row == {
        "seq": 7, "uid": "u/7", "source": "camera/dock", "model": "face", "version": "1", "captured_at": result.captured.at,
        "captured_at_raw": None, "clock_synced": True, "boot_id": result.captured.boot_id,
        "monotonic_ns": result.captured.monotonic_ns, "width": 640, "height": 480, "media_id": "abc", "latency_us": 1200,
        "request_id": "r-1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [("plain", "plain"), ("人脸 é", "人脸 é"), ("a\0b", "a\ufffdb"), ("\ud800x", "\ufffdx"), ("\U0001f600", "\U0001f600")],
)
def test_odd_text_becomes_storable(text, expected):
    assert clean(text) == expected
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        assert db.execute("SELECT ?", (clean(text),)).fetchone() == (expected,)


def test_long_text_is_cut_with_a_sign_of_it():
    assert clean("x" * 10, longest=4) == "xxx…"


def test_numbers_are_kept_within_sqlite():
    assert integer(2**80) == 2**63 - 1
    assert integer(-(2**80)) == -(2**63 - 1)
    assert integer(3.9) == 3


def test_nan_and_infinity_are_null():
    assert as_json({"a": [float("nan"), 1.5], "b": (float("inf"),)}) == '{"a":[null,1.5],"b":[null]}'


def test_what_has_no_json_form_is_refused(make_result):
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested"):
        as_json(endless)
    with pytest.raises(TypeError):
        result_row(make_result(objects=(Detection("x", 1.0, None, {"extra": object()}),)), 1, "u")
