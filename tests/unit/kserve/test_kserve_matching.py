"""A parsed request against a model."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Sequence, Tuple

import pytest

from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.errors import RequestError, TensorMismatch
from edge_agent.kserve import codec, matching
from edge_agent.kserve.classification import UNFIT

INPUTS = (TensorSpec("A", DataType.FP32, (-1, 2)), TensorSpec("B", DataType.INT32, (-1, -1)))
OUTPUTS = (TensorSpec("Y", DataType.FP32, (-1, 2)), TensorSpec("H", DataType.FP16, (-1, 1)))
JSON_ONLY = [{"name": "Y"}]


def _entry(name: str, datatype: str, shape: Sequence[int]) -> Dict[str, Any]:
    count = 1
    for dim in shape:
        count *= dim
    return {"name": name, "datatype": datatype, "shape": list(shape), "data": [0] * count}


def _match(entries: List[Dict[str, Any]], outputs: Any = JSON_ONLY, **changes: Any) -> codec.InferBody:
    document = {"id": "q", "inputs": entries, "outputs": outputs, **changes}
    return matching.match(codec.parse_infer(json.dumps(document).encode()), INPUTS, OUTPUTS, 4, "demo")


GOOD = [_entry("A", "FP32", [2, 2]), _entry("B", "INT32", [2, 7])]

BAD: Dict[str, Tuple[List[Dict[str, Any]], Any, str]] = {
    "unknown input": ([*GOOD, _entry("C", "FP32", [2])], JSON_ONLY, "unexpected inference input 'C' for model 'demo'"),
    "missing input": (
        [GOOD[0]],
        JSON_ONLY,
        r"expected 2 inputs but got 1 inputs for model 'demo'.*missing required input\(s\) \['B'\]",
    ),
    "datatype": ([_entry("A", "FP64", [2, 2]), GOOD[1]], JSON_ONLY, "'A' data-type is 'FP64', but model 'demo' expects 'FP32'"),
    "shape": (
        [_entry("A", "FP32", [1, 3]), GOOD[1]],
        JSON_ONLY,
        r"unexpected shape for input 'A' for model 'demo'. Expected \[-1,2\], got \[1,3\]",
    ),
    "rank": ([_entry("A", "FP32", [2]), GOOD[1]], JSON_ONLY, r"Expected \[-1,2\], got \[2\]"),
    "scalar": ([_entry("A", "FP32", []), GOOD[1]], JSON_ONLY, r"Expected \[-1,2\], got \[\]"),
    "batch": (
        [_entry("A", "FP32", [5, 2]), _entry("B", "INT32", [5, 1])],
        JSON_ONLY,
        "batch-size must be <= 4 for 'demo', got 5",
    ),
    "no rows": ([_entry("A", "FP32", [0, 2]), _entry("B", "INT32", [0, 1])], JSON_ONLY, "batch-size must be >= 1"),
    "batches differ": ([GOOD[0], _entry("B", "INT32", [3, 1])], JSON_ONLY, "'B' has batch-size 3, but input 'A' has 2"),
    "unknown output": (GOOD, [{"name": "Z"}], "unexpected inference output 'Z' for model 'demo'"),
    "FP16 output as JSON": (GOOD, [{"name": "H"}], "sending FP16 data via JSON is not supported.*output 'H'"),
    "FP16 among all outputs": (GOOD, [], "sending FP16 data via JSON is not supported.*output 'H'"),
    "FP16 classified": (
        GOOD,
        [{"name": "H", "parameters": {"classification": 1}}],
        "classification is not possible for output 'H'",
    ),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_request_that_does_not_fit_the_model_is_refused_with_both_sides(case: str) -> None:
    entries, outputs, text = BAD[case]
    with pytest.raises(RequestError, match=r"^\[request id: q\] .*" + text):
        _match(entries, outputs)


def test_request_that_fits_passes_unchanged() -> None:
    body = _match(GOOD)
    assert [part.shape for part in body.inputs] == [(2, 2), (2, 7)]


def test_inputs_in_another_order_are_taken() -> None:
    assert [part.name for part in _match(GOOD[::-1]).inputs] == ["B", "A"]


def test_half_precision_output_in_binary_passes() -> None:
    body = _match(GOOD, [], parameters={"binary_data_output": True})
    assert (body.outputs, body.binary_default) == ((), True)  # all of them, in binary


RAW = {
    "one variable dimension": ([TensorSpec("X", DataType.FP32, (-1, -1))], 4, bytes(12), (1, 3)),
    "fixed": ([TensorSpec("X", DataType.UINT8, (-1, 2, 3))], 4, bytes(6), (1, 2, 3)),
    "without batch": ([TensorSpec("X", DataType.UINT8, (2, -1))], 0, bytes(6), (2, 3)),
    "half precision": ([TensorSpec("X", DataType.FP16, (2,))], 0, bytes(4), (2,)),
}


@pytest.mark.parametrize("case", sorted(RAW))
def test_raw_body_becomes_the_only_input(case: str) -> None:
    specs, max_batch_size, raw, shape = RAW[case]
    body = codec.match(codec.parse_infer(raw, 0), specs, OUTPUTS, max_batch_size, "demo")
    assert (body.inputs[0].shape, body.inputs[0].nbytes, body.binary_default) == (shape, len(raw), True)


def test_raw_text_gets_its_length_in_front() -> None:
    body = codec.match(codec.parse_infer(b"hello", 0), [TensorSpec("T", DataType.BYTES, (-1, 1))], OUTPUTS, 8, "demo")
    slot = memoryview(bytearray(body.input_bytes))
    body.copy_inputs(b"hello", slot)
    assert bytes(slot) == b"\5\0\0\0hello"
    assert body.inputs[0].shape == (1, 1)


BAD_RAW = {
    "two inputs": (INPUTS, 5, r"raw request must only have 1 input \(found 2\)"),
    "two variable dimensions": ([TensorSpec("X", DataType.FP32, (-1, -1, -1))], 5, "more than one variable-sized dimension"),
    "wrong size": ([TensorSpec("X", DataType.FP32, (-1, 2))], 5, "takes exactly 8 bytes, got 5"),
    "no multiple": ([TensorSpec("X", DataType.FP32, (-1, -1))], 5, "takes a multiple of 4 bytes, got 5"),
    "several strings": ([TensorSpec("X", DataType.BYTES, (-1, 2))], 5, r"must have input shape \[1\]"),
}


@pytest.mark.parametrize("case", sorted(BAD_RAW))
def test_raw_body_that_cannot_be_deduced_is_refused(case: str) -> None:
    specs, nbytes, text = BAD_RAW[case]
    with pytest.raises(TensorMismatch, match=text):
        codec.match(codec.parse_infer(bytes(nbytes), 0), specs, OUTPUTS, 4, "demo")


@pytest.mark.parametrize("datatype", UNFIT)
def test_output_that_cannot_be_ranked_is_not_classified(datatype: DataType) -> None:
    body = codec.parse_infer(
        json.dumps({"inputs": GOOD, "outputs": [{"name": "Y", "parameters": {"classification": 2}}]}).encode()
    )
    with pytest.raises(TensorMismatch, match="classification is not possible for output 'Y' of datatype " + datatype.value):
        matching.match(body, INPUTS, (TensorSpec("Y", datatype, (-1, 2)),), 4, "demo")
