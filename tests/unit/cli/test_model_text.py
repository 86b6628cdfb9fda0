from __future__ import annotations

import pytest

from edge_agent.cli.model_text import build_text, duration, engine, figures_text, model_lines, shadow_text

BUILD = {
    "state": "building",
    "phase": "build",
    "percent": 43.2,
    "eta_s": 170.0,
    "tries": 1,
    "code": "",
    "reason": "",
    "text": "",
}
SHADOW = {
    "compared": 43, "wanted": 100, "agreement": 0.9721, "p95_ms": 4.125, "serving_p95_ms": 3.9, "errors": 0, "skipped": 7,
    "paused": "", "overdue": False,
}  # fmt: skip
PLAN = {
    "precision": "fp16",
    "bytes": 1,
    "compared": 12,
    "max_abs_error": 0.0012,
    "max_share": 0.0003,
    "p50_ms": 2.1,
    "p95_ms": 2.4,
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "builds, 43 %, about 3 min left"),
        ({"state": "queued", "phase": "", "percent": 0.0, "eta_s": None}, "waits for its turn"),
        (
            {"state": "queued", "phase": "waiting", "percent": 0.0, "eta_s": 28.0, "tries": 2, "reason": "no memory"},
            "waits for its next try, about 28 s left, try 2 (no memory)",
        ),
        ({"text": "with half the workspace"}, "builds, 43 %, about 3 min left with half the workspace"),
        ({"state": "failed", "reason": "no operator Foo"}, "failed (no operator Foo)"),
        ({"state": "done"}, "done"),
        ({"phase": "\x1b[2Jnew"}, "\\x1b[2Jnew, 43 %, about 3 min left"),
    ],
)
def test_a_build_says_what_it_does_how_far_it_is_and_why_it_waits(changes, text):
    assert build_text({**BUILD, **changes}) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "43 of 100 requests, 97.2 % agree, 95 of 100 within 4.125 ms, of the one that serves 3.9 ms"),
        ({"compared": 0, "agreement": None, "p95_ms": None, "serving_p95_ms": None}, "0 of 100 requests"),
        (
            {"agreement": None, "p95_ms": None, "errors": 2, "paused": "too hot", "overdue": True},
            "43 of 100 requests, 2 failed, paused: too hot, too little traffic so far",
        ),
    ],
)
def test_a_comparison_says_how_far_it_is_and_what_was_found(changes, text):
    assert shadow_text({**SHADOW, **changes}) == text


def test_a_plan_says_its_precision_and_what_its_check_found():
    compared = "12 answers compared, largest difference 0.0012, that is 0.03 % of the largest value"
    assert figures_text(PLAN) == "fp16, " + compared + ", 2.1 ms a run, 95 of 100 within 2.4 ms"
    assert figures_text({"precision": "fp16", "compared": "many", "p50_ms": None}) == "fp16"  # a file beside the model says so
    assert (figures_text({}), figures_text(None)) == ("", "")


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ({"engine": "tensorrt", "verified": True}, "TensorRT, checked"),
        ({"engine": "tensorrt", "verified": False}, "TensorRT, not checked"),
        ({"engine": "onnxruntime", "verified": False}, "ONNX Runtime"),
        ({"engine": ""}, ""),
    ],
)
def test_only_a_plan_is_checked_or_not(version, text):
    assert engine(version) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (89.4, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1 h 30 min"), (90061, "25 h 1 min")],
)
def test_durations_are_told_in_their_largest_unit(seconds, text):
    assert duration(seconds) == text


def test_a_model_is_told_version_by_version_with_why_and_what_to_do():
    building = {"state": "degraded", "reason": "The plan is being made.", "cure": "Wait."}
    model = {
        "name": "face",
        **building,
        "versions": [
            {"version": "2", "engine": "", "state": "off", "reason": "not taken:\n\x1b[31m" + "r" * 300, "cure": ""},
            {"version": "1", "engine": "onnxruntime", "verified": False, **building, "build": BUILD},
        ],
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
    }
    assert list(model_lines(model)) == [
        "face: impaired",
        "version 2: off",
        "  not taken:\\n\\x1b[31m" + "r" * 300,
        "version 1: impaired, ONNX Runtime",
        "  The plan is being made.",
        "  what to do: Wait.",
        "  build: builds, 43 %, about 3 min left",
        "input x FP32 [-1, 2]",
        "output y FP32 [-1, 2]",
    ]


def test_a_model_without_versions_says_why():
    model = {"name": "bad", "state": "failed", "reason": "The file is cut off.", "cure": "Copy it again.", "versions": []}
    assert list(model_lines(model)) == ["bad: failed", "  The file is cut off.", "  what to do: Copy it again."]
