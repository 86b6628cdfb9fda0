"""A real agent for the check: its repository, its process, questions to it."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
from demo_processes import ends_with_parent

from edge_agent.cli.bench_connection import Address

ROOT = Path(__file__).resolve().parents[2]
_STOP_S = 40
_READY_S = 60
_LAST_LINES = 15
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_CONFIG = """\
[agent]
id = "gpu-check"
state_dir = "state"
[http]
port = %d
[metrics]
port = 0
[models]
repository = "models"
[hosts.gpu]
python = %s
"""
_MODEL = """\
platform = "tensorrt_plan"
max_batch_size = 8
[dynamic_batching]
max_queue_delay_microseconds = 500
[build]
precision = "%s"
cuda_graphs = %s
"""


class AgentFailed(Exception):
    """The agent did not do what it should; the text says what."""


def add_model(folder: Path, name: str, onnx: bytes, precision: str, graphs: bool = True) -> None:
    """Puts a model into the repository."""
    version = folder / "models" / name / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").write_bytes(onnx)
    (version.parent / "config.toml").write_text(_MODEL % (precision, str(graphs).lower()))


class Agent:
    """The process."""

    def __init__(self, folder: Path, port: int, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.address = Address("127.0.0.1", port)
        self._base = "http://127.0.0.1:%d" % port
        self._process = process

    def get(self, path: str) -> bytes:
        """A body; OSError when it is no 200."""
        with _HTTP.open(self._base + path, timeout=10) as answer:
            body: bytes = answer.read()
        return body

    def status(self) -> Dict[str, Any]:
        """`/api/status`."""
        found: Dict[str, Any] = json.loads(self.get("/api/status"))
        return found

    def versions(self) -> Dict[str, Dict[str, Any]]:
        """Each model's version."""
        return {model["name"]: model["versions"][0] for model in self.status()["models"] if model["versions"]}

    def host_pid(self) -> int:
        """Process of the engine host `gpu`; 0 while there is none."""
        return next((host["pid"] or 0 for host in self.status()["engine_hosts"] if host["name"] == "gpu"), 0)

    def look(self) -> None:
        """AgentFailed when it ended by itself."""
        if self._process.poll() is not None:
            raise AgentFailed("the agent ended by itself:\n" + self.log())

    def log(self) -> str:
        """The last lines of its log."""
        lines = (self.folder / "agent.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def until_ready(self) -> None:
        """It takes requests."""
        end = time.monotonic() + _READY_S
        while time.monotonic() < end:
            self.look()
            with contextlib.suppress(OSError):
                self.get("/v2/health/ready")
                return
            time.sleep(0.05)
        raise AgentFailed("the agent was not ready within %d s:\n%s" % (_READY_S, self.log()))

    def stop(self) -> None:
        """Orderly."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running(folder: Path, host_python: str) -> Iterator[Agent]:
    """The agent on the models of the folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    config = folder / "agent.toml"
    config.write_text(_CONFIG % (port, json.dumps(host_python)))
    command = [sys.executable, "-m", "edge_agent", "-c", str(config), "run"]
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=str(ROOT), stdout=log, stderr=log, preexec_fn=ends_with_parent)  # noqa: PLW1509
    agent = Agent(folder, port, process)
    try:
        yield agent
    finally:
        agent.stop()


def request(address: Address, model: str, inputs: Dict[str, Any]) -> bytes:
    """A whole inference request with binary tensors."""
    tensors: List[Dict[str, Any]] = [
        {"name": name, "datatype": "FP32", "shape": list(array.shape), "parameters": {"binary_data_size": array.nbytes}}
        for name, array in inputs.items()
    ]
    head = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    body = head + b"".join(np.ascontiguousarray(array).tobytes() for array in inputs.values())
    return address.request("POST", "/v2/models/%s/infer" % model, headers, body)


def outputs(body: bytes) -> Dict[str, Any]:
    """The outputs of an answer by name; their bytes end its body, in the order of its head."""
    head, _ = json.JSONDecoder().raw_decode(body.decode("latin-1"))
    sizes = [tensor["parameters"]["binary_data_size"] for tensor in head["outputs"]]
    found, at = {}, len(body) - sum(sizes)
    for tensor, size in zip(head["outputs"], sizes):
        found[tensor["name"]] = np.frombuffer(body[at : at + size], np.float32).reshape(tensor["shape"])
        at += size
    return found
