from __future__ import annotations

import json

import pytest

from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.engine_host.build.order import Order
from edge_agent.engines.build_order import BuildOrder, BuildReport, ProfileRange

REPLY = {
    "precision": "fp16",
    "workspace_bytes": 1 << 28,
    "seconds": 12.5,
    "peak_rss_bytes": 1 << 30,
    "profiles": [{"x": {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}}],
    "io": [{"name": "x", "mode": "input", "datatype": "FP32", "shape": [-1, 4]}],
    "strongly_typed": False,
    "warnings": ["slow"],
}


def test_the_child_reads_what_the_agent_writes():
    order = BuildOrder(
        label="m/1",
        onnx_path="/m.onnx",
        output_path="/m.plan",
        precision="int8",
        max_batch_size=8,
        usual_batch_size=2,
        profiles=({"x": ProfileRange((1, 4), (2, 4), (8, 4))},),
        inputs=(TensorSpec("x", DataType.FP32, (-1, 4)),),
        dla_core=1,
        strongly_typed=True,
        calibration_path="/m.calib",
        timing_cache_path="/timing.cache",
        optimization_level=2,
        expected_s=60.0,
    )
    read = Order(json.loads(json.dumps(order.fields((512, 256), 1024, True))))
    assert (read.larger_workspace, read.memory_short) == (1024, True)
    assert (read.onnx, read.output, read.precision, read.workspaces) == ("/m.onnx", "/m.plan", "int8", [512, 256])
    assert (read.max_batch_size, read.usual_batch_size, read.declared) == (8, 2, {"x": (-1, 4)})
    assert read.profiles == REPLY["profiles"]
    assert (read.dla_core, read.strongly_typed, read.optimization_level) == (1, True, 2)
    assert (read.calibration, read.timing_cache, read.expected_s) == ("/m.calib", "/timing.cache", 60.0)


def test_what_may_be_left_open_stays_open():
    read = Order(BuildOrder("m/1", "/m.onnx", "/m.plan").fields((256,)))
    assert (read.max_batch_size, read.strongly_typed, read.optimization_level, read.dla_core) == (None, None, None, -1)
    assert (read.larger_workspace, read.memory_short) == (0, False)


@pytest.mark.parametrize("change", [{"precision": "int4"}, {"workspaces": []}, {"workspaces": [0]}, {"inputs": [{}]}])
def test_an_order_that_makes_no_sense_is_refused(change):
    from edge_agent.engine_host.control import Refused

    fields = {**BuildOrder("m/1", "/m.onnx", "/m.plan").fields((256,)), **change}
    with pytest.raises(Refused):
        Order(fields)


def test_a_report_goes_into_a_sidecar_and_comes_back():
    report = BuildReport.read(REPLY)
    assert report.profiles[0]["x"] == ProfileRange((1, 4), (2, 4), (8, 4))
    assert report.as_json() == REPLY
    assert BuildReport.read(json.loads(json.dumps(report.as_json()))) == report


@pytest.mark.parametrize("lacking", sorted(REPLY))
def test_a_reply_that_lacks_something_is_no_report(lacking):
    with pytest.raises(KeyError):
        BuildReport.read({key: value for key, value in REPLY.items() if key != lacking})
