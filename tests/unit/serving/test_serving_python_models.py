"""A Triton repository with Python models, served as it lies there."""

from __future__ import annotations

import asyncio

import numpy
import pytest

from edge_agent import errors
from tests.doubles.engine_host import until
from tests.serving_rig import add_model, running

PBTXT = """
name: "%(name)s"
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { kind: KIND_GPU } ]
parameters { key: "factor" value: { string_value: "10" } }
"""

TEXT = """
import json
import os
import time
import numpy
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.factor = float(config["parameters"]["factor"]["string_value"])
        self.type = pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(config, "y")["data_type"])

    def execute(self, requests):
        while os.path.exists(%(wait)r):
            time.sleep(0.005)
        return [self.one(pb_utils.get_input_tensor_by_name(request, "x")) for request in requests]

    def one(self, x):
        request = pb_utils.InferenceRequest(model_name="%(calls)s", requested_output_names=["y"], inputs=[x])
        response = request.exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        y = pb_utils.get_output_tensor_by_name(response, "y").as_numpy() * self.factor
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", y.astype(self.type))])
"""


def add_python(repository, name, calls):
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(TEXT % {"calls": calls, "wait": str(repository / "wait")})
    (repository / name / "config.pbtxt").write_text(PBTXT % {"name": name})


def row(value):
    return numpy.full((1, 4), value, numpy.float32)


async def test_python_models_call_models_by_name(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    add_python(tmp_path, "low", "add")
    add_python(tmp_path, "high", "low")
    async with running(tmp_path) as rig:
        answers = await asyncio.gather(*[rig.ask("high", row(float(n))) for n in range(6)])
        assert [answer[0, 0] for answer in answers] == [(n + 1) * 100.0 for n in range(6)]
        sources = {(record.model, record.source) for record in rig.journal.requests}
        assert {("low", "model/high"), ("add", "model/low")} <= sources


async def test_a_call_that_fails_fails_its_request_with_the_reason(tmp_path):
    add_python(tmp_path, "low", "nobody")
    add_python(tmp_path, "loop", "loop")
    async with running(tmp_path) as rig:
        with pytest.raises(errors.ModelNotFound, match="unknown model: 'nobody' is not found"):
            await rig.ask("low", row(1.0))
        with pytest.raises(errors.ExecutionError, match="calling loop/1 from loop/1 would wait for itself"):
            await rig.ask("loop", row(1.0))


async def test_what_runs_when_the_agent_stops_may_still_call(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    add_python(tmp_path, "low", "add")
    async with running(tmp_path) as rig:
        (tmp_path / "wait").touch()
        asked = asyncio.ensure_future(rig.ask("low", row(1.0)))
        await until(lambda: rig.serving.in_flight)
        rig.serving.drain()
        (tmp_path / "wait").unlink()
        assert (await asked)[0, 0] == 20.0
        assert await rig.serving.drained(5.0)
