"""Equal requests are answered without the model: however they are encoded, and after a restart."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy

from tests.agent_process import AgentProcess, until
from tests.serving_rig import add_model

VALUES = numpy.array([[1, 2, 3, 4]], numpy.float32)


def ask(agent: AgentProcess, binary_in: bool, binary_out: bool) -> Any:
    """The output of one request."""
    tensor: Dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    document: Dict[str, Any] = {"inputs": [tensor], "parameters": {"binary_data_output": binary_out}}
    if binary_in:
        tensor["parameters"] = {"binary_data_size": VALUES.nbytes}
    else:
        tensor["data"] = VALUES.tolist()
    head = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))} if binary_in else {}
    status, body, answered = agent.ask("/v2/models/add/infer", head + (VALUES.tobytes() if binary_in else b""), headers)
    assert status == 200, body
    if not binary_out:
        return json.loads(body)["outputs"][0]["data"]
    length = int(answered["Inference-Header-Content-Length"])
    return numpy.frombuffer(body[length:], numpy.float32).tolist()


def counts(agent: AgentProcess) -> Tuple[int, int, int]:
    """Hits, misses, inferences."""
    (entry,) = agent.json("/v2/models/add/stats")["model_stats"]
    stats = entry["inference_stats"]
    return stats["cache_hit"]["count"], stats["cache_miss"]["count"], entry["inference_count"]


def rows(agent: AgentProcess) -> Any:
    connection = sqlite3.connect("file:%s?mode=ro" % (agent.folder / "state" / "edge-agent.db"), uri=True)
    try:
        return connection.execute("SELECT model, version, bytes, hits FROM response_cache").fetchall()
    finally:
        connection.close()


def test_one_entry_answers_every_encoding_and_outlives_the_agent(tmp_path: Path) -> None:
    config = "max_batch_size = 8\n[response_cache]\nenable = true\n"
    add_model(tmp_path / "models", "add", "add_one.onnx", config)
    with AgentProcess(tmp_path, tmp_path / "models") as agent:
        for binary_in, binary_out in ((False, False), (True, False), (False, True), (True, True)):
            assert ask(agent, binary_in, binary_out) == [2, 3, 4, 5]
        assert counts(agent) == (3, 1, 1)
        until(lambda: len(rows(agent)) == 1, 10, "the row of the answer")
        assert rows(agent)[0][:2] == ("add", "1")
    assert rows(agent)[0][3] == 3
    with AgentProcess(tmp_path, tmp_path / "models") as agent:
        assert ask(agent, True, False) == [2, 3, 4, 5]
        assert counts(agent) == (1, 0, 0)
        assert b'nv_cache_num_hits_per_model{model="add",version="1"} 1.0' in agent.get("/metrics")[1]
        logged = until(lambda: agent.json("/api/requests?limit=1&since=1m")["requests"], 10, "the row of the request")
        assert (logged[0]["status"], logged[0]["batch_size"]) == ("ok", 0)
