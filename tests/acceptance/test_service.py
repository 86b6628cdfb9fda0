"""The agent as systemd sees it, without systemd."""

from __future__ import annotations

import os
import signal
import socket
import time

import pytest

from tests.agent_process import AgentProcess, until
from tests.serving_rig import add_model


def test_ready_is_said_when_models_serve_and_the_watchdog_is_fed_by_progress(tmp_path):
    add_model(tmp_path / "models", "add", "add_one.onnx")
    said = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(0.1)

        def hear():
            try:
                said.append(manager.recv(4096).decode())
            except socket.timeout:
                return None
            return said[-1]

        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
        agent = AgentProcess(tmp_path, tmp_path / "models", environ=environ)
        with agent:
            until(lambda: hear() and any("READY=1" in text for text in said), 10, "READY")
            fed = sum("WATCHDOG=1" in text for text in said)
            end = time.monotonic() + 2.2
            while time.monotonic() < end:
                hear()
            assert sum("WATCHDOG=1" in text for text in said) >= fed + 3
            os.kill(agent.child_pid("host:cpu"), signal.SIGKILL)  # a dead host never withholds it
            fed = sum("WATCHDOG=1" in text for text in said)
            end = time.monotonic() + 2.2
            while time.monotonic() < end:
                hear()
            assert sum("WATCHDOG=1" in text for text in said) >= fed + 3
        while hear():
            pass
        assert any("STOPPING=1" in text for text in said)


def test_check_says_every_fault_at_once_and_answers_78(tmp_path):
    (tmp_path / "models").mkdir()
    agent = AgentProcess(tmp_path, tmp_path / "models", extra='[store]\ncommit_intervall_ms = 5\n[arena]\nmax_bytes = "x"\n')
    checked = agent.cli("check")
    assert checked.returncode == 78
    assert "commit_interval_ms" in checked.stderr
    assert "arena.max_bytes" in checked.stderr


@pytest.mark.parametrize(
    "broken", ["[store]\ncommit_intervall_ms = 1\n", "[store\nnot TOML\n"], ids=["an unknown key", "not even TOML"]
)
def test_a_broken_file_after_a_good_start_runs_the_last_good_one_and_says_so(tmp_path, broken):
    add_model(tmp_path / "models", "add", "add_one.onnx")
    with AgentProcess(tmp_path, tmp_path / "models") as agent:
        assert agent.status()["agent"]["safe_mode"] is False
    agent.config.write_text(agent.config.read_text() + broken)
    with agent:
        status = agent.status()["agent"]
        assert status["safe_mode"] is True
        assert (status["state"], status["code"]) == ("degraded", "config.safe_mode")
        assert agent.status()["models"][0]["state"] == "ok"
