"""Malformed and well-formed bodies, in tables."""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, Optional

import numpy as np
import pytest

from edge_agent.domain.tensors import DataType
from edge_agent.errors import InvalidRequest, Unsupported
from edge_agent.kserve import codec
from edge_agent.kserve.body import ALIGNMENT
from edge_agent.kserve.document import MAX_TENSORS
from edge_agent.kserve.fields import MAX_NESTING, shown
from edge_agent.kserve.parsing import parse_head
from edge_agent.kserve.shapes import MAX_RANK, MAX_TENSOR_BYTES, parse_shape


def _input(**changes: Any) -> Dict[str, Any]:
    entry: Dict[str, Any] = {"name": "X", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    entry.update(changes)
    return {key: value for key, value in entry.items() if value is not ...}


def _body(*inputs: Any, **changes: Any) -> bytes:
    document: Dict[str, Any] = {"inputs": list(inputs) or [_input()]}
    document.update(changes)
    return json.dumps(document).encode()


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


BAD_BODIES = {
    "empty": (b"", "body is empty"),
    "not json": (b"{inputs", "parse the request JSON"),
    "a list": (b"[]", "must be a JSON object, got a list"),
    "invalid utf-8": (b'{"id":"\xff"}', "not UTF-8 at byte 7"),
    "byte order mark": (b"\xef\xbb\xbf" + _body(), "BOM"),
    "utf-16": (_body().decode().encode("utf-16-le"), "request JSON"),
    "nan": (b'{"inputs":[{"name":"X","shape":[1],"datatype":"FP32","data":[NaN]}]}', "NaN is not a JSON value"),
    "nested 100k deep": (b'{"inputs":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper than 100"),
    "unknown key nested deep": (_body(extra=_deep(MAX_NESTING + 50)), "'extra' is nested deeper than 100"),
    "data nested deep": (_body(_input(shape=[1], data=_deep(MAX_NESTING + 50))), "'data' of input 'X' is nested deeper"),
    "no inputs": (b"{}", "'inputs' is missing"),
    "inputs an object": (_body(inputs={}), "'inputs' must be a list, got an object"),
    "inputs empty": (_body(inputs=[]), "'inputs' must hold 1 to"),
    "inputs null": (_body(inputs=[None]), "'inputs[0]' must be an object, got null"),
    "duplicate input": (_body(_input(), _input()), "input 'X' already exists"),
    "name missing": (_body(_input(name=...)), "'inputs[0].name' is missing"),
    "name a number": (_body(_input(name=7)), "'inputs[0].name' must be a string"),
    "name half a surrogate": (_body(_input(name="\ud800")), "'inputs[0].name' holds half of a surrogate"),
    "shape missing": (_body(_input(shape=...)), "'inputs[0].shape' is missing"),
    "shape a string": (_body(_input(shape="-1")), "'inputs[0].shape' must be a list, got a string"),
    "shape negative": (_body(_input(shape=[-1])), "'inputs[0].shape' must be a list of unsigned integers, got -1"),
    "shape fractional": (_body(_input(shape=[1.5])), "'inputs[0].shape' must be a list of unsigned integers, got 1.5"),
    "shape a bool": (_body(_input(shape=[True])), "'inputs[0].shape' must be a list of unsigned integers, got True"),
    "shape overflow": (_body(_input(shape=[2147483647, 2147483647, 4])), "'inputs[0].shape' is too large"),
    "shape overflow after zero": (_body(_input(shape=[2**63, 0], data=[])), "'inputs[0].shape' is too large"),
    "shape of 33 dimensions": (_body(_input(shape=[1] * 33, data=[1])), "'inputs[0].shape' has 33 dimensions"),
    "datatype missing": (_body(_input(datatype=...)), "'inputs[0].datatype' is missing"),
    "datatype unknown": (_body(_input(datatype="STRING")), "'inputs[0].datatype' is 'STRING'"),
    "data missing": (_body(_input(data=...)), "exactly one of 'data'"),
    "data twice": (_body(_input(parameters={"binary_data_size": 8})), "exactly one of 'data'"),
    "data an object in a list": (
        _body(_input(data=[{"b64": "AA=="}, 1])),
        "'data' of input 'X' must be numbers for FP32, got an object",
    ),
    "data ragged": (_body(_input(shape=[2, 2], data=[[1, 2], [3]])), "'data' of input 'X' is ragged"),
    "data half nested": (_body(_input(data=[1, [2]])), "'data' of input 'X' must be numbers"),
    "data nested otherwise": (
        _body(_input(shape=[2, 3], data=[[1, 2], [3, 4], [5, 6]])),
        "nested as [3, 2], its shape is [2, 3]",
    ),
    "data longer": (_body(_input(data=[1, 2, 3])), "has 3 elements, its shape [1, 2] takes 2"),
    "data shorter": (_body(_input(data=[1])), "has 1 elements, its shape [1, 2] takes 2"),
    "data a number": (_body(_input(data=5)), "'inputs[0].data' must be a list"),
    "data a bool for FP32": (_body(_input(data=[True, 1])), "must be numbers for FP32, got a bool"),
    "data a float for INT8": (_body(_input(datatype="INT8", data=[1.0, 2])), "must be integers for INT8"),
    "data over INT8": (_body(_input(datatype="INT8", data=[1, 128])), "holds 128, out of range for INT8"),
    "data under UINT64": (_body(_input(datatype="UINT64", data=[1, -1])), "holds -1, out of range for UINT64"),
    "data over UINT64": (_body(_input(datatype="UINT64", data=[1, 2**64])), "out of range for UINT64"),
    "data over FP32": (_body(_input(data=[1, 1e39])), "out of range for FP32"),
    "data over FP64": (b'{"inputs":[{"name":"X","shape":[1],"datatype":"FP64","data":[1e999]}]}', "out of range for FP64"),
    "data over any float": (_body(_input(data=[1, 10**400])), "out of range for FP32"),
    "data 2 for BOOL": (_body(_input(datatype="BOOL", data=[1, 2])), "holds 2, out of range for BOOL"),
    "data a number for BYTES": (_body(_input(datatype="BYTES", data=["a", 1])), "must be strings for BYTES, got a number"),
    "data half a surrogate": (_body(_input(datatype="BYTES", data=["a", "\ud800"])), "half of a surrogate"),
    "FP16 as JSON": (_body(_input(datatype="FP16")), "sending FP16 data via JSON"),
    "BF16 as JSON": (_body(_input(datatype="BF16")), "sending BF16 data via JSON"),
    "parameters a number": (_body(parameters=5), "'parameters' must be an object, got 5"),
    "id a number": (_body(id=7), "'id' must be a string, got 7"),
    "reserved parameter": (_body(parameters={"triton_x": 1}), "'triton_x' is a reserved"),
    "headers parameter": (_body(parameters={"headers": "x"}), "'headers' is a reserved"),
    "parameter a list": (_body(parameters={"mine": []}), "parameter 'mine' must be a string"),
    "priority negative": (_body(parameters={"priority": -1}), "'parameters.priority' must be an unsigned"),
    "timeout a string": (_body(parameters={"timeout": "1"}), "'parameters.timeout' must be an unsigned"),
    "sequence id a bool": (_body(parameters={"sequence_id": True}), "'parameters.sequence_id'"),
    "sequence start a number": (_body(parameters={"sequence_start": 1}), "'parameters.sequence_start' must be a bool"),
    "binary output a string": (
        _body(parameters={"binary_data_output": "yes"}),
        "'parameters.binary_data_output' must be a bool",
    ),
    "outputs an object": (_body(outputs={"name": "Y"}), "'outputs' must be a list"),
    "output without name": (_body(outputs=[{}]), "'outputs[0].name' is missing"),
    "duplicate output": (_body(outputs=[{"name": "Y"}, {"name": "Y"}]), "output 'Y' already exists"),
    "output binary a number": (
        _body(outputs=[{"name": "Y", "parameters": {"binary_data": 1}}]),
        "'outputs[0].parameters.binary_data'",
    ),
    "classification negative": (
        _body(outputs=[{"name": "Y", "parameters": {"classification": -1}}]),
        "classification' must be an unsigned",
    ),
    "binary without header": (_body(_input(data=..., parameters={"binary_data_size": 8})), "Inference-Header-Content-Length"),
    "junk behind the JSON": (_body() + b"\0\0\0\0", "Inference-Header-Content-Length"),
}


@pytest.mark.parametrize("case", sorted(BAD_BODIES))
def test_malformed_json_body_is_refused_with_a_text_that_names_the_field(case: str) -> None:
    body, text = BAD_BODIES[case]
    with pytest.raises(InvalidRequest) as caught:
        codec.parse_infer(body)
    assert text in str(caught.value)
    assert str(caught.value).startswith("[request id: <id_unknown>] ")


def test_refusal_carries_the_request_id_when_it_is_known() -> None:
    with pytest.raises(InvalidRequest, match=r"^\[request id: 7\] 'inputs' must"):
        codec.parse_infer(_body(inputs=[], id="7"))


def test_shared_memory_is_refused_as_unsupported() -> None:
    region = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
    with pytest.raises(Unsupported, match="shared memory is disabled"):
        codec.parse_infer(_body(_input(data=..., parameters=region)))
    with pytest.raises(Unsupported, match=r"outputs\[0\]"):
        codec.parse_infer(_body(outputs=[{"name": "Y", "parameters": region}]))


def _binary(*sizes: int, datatype: str = "FP32", shape: Optional[Any] = None) -> bytes:
    inputs = [
        _input(name="X%d" % i, data=..., datatype=datatype, shape=shape or [size // 4], parameters={"binary_data_size": size})
        for i, size in enumerate(sizes)
    ]
    return json.dumps({"inputs": inputs}).encode()


def test_the_documented_example_parses_to_its_bytes() -> None:
    head = (
        b'{"inputs":[{"name":"X","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],'
        b'"parameters":{"binary_data_output":true}}'
    )
    tail = bytes.fromhex("0000803f00000040")
    assert len(head) == 134
    body = codec.parse_infer(head + tail, 134)
    assert body.binary_default
    slot = memoryview(bytearray(body.input_bytes))
    body.copy_inputs(head + tail, slot)
    assert np.frombuffer(slot, "<f4").tolist() == [1.0, 2.0]


BAD_BINARY = {
    "one byte short": (_binary(8), 7, "expecting 1 additional bytes for input 'X0'"),
    "one byte long": (_binary(8), 9, "unexpected additional input data for model: 1 bytes"),
    "sizes past the body": (_binary(8, 16), 20, "expecting 4 additional bytes for input 'X1'"),
    "size against shape": (_binary(8, shape=[3]), 8, "unexpected total byte size 8 for input 'X0'"),
    "huge size": (_binary(2**41), 8, "'inputs[0].shape' is too large"),
    "size negative": (
        json.dumps({"inputs": [_input(data=..., parameters={"binary_data_size": -8})]}).encode(),
        8,
        "binary_data_size' must be an unsigned",
    ),
    "size a string": (
        json.dumps({"inputs": [_input(data=..., parameters={"binary_data_size": "8"})]}).encode(),
        8,
        "binary_data_size' must be an unsigned",
    ),
}


@pytest.mark.parametrize("case", sorted(BAD_BINARY))
def test_binary_body_whose_bytes_do_not_add_up_is_refused(case: str) -> None:
    head, nbytes, text = BAD_BINARY[case]
    with pytest.raises(InvalidRequest) as caught:
        codec.parse_infer(head + bytes(nbytes), len(head))
    assert text in str(caught.value)


@pytest.mark.parametrize("value", ["-1", "abc", "", "1.5", "0x10", "٣", "9" * 30])
def test_header_length_that_is_no_number_is_refused_with_its_value(value: str) -> None:
    with pytest.raises(InvalidRequest, match="Inference-Header-Content-Length must be a number"):
        codec.parse_header_length(value)


def test_header_length_beyond_the_body_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"range \(0, 10\), got: 11"):
        codec.parse_infer(b"{" * 10, 11)


def test_header_length_inside_a_character_is_refused() -> None:
    body = '{"id":"é"}'.encode()
    with pytest.raises(InvalidRequest, match="not UTF-8"):
        codec.parse_infer(body, 8)


def _strings(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


BAD_STRINGS = {
    "prefix past the end": (b"\xff\xff\xff\xff", 1, "expecting string of length 4294967295"),
    "truncated last element": (_strings(b"ab", b"cd")[:-1], 2, "expecting string of length 2 but only 1"),
    "truncated prefix": (_strings(b"ab") + b"\0\0", 2, "expecting 4 bytes but only 2"),
    "too few": (_strings(b"ab"), 2, "expected 2 string elements for inference input 'X', got 1"),
    "too many": (_strings(b"ab", b""), 1, "expected 1 string elements for inference input 'X', got 4 bytes more"),
}


@pytest.mark.parametrize("case", sorted(BAD_STRINGS))
def test_badly_framed_strings_are_refused(case: str) -> None:
    payload, count, text = BAD_STRINGS[case]
    entry = _input(datatype="BYTES", shape=[count], data=..., parameters={"binary_data_size": len(payload)})
    head = json.dumps({"id": "s", "inputs": [entry]}).encode()
    with pytest.raises(InvalidRequest) as caught:
        codec.parse_infer(head + payload, len(head))
    assert text in str(caught.value)
    assert str(caught.value).startswith("[request id: s] ")


def test_parameters_that_are_used_leave_the_custom_ones() -> None:
    asked = {
        "priority": 3,
        "timeout": 500,
        "sequence_id": "cam",
        "sequence_start": True,
        "mine": 1.5,
        "binary_data_output": True,
    }
    body = codec.parse_infer(
        _body(parameters=asked, outputs=[{"name": "Y"}, {"name": "Z", "parameters": {"binary_data": False}}])
    )
    assert (body.priority, body.timeout_us) == (3, 500)
    assert body.parameters == {"sequence_id": "cam", "sequence_start": True, "mine": 1.5}
    assert [part.binary for part in body.outputs] == [True, False]


def test_head_alone_is_parsed_before_its_bytes_have_come() -> None:
    head = _binary(8, 4)
    body = parse_head(head, None)
    assert [(part.start, part.nbytes) for part in body.inputs] == [(len(head), 8), (len(head) + 8, 4)]
    assert body.offsets() == [0, ALIGNMENT]
    assert body.input_bytes == 68


def test_zero_size_tensor_is_legal_in_both_forms() -> None:
    body = codec.parse_infer(_body(_input(shape=[0, 2], data=[])))
    assert (body.inputs[0].nbytes, body.input_bytes) == (0, 1)
    head = _binary(0, shape=[0])
    assert codec.parse_infer(head, len(head)).inputs[0].nbytes == 0


def test_mixed_json_and_binary_inputs_land_in_their_places() -> None:
    entries = [
        _input(name="A", datatype="INT32", shape=[2], data=[5, -6]),
        _input(name="B", datatype="UINT8", shape=[3], data=..., parameters={"binary_data_size": 3}),
        _input(name="C", datatype="BYTES", shape=[2], data=["é", ""]),
    ]
    head = json.dumps({"inputs": entries}).encode()
    body = codec.parse_infer(head + b"\1\2\3", len(head))
    slot = memoryview(bytearray(body.input_bytes))
    body.copy_inputs(head + b"\1\2\3", slot)
    got = [bytes(slot[at : at + part.nbytes]) for at, part in zip(body.offsets(), body.inputs)]
    assert got == [struct.pack("<ii", 5, -6), b"\1\2\3", _strings("é".encode(), b"")]
    assert [part.datatype for part in body.inputs] == [DataType.INT32, DataType.UINT8, DataType.BYTES]


def test_limits_are_met_exactly() -> None:
    assert parse_shape([1] * MAX_RANK, "'shape'", 4) == (1,) * MAX_RANK
    assert parse_shape([MAX_TENSOR_BYTES // 4], "'shape'", 4) == (MAX_TENSOR_BYTES // 4,)
    with pytest.raises(InvalidRequest, match="'shape' is too large"):
        parse_shape([MAX_TENSOR_BYTES // 4 + 1], "'shape'", 4)
    many = [_input(name="X%d" % number) for number in range(MAX_TENSORS)]
    assert len(codec.parse_infer(_body(*many)).inputs) == MAX_TENSORS
    with pytest.raises(InvalidRequest, match="'inputs' must hold 1 to 255 tensors, got 256"):
        codec.parse_infer(_body(*many, _input(name="one more")))


def test_foreign_names_are_shown_short_and_printable() -> None:
    assert shown("a\0b\x1b") == "a?b?"
    assert len(shown("x" * 1000)) == 64
