"""Who may reach the agent from where."""

from __future__ import annotations

import base64
import json
import subprocess

from tests.agent_process import AgentProcess
from tests.serving_rig import add_model

OPEN = 'host = "0.0.0.0"\n'


def test_a_host_other_than_loopback_needs_a_token_first(tmp_path):
    add_model(tmp_path / "models", "add", "add_one.onnx")
    agent = AgentProcess(tmp_path, tmp_path / "models", http=OPEN)
    refused = agent.cli("run")
    assert refused.returncode == 78
    assert "edge-agent token add" in refused.stderr
    added = agent.cli("token", "add", "boss", "--role", "admin")
    assert added.returncode == 0, added.stderr
    (token,) = added.stdout.split()
    with agent:
        assert agent.get("/v2/health/live")[0] == 200
        status, body, headers = agent.ask("/api/status")
        assert status == 401
        assert "token" in json.loads(body)["error"]
        assert "Basic" in headers["WWW-Authenticate"]
        assert agent.get("/api/status", Authorization="Bearer " + token)[0] == 200
        basic = base64.b64encode(b"anyone:" + token.encode()).decode()
        assert agent.get("/api/status", Authorization="Basic " + basic)[0] == 200
        assert agent.get("/api/status", Authorization="Bearer wrong")[0] == 401
        listed = agent.cli("token", "list")
        assert "boss" in listed.stdout
        assert token not in listed.stdout
        socket = str(tmp_path / "state" / "control.sock")
        asked = subprocess.run(
            ["curl", "-sS", "--unix-socket", socket, "http://agent/api/status"], capture_output=True, check=True, timeout=30
        )
        assert json.loads(asked.stdout)["agent"]["id"] == "box"
        assert agent.cli("events", "--format", "json").returncode == 0
        models = agent.cli("models", "list")
        assert models.returncode == 0, models.stderr
        assert "add" in models.stdout
        assert json.loads(agent.cli("models", "show", "add", "--format", "json").stdout)["inputs"][0]["name"] == "x"
        refused = agent.cli("models", "show", "absent")
        assert (refused.returncode, "absent" in refused.stderr) == (1, True)
        device = agent.cli("token", "add", "cam-7", "--role", "device").stdout.strip()
        assert agent.get("/api/status", Authorization="Bearer " + device)[0] == 403
        assert agent.cli("token", "revoke", "boss").returncode == 0
        assert agent.get("/api/status", Authorization="Bearer " + token)[0] == 401
    assert token not in agent.log.read_text()
    assert agent.cli("models", "list").returncode == 75
