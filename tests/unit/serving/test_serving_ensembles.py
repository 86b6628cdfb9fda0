"""Ensembles and Python models, each calling the other."""

from __future__ import annotations

import asyncio

import numpy
import pytest

from edge_agent import errors
from tests.serving_rig import add_model, running

PYTHON = """
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""

DOUBLES = """
class Model:
    def load(self, config):
        pass

    def infer(self, inputs):
        return {"y": inputs["x"] * 2}
"""

CALLS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.one(pb_utils.get_input_tensor_by_name(request, "x")) for request in requests]

    def one(self, x):
        response = pb_utils.InferenceRequest(model_name="%s", requested_output_names=["y"], inputs=[x]).exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        return pb_utils.InferenceResponse([pb_utils.get_output_tensor_by_name(response, "y")])
"""

PIPELINE = """
platform: "ensemble"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step [
    { model_name: "%s" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "between" } },
    { model_name: "%s" model_version: -1 input_map { key: "x" value: "between" } output_map { key: "y" value: "y" } }
  ]
}
"""


def add_python(repository, name, text):
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(text)
    (repository / name / "config.pbtxt").write_text(PYTHON)


def add_pipeline(repository, name, first, second):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(PIPELINE % (first, second))


def row(value):
    return numpy.full((1, 4), value, numpy.float32)


async def test_a_python_model_prepares_what_another_infers(tmp_path):
    add_python(tmp_path, "preprocessing", DOUBLES)
    add_model(tmp_path, "inference", "add_one.onnx", "max_batch_size = 8\n")
    add_pipeline(tmp_path, "pipeline", "preprocessing", "inference")
    async with running(tmp_path) as rig:
        assert rig.host_pid("python") != rig.host_pid("cpu")
        answers = await asyncio.gather(*(rig.ask("pipeline", row(float(n))) for n in range(20)))
        assert [answer[0, 0] for answer in answers] == [n * 2 + 1.0 for n in range(20)]


async def test_a_python_model_calls_an_ensemble(tmp_path):
    add_python(tmp_path, "doubles", DOUBLES)
    add_python(tmp_path, "asks", CALLS % "pipeline")
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    add_pipeline(tmp_path, "pipeline", "add", "doubles")
    async with running(tmp_path) as rig:
        answers = await asyncio.gather(*(rig.ask("asks", row(float(n))) for n in range(20)))
        assert [answer[0, 0] for answer in answers] == [(n + 1) * 2.0 for n in range(20)]
        assert rig.arena.status()["slots"] == 0


async def test_a_python_model_that_calls_an_ensemble_that_calls_it_is_refused_and_waits_for_nobody(tmp_path):
    add_python(tmp_path, "asks", CALLS % "pipeline")
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    add_pipeline(tmp_path, "pipeline", "add", "asks")
    async with running(tmp_path) as rig:
        with pytest.raises(errors.ExecutionError, match="in ensemble 'pipeline', step 'asks': asks/1 would wait for itself"):
            await asyncio.wait_for(rig.ask("asks", row(1.0)), 10)
        with pytest.raises(errors.ExecutionError, match="would wait for itself"):
            await asyncio.wait_for(rig.ask("pipeline", row(1.0)), 10)
        assert (await rig.ask("add", row(1.0)))[0, 0] == 2.0
