"""Models whose only configuration is Triton's config.pbtxt, in real engine hosts."""

from __future__ import annotations

import logging

import numpy

from tests.serving_rig import add_model, running

GPU = """
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { count: 1 kind: KIND_GPU } ]
dynamic_batching { max_queue_delay_microseconds: 100 }
parameters { key: "sqlite_db_path" value { string_value: "/data/results.db" } }
"""


def pbtxt(repository, name, text):
    (add_model(repository, name, "add_one.onnx") / "config.pbtxt").write_text(text)


async def test_a_model_for_a_gpu_runs_here_with_a_warning_and_its_parameters_are_kept(tmp_path, caplog):
    pbtxt(tmp_path, "one", GPU)
    with caplog.at_level(logging.WARNING):
        async with running(tmp_path) as rig:
            answer = await rig.ask("one", numpy.zeros((3, 4), numpy.float32))
            served = rig.serving.lookup("one")
    assert answer.tolist() == [[1.0] * 4] * 3
    assert (served.max_batch_size, served.config.parameter_values) == (8, {"sqlite_db_path": "/data/results.db"})
    why = "ONNX Runtime and Python models run on the CPU; only TensorRT uses it"
    assert "model one/1: not used by this version: instance_group[0].kind (%s)" % why in caplog.messages


async def test_a_foreign_backend_and_a_sequence_fail_with_the_way_out_and_the_other_serves(tmp_path):
    pbtxt(tmp_path, "foreign", 'backend: "pytorch"')
    pbtxt(tmp_path, "sequence", "sequence_batching { direct {} }")
    pbtxt(tmp_path, "broken", "max_batch_size: 8 }")
    pbtxt(tmp_path, "good", GPU)
    async with running(tmp_path) as rig:
        said = {model["name"]: (model["state"], model["reason"]) for model in rig.serving.status()}
        assert (await rig.ask("good", numpy.zeros((1, 4), numpy.float32))).tolist() == [[1.0] * 4]
    assert said["good"][0] == "ok"
    assert {said[name][0] for name in ("foreign", "sequence", "broken")} == {"failed"}
    assert "export it to ONNX" in said["foreign"][1]
    assert "sequence batching comes in a later version" in said["sequence"][1]
    assert "config.pbtxt:1:19: expected the name of a field, found }" in said["broken"][1]
