from __future__ import annotations

from dataclasses import replace

import pytest

from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.engine_host import wire
from edge_agent.engines.load import LoadOrder, LoadReport

X = TensorSpec("x", DataType.FP32, (-1, 3, 8, 8))
REPLY = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 8, 8]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
    "max_batch_size": 8,
    "load_ms": 12,
    "warnings": ["slow"],
}


def test_an_order_says_everything_that_the_host_asks_for():
    order = LoadOrder(
        "m",
        "3",
        "onnxruntime_onnx",
        "/m/3/model.onnx",
        "/m",
        2,
        None,
        (X,),
        (),
        {"kind": "yolo"},
        2,
        warmup_sizes=(4, 6),
        tensorrt={"dla_core": 1},
    )
    assert order.label == "m/3"
    assert order.fields(7) == {
        "instance": 7,
        "model": "m",
        "version": "3",
        "platform": "onnxruntime_onnx",
        "path": "/m/3/model.onnx",
        "directory": "/m",
        "threads": 2,
        "max_batch_size": None,
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 8, 8]}],
        "outputs": [],
        "decode": {"kind": "yolo"},
        "warmup": True,
        "warmup_sizes": [4, 6],
        "config_json": "",
        "tensorrt": {"dla_core": 1},
    }


def test_a_report_is_read_from_the_hosts_reply():
    report = LoadReport.read(REPLY)
    assert report.inputs == (X,)
    assert (report.outputs[0].name, report.max_batch_size, report.load_ms, report.warnings) == ("y", 8, 12, ("slow",))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"load_ms": 99, "warnings": ()}, True),
        ({"max_batch_size": 1}, False),
        ({"inputs": (replace(X, name="z"),)}, False),
        ({"outputs": ()}, False),
    ],
)
def test_a_model_is_the_same_when_requests_for_the_one_fit_the_other(change, same):
    report = LoadReport.read(REPLY)
    assert report.same_model(replace(report, **change)) is same


@pytest.mark.parametrize("inputs", [1, 2, 40, 200])
def test_as_many_requests_as_are_promised_fit_one_message_and_one_more_does_not(inputs):
    spec = TensorSpec("x", DataType.FP32, (-1, 3, 8, 8))
    report = LoadReport((spec,) * inputs, (spec,) * 3, 8, 0)
    refs = [wire.TensorRef(n, 9, (1, 3, 8, 8), 65535, 1 << 40, 768) for n in range(inputs)]
    request = wire.RequestRef(refs, [0, 1, 2], 1, 1, 65535, 1 << 40, 1 << 30)
    most = report.max_requests
    assert len(wire.pack_execute(1, [request] * most)) <= wire.MAX_MESSAGE
    with pytest.raises(wire.WireError):
        wire.pack_execute(1, [request] * (most + 1))
