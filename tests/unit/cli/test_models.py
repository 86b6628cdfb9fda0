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
            status, body = answers.get((self.command, self.path), (404, {"error": "Not Found"}))
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


@pytest.mark.parametrize("verb", ["load", "unload"])
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
