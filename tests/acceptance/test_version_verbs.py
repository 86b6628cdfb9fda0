"""Builds, checks, promotions and ways back, asked for by the command line and HTTP of a running agent."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy
import pytest

from tests.agent_process import AgentProcess, until
from tests.healing_rig import PLAN, Gpu, add_plan_model
from tests.serving_rig import MODELS, add_model

PATIENCE_S = 60.0


@pytest.fixture
def gpu(tmp_path: Path) -> Gpu:
    return Gpu(tmp_path / "gpu")


@pytest.fixture
def agent(tmp_path: Path, gpu: Gpu) -> Iterator[AgentProcess]:
    add_plan_model(tmp_path / "models", "planned", PLAN)
    add_model(tmp_path / "models", "plain", "add_one.onnx")
    add_model(tmp_path / "models", "judged", "add_one.onnx", "max_batch_size = 8\n[accept]\nshadow_requests = 10000\n")
    gpu.hold_builds()
    extra = 'control_mode = "poll"\npoll_interval_s = 0.2\n[hosts.gpu]\npython = "%s"\n' % gpu.python
    with AgentProcess(tmp_path, tmp_path / "models", extra) as running:
        yield running


def version(agent: AgentProcess, name: str, number: str = "1") -> Dict[str, Any]:
    """Its entry in the status; empty where there is none."""
    versions = next(model for model in agent.status()["models"] if model["name"] == name)["versions"]
    return next((one for one in versions if one["version"] == number), {})


def post(agent: AgentProcess, path: str) -> Any:
    """Status and JSON."""
    status, body, _ = agent.ask("/api/models/" + path, b"")
    return status, json.loads(body)


def ask(agent: AgentProcess, name: str, number: float = 1.0) -> float:
    """The model's answer to one number."""
    data = numpy.full((1, 4), number, numpy.float32).tolist()
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": data}]}).encode()
    status, answer, _ = agent.ask("/v2/models/%s/infer" % name, body)
    assert status == 200, answer
    return float(json.loads(answer)["outputs"][0]["data"][0])


