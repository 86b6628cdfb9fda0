"""A repository as Triton's users have it, and Triton's own client: both work as they are."""

from __future__ import annotations

import shutil
import sqlite3

import numpy
import pytest

from tests.agent_process import AgentProcess
from tests.serving_rig import MODELS

ADD = """
name: "add"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { kind: KIND_GPU count: 1 } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 500 }
version_policy: { all { } }
"""
TEXT = """
name: "text"
backend: "onnxruntime"
max_batch_size: 4
"""
HALVE = """
name: "halve"
backend: "python"
max_batch_size: 8
input [ { name: "raw" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "half" data_type: TYPE_FP32 dims: [ 4 ] } ]
parameters { key: "sqlite_db_path" value: { string_value: "%s" } }
"""
HALVE_PY = """
import json
import sqlite3

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.db = sqlite3.connect(config["parameters"]["sqlite_db_path"]["string_value"])
        self.db.execute("create table if not exists seen (n integer)")
        self.dtype = pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(config, "half")["data_type"])

    def execute(self, requests):
        responses = []
        for request in requests:
            raw = pb_utils.get_input_tensor_by_name(request, "raw").as_numpy()
            if (raw < 0).any():
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("negative numbers are not halved")))
                continue
            self.db.execute("insert into seen values (?)", (int(raw.shape[0]),))
            half = pb_utils.Tensor("half", (raw / 2).astype(self.dtype))
            responses.append(pb_utils.InferenceResponse(output_tensors=[half]))
        self.db.commit()
        return responses

    def finalize(self):
        self.db.close()
"""
LOGIC = """
name: "logic"
backend: "python"
max_batch_size: 0
input [ { name: "raw" data_type: TYPE_FP32 dims: [ 1, 4 ] } ]
output [ { name: "twice" data_type: TYPE_FP32 dims: [ 1, 4 ] } ]
"""
LOGIC_PY = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.Tensor("x", pb_utils.get_input_tensor_by_name(request, "raw").as_numpy())
            call = pb_utils.InferenceRequest(model_name="add", requested_output_names=["y"], inputs=[x])
            answer = call.exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            y = pb_utils.get_output_tensor_by_name(answer, "y").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("twice", y * 2)]))
        return responses
"""
CHAIN = """
name: "chain"
platform: "ensemble"
max_batch_size: 8
input [ { name: "raw" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "result" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step [
    { model_name: "halve" model_version: -1
      input_map { key: "raw" value: "raw" } output_map { key: "half" value: "prepared" } },
    { model_name: "add" model_version: -1
      input_map { key: "x" value: "prepared" } output_map { key: "y" value: "result" } }
  ]
}
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models = folder / "models"
    for name, config in (
        ("add", ADD),
        ("text", TEXT),
        ("halve", HALVE % (folder / "seen.db")),
        ("logic", LOGIC),
        ("chain", CHAIN),
    ):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(config)
    for path, file in (("add/1", "add_one.onnx"), ("add/2", "add_one.onnx"), ("text/1", "same_text.onnx")):
        (models / path).mkdir(exist_ok=True)
        shutil.copy(MODELS / file, models / path / "model.onnx")
    (models / "halve/1/model.py").write_text(HALVE_PY)
    (models / "logic/1/model.py").write_text(LOGIC_PY)
    return folder


@pytest.fixture(scope="module")
def agent(repository):
    with AgentProcess(repository, repository / "models") as running:
        states = {model["name"]: (model["state"], model["reason"]) for model in running.status()["models"]}
        assert states == dict.fromkeys(("add", "chain", "halve", "logic", "text"), ("ok", ""))
        yield running


@pytest.fixture
def client(agent):
    http = pytest.importorskip("tritonclient.http")
    client = http.InferenceServerClient("127.0.0.1:%d" % agent.port, concurrency=8)
    yield client
    client.close()


def ask(client, model, name, array, datatype="FP32", **options):
    http = pytest.importorskip("tritonclient.http")
    tensor = http.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return client.infer(model, [tensor], **options)


ROW = numpy.array([[2, 4, 6, 8]], numpy.float32)


def test_check_says_that_all_of_it_is_served(agent, repository):
    checked = agent.cli("check", "--repository", str(repository / "models"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    lines = checked.stdout.splitlines()
    assert len([line for line in lines if "serves" in line]) == 5
    assert any("KIND_GPU" in line or "instance_group" in line for line in lines)


@pytest.mark.parametrize("version", ["", "1", "2"])
def test_both_versions_answer_on_a_box_without_the_gpu_they_ask_for(client, version):
    answer = ask(client, "add", "x", ROW, model_version=version)
    assert answer.as_numpy("y").tolist() == [[3, 5, 7, 9]]
    assert answer.get_response()["model_version"] == (version or "2")


def test_texts_come_back_as_they_went(client):
    metadata = client.get_model_metadata("text")
    name = metadata["inputs"][0]["name"]
    shape = [1] + [3 if dim < 0 else dim for dim in metadata["inputs"][0]["shape"][1:]]
    words = numpy.array([b"caf\xc3\xa9", b"", "\u6444\u50cf\u673a".encode()] * 4, object)[: int(numpy.prod(shape))].reshape(
        shape
    )
    answer = ask(client, "text", name, words, "BYTES")
    assert answer.as_numpy(metadata["outputs"][0]["name"]).tolist() == words.tolist()


def test_a_python_model_has_its_parameters_and_its_error_is_its_own(client, repository):
    http_error = pytest.importorskip("tritonclient.utils").InferenceServerException
    assert ask(client, "halve", "raw", ROW).as_numpy("half").tolist() == [[1, 2, 3, 4]]
    with pytest.raises(http_error, match="negative numbers are not halved"):
        ask(client, "halve", "raw", -ROW)
    database = sqlite3.connect(str(repository / "seen.db"))
    assert database.execute("select count(*) from seen").fetchone()[0] >= 1
    database.close()


def test_business_logic_calls_another_model(client):
    assert ask(client, "logic", "raw", ROW).as_numpy("twice").tolist() == [[6, 10, 14, 18]]


def test_an_ensemble_of_a_preprocessing_and_an_inference_model(client):
    answer = ask(client, "chain", "raw", ROW)
    assert answer.as_numpy("result").tolist() == [[2, 3, 4, 5]]
    config = client.get_model_config("chain")
    assert config["ensemble_scheduling"]["step"][1]["model_name"] == "add"


def test_statistics_and_index_name_every_model(client):
    ask(client, "chain", "raw", ROW)
    listed = {(entry["name"], entry.get("version"), entry.get("state")) for entry in client.get_model_repository_index()}
    assert ("add", "1", "READY") in listed
    assert {name for name, _, _ in listed} == {"add", "chain", "halve", "logic", "text"}
    stats = {(entry["name"], entry["version"]): entry for entry in client.get_inference_statistics()["model_stats"]}
    assert stats[("chain", "1")]["inference_count"] >= 1
    assert stats[("halve", "1")]["inference_stats"]["success"]["count"] >= 1
