"""The builder as a process, started as the agent starts it."""

import json
import os
import socket
import subprocess

import pytest

from edge_agent.engine_host import boot, wire
from tests.fake_gpu import gpu_python

WAIT_S = 30
TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20


class BuilderProcess:
    """Told orders by its control channel."""

    def __init__(self, folder, **device):
        python = gpu_python(folder, **device)
        self.folder = folder
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(WAIT_S)
        words = [python, "-I", boot.__file__, "edge_agent.engine_host.build.main", str(os.getpid()), str(theirs.fileno())]
        self.process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
        theirs.close()
        self.events = []

    def call(self, op, **fields):
        """The reply to an operation; events before it are kept."""
        wire.send_control(self.control, dict(fields, id=1, op=op), ())
        while True:
            message, _ = wire.receive_control(self.control)
            if "event" not in message:
                return message
            self.events.append(message)

    def build(self, **fields):
        order = {
            "label": "add_one/1",
            "onnx": os.path.join(TESTS, "models", "add_one.onnx"),
            "output": str(self.folder / "plan.tmp"),
            "precision": "fp16",
            "workspaces": [256 * MIB],
            "larger_workspace": 0,
            "memory_short": False,
            "max_batch_size": 8,
            "usual_batch_size": 0,
            "profiles": [],
            "inputs": [],
            "dla_core": -1,
            "strongly_typed": None,
            "calibration": "",
            "timing_cache": "",
            "timing_temporary": "",
            "optimization_level": None,
            "expected_s": 0.0,
        }
        return self.call("build", **dict(order, **fields))

    def close(self):
        self.control.close()
        self.process.wait(WAIT_S)


@pytest.fixture
def builder(tmp_path):
    made = []

    def make(**device):
        made.append(BuilderProcess(tmp_path, **device))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("version", ["8.2", "10.3.0"])
def test_a_builder_tells_facts_and_progress_and_makes_a_plan(builder, version):
    child = builder(version=version)
    facts = child.call("facts")
    assert (facts["ok"], facts["available"], facts["tensorrt"]) == (True, True, version)
    reply = child.build()
    assert (reply["ok"], reply["precision"], reply["workspace_bytes"]) == (True, "fp16", 256 * MIB)
    assert {event["event"] for event in child.events} == {"progress"}
    assert list(dict.fromkeys(event["phase"] for event in child.events)) == ["parse", "build", "serialize"]
    plan = (child.folder / "plan.tmp").read_bytes()
    assert json.loads(plan.split(b"\n")[1].decode())["precision"] == "fp16"


def test_a_board_without_driver_is_a_refusal_not_an_end(builder):
    child = builder(driver=False)
    reply = child.build()
    assert (reply["ok"], reply["error"]["code"], reply["error"]["detail"]) == (False, "build.failed", {"permanent": False})
    assert "driver" in reply["error"]["text"]
    assert child.call("ping")["ok"]


def test_an_order_that_lacks_a_field_is_a_refusal(builder):
    reply = builder().call("build", label="m/1")
    assert (reply["ok"], reply["error"]["code"], reply["error"]["detail"]) == (False, "build.failed", {"permanent": True})


def test_a_calibration_cache_of_any_size_is_refused_within_bounds(builder, tmp_path):
    child = builder(version="8.2")
    cache = tmp_path / "calibration.cache"
    with open(str(cache), "wb") as file:
        file.truncate(100 * MIB)
    reply = child.build(precision="int8", calibration=str(cache))
    assert (reply["ok"], reply["error"]["code"]) == (False, "build.precision_unsupported")
    assert "is no calibration cache" in reply["error"]["text"]