def test_a_plan_is_built_waited_for_checked_and_told(agent: AgentProcess, gpu: Gpu) -> None:
    waited = until(lambda: version(agent, "planned").get("build"), PATIENCE_S, "the build")
    assert waited["state"] in ("queued", "building")
    assert version(agent, "planned")["code"] == "engine.building"
    assert ask(agent, "planned") == 2.0
    shown = agent.cli("models", "show", "planned").stdout
    assert "version 1: impaired, ONNX Runtime" in shown
    assert "what to do: Wait" in shown
    assert "  build: " in shown
    assert "model planned 1 onnxruntime" in engines(agent)

    begun = subprocess.Popen(
        agent.command("models", "build", "planned"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=agent.environ,
    )
    try:
        assert begun.stderr is not None
        assert begun.stderr.readline().startswith("planned/1: ")  # it is under way: now it may go on
        gpu.let_go()
        said, way = begun.communicate(timeout=PATIENCE_S)
    finally:
        begun.kill()
    assert (begun.returncode, said) == (0, "planned/1: TensorRT, checked\n"), way

    served = version(agent, "planned")
    assert (served["engine"], served["verified"], served["state"], served["build"]["state"]) == ("tensorrt", True, "ok", "done")
    assert served["plan"]["compared"] > 0
    assert ask(agent, "planned") == 2.0
    checked = agent.cli("models", "verify", "planned")
    assert (checked.returncode, checked.stdout.startswith("planned/1: good; ")) == (0, True), checked.stderr
    status, found = post(agent, "planned/verify?version=1")
    assert (status, found["good"], found["version"]) == (200, True, "1")
    assert "plan: fp16, " in agent.cli("models", "show", "planned").stdout
    assert "model planned 1 tensorrt" in engines(agent)
    metrics = agent.get("/metrics")[1].decode()
    assert 'edge_agent_engine_builds_total{result="built"} 1.0' in metrics
    assert "edge_agent_engine_build_seconds_count 1.0" in metrics


def engines(agent: AgentProcess) -> str:
    """`model NAME VERSION ENGINE` for each line of the metric."""
    lines = agent.get("/metrics")[1].decode().splitlines()
    found = [line.split('"') for line in lines if line.startswith("edge_agent_model_engine{")]
    return "\n".join("model %s %s %s" % (parts[3], parts[5], parts[1]) for parts in found)


def test_a_build_that_fails_says_why_on_the_command_line(agent: AgentProcess, gpu: Gpu) -> None:
    until(lambda: version(agent, "planned").get("build"), PATIENCE_S, "the build")
    gpu.let_go(parse="Assertion failed: no operator GridSample")
    until(lambda: version(agent, "planned")["code"] == "engine.build_failed", PATIENCE_S, "the end of the build")
    failed = agent.cli("models", "build", "planned")
    assert failed.returncode == 1
    assert "planned/1: no new plan: " in failed.stderr
    assert "it goes on with ONNX Runtime" in failed.stderr
    assert "GridSample" in failed.stderr
    assert "what to do: " in failed.stderr
    assert ask(agent, "planned") == 2.0
    assert 'edge_agent_engine_builds_total{result="failed"} 2.0' in agent.get("/metrics")[1].decode()
    refused = agent.cli("models", "verify", "planned")
    assert (refused.returncode, "not served from a TensorRT plan" in refused.stderr) == (1, True)


def test_what_cannot_be_done_says_what_to_do(agent: AgentProcess) -> None:
    for path, status, said in (
        ("plain/build", 400, "add [build]"),
        ("plain/verify", 400, "add [build]"),
        ("plain/promote", 400, "name one"),
        ("plain/promote?version=7", 404, "no version 7"),
        ("plain/rollback", 400, "no earlier version"),
        ("nobody/build", 404, "nobody"),
        ("nobody/promote", 404, "nobody"),
    ):
        answered, body = post(agent, path)
        assert (answered, said in body["error"]) == (status, True), (path, body)
    assert agent.cli("models", "rollback", "plain").returncode == 1


def test_a_new_version_is_compared_and_changed_by_hand(agent: AgentProcess, tmp_path: Path) -> None:
    folder = tmp_path / "models/judged"
    (folder / "2").mkdir()
    shutil.copy(MODELS / "add_one.onnx", folder / "2/model.onnx")
    until(lambda: version(agent, "judged", "2").get("shadow"), PATIENCE_S, "the candidate")
    until(lambda: version(agent, "judged", "2")["code"] == "model.shadowing", PATIENCE_S, "the comparison")
    until(
        lambda: ask(agent, "judged") and version(agent, "judged", "2")["shadow"]["compared"], PATIENCE_S, "a compared request"
    )
    assert "compared: " in agent.cli("models", "show", "judged").stdout
    assert 'edge_agent_shadow_requests_total{agreed="true",model="judged",version="2"}' in agent.get("/metrics")[1].decode()

    promoted = agent.cli("models", "promote", "judged")
    assert promoted.returncode == 0, promoted.stderr
    assert version(agent, "judged", "2")["state"] == "ok"
    assert "shadow" not in version(agent, "judged", "2")
    status, back = post(agent, "judged/rollback")
    assert (status, back["name"]) == (200, "judged")
    assert version(agent, "judged")["state"] == "ok"
    assert version(agent, "judged", "2")["state"] == "off"
    assert agent.cli("models", "promote", "judged", "--version", "2").returncode == 0
    assert version(agent, "judged", "2")["state"] == "ok"
    until(lambda: kinds(agent).count("model.promoted") == 2, PATIENCE_S, "the rows of both promotions")
    assert kinds(agent).count("model.rolled_back") == 1


def kinds(agent: AgentProcess) -> List[str]:
    """Of the model's events."""
    events = agent.json("/api/events?limit=100")["events"]
    return [event["kind"] for event in events if event["subject"].startswith("judged/")]
