"""Good and bad requests to the agent as a process."""

from __future__ import annotations

import concurrent.futures
import json
import random
import re
import shutil
import struct
import zlib

import numpy
import pytest

from tests.agent_process import DATA, AgentProcess
from tests.serving_rig import add_model

PICTURES = {"astronaut": 1, "chelsea": 0, "coffee": 0}
CONFIG = "max_batch_size = 8\n[dynamic_batching]\nmax_queue_delay_microseconds = 1000\n"


@pytest.fixture(scope="module")
def agent(tmp_path_factory, face_models):
    folder = tmp_path_factory.mktemp("requests")
    shutil.copytree(str(face_models / "face"), str(folder / "models" / "face"))
    add_model(folder / "models", "add", "add_one_any.onnx", CONFIG)
    with AgentProcess(folder, folder / "models") as running:
        yield running


def infer_json(agent, tag, rows):
    data = [[tag + row, 0.5] for row in range(rows)]
    tensor = {"name": "x", "datatype": "FP32", "shape": [rows, 2], "data": data}
    status, body, _ = agent.ask("/v2/models/add/infer", json.dumps({"id": str(tag), "inputs": [tensor]}).encode())
    answer = json.loads(body)
    assert status == 200, answer
    assert answer["id"] == str(tag)
    assert answer["outputs"][0]["data"] == [value for row in range(rows) for value in (tag + row + 1, 1.5)]


def infer_binary(agent, tag, rows):
    data = numpy.full((rows, 3), tag, numpy.float32)
    tensor = {"name": "x", "datatype": "FP32", "shape": [rows, 3], "parameters": {"binary_data_size": data.nbytes}}
    head = json.dumps({"id": str(tag), "inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    status, body, answered = agent.ask("/v2/models/add/infer", head + data.tobytes(), headers)
    assert status == 200, body
    length = int(answered["Inference-Header-Content-Length"])
    assert json.loads(body[:length])["id"] == str(tag)
    assert (numpy.frombuffer(body[length:], numpy.float32) == tag + 1).all()
    assert len(body) - length == data.nbytes


def detect(agent, tag, rows):
    name = random.Random(tag).choice(list(PICTURES))
    status, answer = agent.detect("face", (DATA / (name + ".jpg")).read_bytes())
    assert status == 200, answer
    assert len(answer["objects"]) == PICTURES[name]


def unknown(agent, tag, rows):
    status, answer = agent.detect("model-%d" % tag, b"x")
    assert status == 404
    assert "model-%d" % tag in answer["error"]


def wrong_shape(agent, tag, rows):
    tensor = {"name": "x", "datatype": "FP32", "shape": [rows, 2], "data": [tag]}
    status, body, _ = agent.ask("/v2/models/add/infer", json.dumps({"id": str(tag), "inputs": [tensor]}).encode())
    assert 400 <= status < 600
    assert status != 503
    assert str(tag) in json.loads(body)["error"]


def test_a_thousand_mixed_requests_of_32_clients_all_get_their_own_answer(agent):
    chance = random.Random(11)
    kinds = [infer_json] * 5 + [infer_binary] * 5 + [detect, unknown, wrong_shape]
    work = [(chance.choice(kinds), 1000 + number, chance.randint(1, 4)) for number in range(1000)]
    with concurrent.futures.ThreadPoolExecutor(32) as clients:
        for answered in [clients.submit(kind, agent, tag, rows) for kind, tag, rows in work]:
            answered.result(timeout=120)
    assert agent.status()["agent"]["arena"]["slots"] == 0
    pending = re.findall(r"^nv_inference_pending_request_count\S* (\S+)$", agent.get("/metrics")[1].decode(), re.M)
    assert len(pending) == 2
    assert set(map(float, pending)) == {0.0}


def png_header(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


ASTRONAUT = (DATA / "astronaut.jpg").read_bytes()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "empty"),
        (b"this is a text file that somebody called .jpg\n" * 20, "JPEG"),
        (ASTRONAUT[: len(ASTRONAUT) // 2], "cut off"),
        (png_header(20000, 20000), "20000"),
    ],
    ids=["empty body", "text called .jpg", "truncated JPEG", "a PNG header of 20000 x 20000"],
)
def test_what_is_no_picture_is_refused_with_a_text_and_nothing_else_restarts(agent, body, says):
    before = agent.child_pid("host:cpu")
    status, answer = agent.detect("face", body)
    assert status == 400
    assert says.lower() in answer["error"].lower()
    assert agent.detect("face", ASTRONAUT)[0] == 200
    assert agent.child_pid("host:cpu") == before


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"shape": [1, 3]}, None, "x"),
        ({"shape": [1, 2, 2], "data": [1, 2, 3, 4]}, 400, "shape"),
        ({"shape": [9, 2], "data": [1] * 18}, 400, "batch"),
        ({"datatype": "INT32"}, 400, "INT32"),
        ({"name": "y"}, 400, "'y'"),
        ({"shape": "-1"}, 400, "shape"),
    ],
)
def test_wrong_tensors_are_refused_with_what_is_wrong(agent, change, status, says):
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2], **change}
    code, body, _ = agent.ask("/v2/models/add/infer", json.dumps({"inputs": [tensor]}).encode())
    assert code in ((400, 500) if status is None else (status,))
    assert says in json.loads(body)["error"]


def test_unknown_models_paths_and_methods_answer_json(agent):
    for path, expected in (
        ("/v2/models/absent", 404),
        ("/v2/absent", 404),
        ("/api/absent", 404),
        ("/v2/models/add/versions/9", 404),
    ):
        status, body = agent.get(path)
        assert status == expected
        assert json.loads(body)["error"]
    status, body, _ = agent.ask("/v2/health/live", b"x")
    assert status == 405
    assert json.loads(body)["error"]
