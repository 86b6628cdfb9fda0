import json
import struct

import pytest

from edge_agent.vision_host import json_bodies


def _input(**changes):
    entry = {"name": "X", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    entry.update(changes)
    return {key: value for key, value in entry.items() if value is not ...}


def _body(*inputs, **changes):
    return json.dumps(dict({"inputs": list(inputs)}, **changes)).encode()


def _binary(size, **changes):
    return _input(data=..., parameters={"binary_data_size": size}, **changes)


def test_data_becomes_bytes_behind_the_head_and_the_rest_of_the_head_stays():
    head, blobs = json_bodies.to_binary(_body(_input(), id="7", outputs=[{"name": "Y"}], parameters={"priority": 1}))
    assert json.loads(head.decode()) == {
        "id": "7",
        "inputs": [{"name": "X", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}],
        "outputs": [{"name": "Y"}],
        "parameters": {"priority": 1},
    }
    assert b"".join(blobs) == struct.pack("<ff", 1, 2)


def test_binary_tensors_behind_the_json_keep_their_places():
    json_part = _body(
        _binary(3, name="A", datatype="UINT8", shape=[3]),
        _input(name="B", datatype="INT32", shape=[2], data=[5, -6]),
        _binary(2, name="C", datatype="INT8", shape=[2]),
        _input(name="D", datatype="BYTES", shape=[1], data=["\u00e9"]),
    )
    head, blobs = json_bodies.to_binary(memoryview(json_part + b"\1\2\3\4\5"), len(json_part))
    assert b"".join(blobs) == b"\1\2\3" + struct.pack("<ii", 5, -6) + b"\4\5" + b"\2\0\0\0\xc3\xa9"
    sizes = [entry["parameters"]["binary_data_size"] for entry in json.loads(head.decode())["inputs"]]
    assert sizes == [3, 8, 2, 6]


@pytest.mark.parametrize(("behind", "got"), [(b"\1", b"\1"), (b"\1\2\3\4", b"\1\2\3\4"), (b"", b"")])
def test_bytes_that_do_not_add_up_are_left_for_the_codec_to_find(behind, got):
    json_part = _body(_binary(3, datatype="UINT8", shape=[3]))
    assert b"".join(bytes(blob) for blob in json_bodies.to_binary(json_part + behind, len(json_part))[1]) == got


@pytest.mark.parametrize(
    "changes",
    [
        {"name": 7}, {"datatype": "FP99"}, {"datatype": ...}, {"shape": "2"}, {"shape": [-1]}, {"shape": [2**41]},
        {"parameters": 0}, {"parameters": {"binary_data_size": 8}}, {"parameters": {"shared_memory_region": "r"}},
        {"data": "1" * 1000}, {"data": {"a": [1] * 1000}}, {"data": 5},
    ],
)  # fmt: skip
def test_data_of_an_input_that_will_be_refused_for_something_else_is_left_out(changes):
    entry = _input(**dict({"data": [1] * 1000}, **changes))
    head, blobs = json_bodies.to_binary(_body(entry))
    assert blobs == []
    shown = json.loads(head.decode())["inputs"][0]
    assert type(shown["data"]) is type(entry["data"])
    assert len(head) < 300
    assert {key: value for key, value in shown.items() if key != "data"} == {k: v for k, v in entry.items() if k != "data"}


@pytest.mark.parametrize("inputs", [5, {}, None, "x", [5], [None], []])
def test_what_is_no_list_of_inputs_stays_as_it_is(inputs):
    head, blobs = json_bodies.to_binary(json.dumps({"inputs": inputs}).encode())
    assert json.loads(head.decode()) == {"inputs": inputs}
    assert blobs == []


def test_faults_carry_the_requests_id():
    with pytest.raises(json_bodies.BadBody) as caught:
        json_bodies.to_binary(_body(_input(data=[1, "2"]), id="7"))
    assert caught.value.request_id == "7"
    assert "'data' of input 'X' must be numbers for FP32, got a string" in str(caught.value)
    with pytest.raises(json_bodies.BadBody) as caught:
        json_bodies.to_binary(_body(_input(data=[1]), id=5))
    assert caught.value.request_id == ""


def test_unknown_keys_are_looked_through_and_left_out():
    head, _ = json_bodies.to_binary(_body(_input(), extra=[0] * 100000))
    assert b"extra" not in head
    deep = 1
    for _ in range(150):
        deep = [deep]
    with pytest.raises(json_bodies.BadBody) as caught:
        json_bodies.to_binary(_body(_input(), extra=deep))
    assert "'extra' is nested deeper than 100 levels" in str(caught.value)


def test_a_head_that_stays_large_without_its_tensors_is_refused():
    with pytest.raises(json_bodies.BadBody) as caught:
        json_bodies.to_binary(_body(_input(), parameters={"mine": "x" * 70000}))
    assert "the JSON around the tensors takes" in str(caught.value)


def _answer(*outputs):
    entries = [
        {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(data)}}
        for name, datatype, shape, data in outputs
    ]
    head = json.dumps({"id": "7", "model_name": "demo", "outputs": entries}).encode()
    return head + b"".join(output[-1] for output in outputs), len(head)


def test_outputs_become_json_but_for_those_that_stay_binary():
    floats = struct.pack("<ff", 0.5, float("nan"))
    body, head_bytes = _answer(("Y", "FP32", [2], floats), ("Z", "INT8", [2], b"\1\2"), ("T", "BYTES", [1], b"\1\0\0\0a"))
    head, blobs = json_bodies.to_json(memoryview(body), head_bytes, {1})
    assert b"".join(blobs) == b"\1\2"
    assert json.loads(head.decode())["outputs"] == [
        {"name": "Y", "datatype": "FP32", "shape": [2], "data": [0.5, None]},
        {"name": "Z", "datatype": "INT8", "shape": [2], "parameters": {"binary_data_size": 2}},
        {"name": "T", "datatype": "BYTES", "shape": [1], "data": ["a"]},
    ]


def test_output_that_json_cannot_carry_is_refused_with_the_requests_id():
    body, head_bytes = _answer(("T", "BYTES", [1], b"\1\0\0\0\xff"))
    with pytest.raises(json_bodies.BadBody) as caught:
        json_bodies.to_json(body, head_bytes, set())
    assert "output 'T' holds bytes that are not UTF-8" in str(caught.value)
    assert caught.value.request_id == "7"
