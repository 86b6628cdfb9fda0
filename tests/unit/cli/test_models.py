from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

STATUS = {
    "models": [
        {
            "name": "face",
            "state": "ok",
            "reason": "",
            "versions": [{"version": "1", "state": "ok", "engine": "onnxruntime", "reason": ""}],
        },
        {"name": "bad", "state": "failed", "reason": "The file is cut off.", "versions": []},
    ]
}


@contextmanager
def agent(answers):
    """An agent's answers on a free port; what it was asked is in the list."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            asked.append((self.command, self.path, self.headers.get("Authorization")))
            found = answers.get((self.command, self.path), (404, {"error": "Not Found"}))
            found = found() if callable(found) else found
            if found is None:
                return  # it ends without an answer
            status, body = found
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_GET = do_POST = answer

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield "http://127.0.0.1:%d" % server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def call(*arguments):
    command = [sys.executable, "-m", "edge_agent", "models", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_models_are_listed_with_their_state_and_why():
    with agent({("GET", "/api/status"): (200, STATUS)}) as (url, _):
        done = call("--url", url, "list")
        assert done.returncode == 0, done.stderr
        assert [line.split()[:3] for line in done.stdout.splitlines()] == [
            ["MODEL", "VERSION", "STATE"],
            ["face", "1", "ok"],
            ["bad", "-", "failed"],
        ]
        assert "The file is cut off." in done.stdout
        assert json.loads(call("--url", url, "list", "--format", "json").stdout) == STATUS["models"]


@pytest.mark.parametrize("verb", ["load", "unload", "promote", "rollback"])
def test_a_verb_is_one_call_with_the_token(tmp_path, verb):
    (tmp_path / "token").write_text("s3cret\n")
    with agent({("POST", "/api/models/face/" + verb): (200, None)}) as (url, asked):
        done = call("--url", url, "--token-file", str(tmp_path / "token"), verb, "face")
        assert done.returncode == 0, done.stderr
        assert asked == [("POST", "/api/models/face/" + verb, "Bearer s3cret")]


def test_the_agent_s_refusal_is_told_in_its_own_words_and_exits_1():
    with agent({("POST", "/api/models/bad/load"): (500, {"error": "failed to load 'bad', it is cut off"})}) as (url, _):
        done = call("--url", url, "load", "bad")
        assert (done.returncode, "failed to load 'bad', it is cut off" in done.stderr) == (1, True)


def test_an_agent_that_does_not_run_is_exit_75():
    with agent({}) as (url, _):
        pass
    done = call("--url", url, "list")
    assert (done.returncode, "no agent answers" in done.stderr) == (75, True)


def test_a_model_is_shown_in_words_or_as_json_with_its_configuration():
    metadata = {
        "name": "face",
        "versions": ["1"],
        "platform": "p",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
    }
    answers = {
        ("GET", "/api/status"): (200, STATUS),
        ("GET", "/v2/models/face"): (200, metadata),
        ("GET", "/v2/models/face/config"): (200, {"max_batch_size": 4}),
    }
    with agent(answers) as (url, _):
        done = call("--url", url, "show", "face")
        assert (done.returncode, done.stdout.splitlines()) == (
            0,
            ["face: ok", "version 1: ok, ONNX Runtime", "input x FP32 [-1]"],
        )
        shown = json.loads(call("--url", url, "show", "face", "--format", "json").stdout)
        assert (shown["versions"], shown["platform"]) == (STATUS["models"][0]["versions"], "p")
        assert shown["config"] == {"max_batch_size": 4}
        assert "The file is cut off." in call("--url", url, "show", "bad").stdout
        assert call("--url", url, "show", "nobody").returncode == 1


def test_a_model_that_goes_down_while_it_is_shown_is_shown_as_far_as_it_is_known():
    with agent({("GET", "/api/status"): (200, STATUS)}) as (url, _):
        assert call("--url", url, "show", "face").stdout.splitlines() == ["face: ok", "version 1: ok, ONNX Runtime"]


@pytest.mark.parametrize("verb", ["verify", "promote", "build"])
def test_a_version_is_named_by_its_number(verb):
    with agent({}) as (url, asked):
        call("--url", url, verb, "face", "--version", "7")
        assert [path for _, path, _ in asked] == ["/api/models/face/%s?version=7" % verb]
        assert call("--url", url, verb, "face", "--version", "latest").returncode == 2
        assert len(asked) == 1


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        ({"good": True, "reason": "", "compared": 12}, 0, "face/1: good; 12 answers compared"),
        ({"good": False, "reason": "it is off by 3", "compared": 12}, 1, "face/1: wrong: it is off by 3; 12 answers compared"),
        ({"good": None, "reason": "there is nothing to compare it with"}, 1, "could not be checked: there is nothing"),
    ],
)
def test_a_check_tells_what_it_found_and_exits_by_it(found, code, said):
    with agent({("POST", "/api/models/face/verify"): (200, {"name": "face", "version": "1", **found})}) as (url, _):
        done = call("--url", url, "verify", "face")
        assert done.returncode == code
        assert said in (done.stderr if code else done.stdout)


# -- builds -------------------------------------------------------------------------------------------------------------

WORKS = {"phase": "build", "percent": 43.0, "eta_s": 170.0, "tries": 1, "code": "", "reason": "", "text": ""}
BUILDING = {
    "version": "1",
    "engine": "onnxruntime",
    "verified": False,
    "state": "degraded",
    "code": "engine.building",
    "reason": "m",
}
SERVES = {"version": "1", "engine": "tensorrt", "verified": True, "state": "ok", "code": "", "reason": "", "cure": ""}


def told(*versions):
    """Statuses that follow each other; the last one stays."""
    left = list(versions)

    def answer():
        version = left.pop(0) if len(left) > 1 else left[0]
        return 200, {"models": [{"name": "face", "state": "ok", "versions": [version] if version else []}]}

    return answer


def build(url, *more):
    return call("--url", url, "build", "face", *more)


@pytest.fixture
def begun():
    return 202, {"name": "face", **BUILDING, "build": {**WORKS, "state": "queued", "phase": "", "percent": 0.0, "eta_s": None}}


def test_a_build_is_waited_for_and_its_way_is_told_on_stderr(begun):
    there = {**SERVES, "build": {**WORKS, "state": "done", "phase": ""}}
    way = told({**BUILDING, "build": {**WORKS, "state": "building"}}, there)
    with agent({("POST", "/api/models/face/build"): begun, ("GET", "/api/status"): way}) as (url, _):
        done = build(url)
        assert (done.returncode, done.stdout) == (0, "face/1: TensorRT, checked\n")
        assert done.stderr.splitlines() == ["face/1: waits for its turn", "face/1: builds, 43 %, about 3 min left"]


def test_a_build_need_not_be_waited_for(begun):
    with agent({("POST", "/api/models/face/build"): begun}) as (url, asked):
        done = build(url, "--no-wait")
        assert (done.returncode, done.stdout, done.stderr, len(asked)) == (0, "", "", 1)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (
            {
                **BUILDING,
                "code": "engine.build_failed",
                "cure": "Export it anew.",
                "build": {**WORKS, "state": "failed", "reason": "no Foo"},
            },
            "face/1: no new plan: no Foo\n    it goes on with ONNX Runtime\n    what to do: Export it anew.",
        ),
        (SERVES, "face/1: no new plan: no memory\n    it goes on with TensorRT, checked\n"),
        (None, "face/1: it was taken down during the build"),
    ],
    ids=["failed", "the one before serves", "taken down"],
)
def test_a_build_that_comes_to_nothing_says_why_and_exits_1(begun, version, said):
    way = told({**BUILDING, "build": {**WORKS, "state": "building", "reason": "no memory"}}, version)
    with agent({("POST", "/api/models/face/build"): begun, ("GET", "/api/status"): way}) as (url, _):
        done = build(url)
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr


def test_a_precision_that_could_not_be_had_is_not_the_end_of_a_build(begun):
    way = told(
        {**BUILDING, "build": {**WORKS, "state": "failed", "reason": "no int8"}},
        {**BUILDING, "build": {**WORKS, "state": "building", "tries": 2}},
        {**SERVES, "build": {**WORKS, "state": "done"}},
    )
    with agent({("POST", "/api/models/face/build"): begun, ("GET", "/api/status"): way}) as (url, _):
        assert build(url).returncode == 0


def test_an_agent_that_ends_during_a_build_is_exit_75(begun):
    with agent({("POST", "/api/models/face/build"): begun, ("GET", "/api/status"): (503, {"error": "Server exiting"})}) as (
        url,
        _,
    ):
        assert build(url).returncode == 1  # it still answers, and says no

    with agent({("POST", "/api/models/face/build"): begun, ("GET", "/api/status"): None}) as (url, _):
        assert build(url).returncode == 75
