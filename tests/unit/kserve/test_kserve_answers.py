"""Answers as bytes, and everything a client sent coming back bit by bit."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from edge_agent.domain.requests import InferResponse, Timing
from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.errors import InvalidRequest
from edge_agent.kserve import answers, bytes_tensors, codec, json_tensors
from edge_agent.vision_host import json_bodies


class _Lease:
    segment = 0
    offset = 0

    def __init__(self, data: bytes) -> None:
        self._data = bytearray(data)
        self.nbytes = len(data)

    def view(self) -> memoryview:
        return memoryview(self._data)

    def retain(self) -> _Lease:
        return self

    def release(self) -> None:
        """Nothing to give back."""


def _tensor(name: str, datatype: DataType, shape: Tuple[int, ...], data: bytes) -> Tensor:
    return Tensor(name, datatype, shape, _Lease(data), 0, len(data))


def _answer(*tensors: Tensor) -> InferResponse:
    return InferResponse("demo", "1", "", tuple(tensors), None, Timing(), 1)


def _asked(outputs: Any = (), **changes: Any) -> codec.InferBody:
    entry = {"name": "X", "shape": [1], "datatype": "FP32", "data": [1]}
    return codec.parse_infer(json.dumps({"inputs": [entry], "outputs": list(outputs), **changes}).encode())


FP32 = _tensor("Y", DataType.FP32, (1, 2), np.array([1, 2], "<f4").tobytes())


def test_the_documented_binary_answer_is_made_byte_by_byte() -> None:
    head, binaries = answers.encode_infer(_answer(FP32), _asked(parameters={"binary_data_output": True}))
    assert head == (
        b'{"model_name":"demo","model_version":"1","outputs":[{"name":"Y","datatype":"FP32","shape":[1,2],'
        b'"parameters":{"binary_data_size":8}}]}'
    )
    assert b"".join(binaries).hex() == "0000803f00000040"


def test_json_output_has_data_and_no_parameters() -> None:
    head, binaries = answers.encode_infer(_answer(FP32), _asked(id="a"))
    assert json.loads(head) == {
        "id": "a", "model_name": "demo", "model_version": "1",
        "outputs": [{"name": "Y", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}],
    }  # fmt: skip
    assert binaries == []


def test_an_empty_id_is_left_out_of_the_answer() -> None:
    assert "id" not in json.loads(answers.encode_infer(_answer(FP32), _asked(id=""))[0])


def test_not_a_number_and_infinity_are_null_in_json() -> None:
    odd = _tensor("Y", DataType.FP64, (3,), np.array([np.nan, 1.5, -np.inf]).tobytes())
    assert json.loads(answers.encode_infer(_answer(odd), _asked())[0])["outputs"][0]["data"] == [None, 1.5, None]


def test_outputs_come_in_the_order_asked_for_each_in_its_form() -> None:
    other = _tensor("Z", DataType.INT8, (2,), b"\xff\x01")
    asked = _asked([{"name": "Z"}, {"name": "Y", "parameters": {"binary_data": True}}])
    head, binaries = answers.encode_infer(_answer(FP32, other), asked)
    outputs = json.loads(head)["outputs"]
    assert outputs[0] == {"name": "Z", "datatype": "INT8", "shape": [2], "data": [-1, 1]}
    assert outputs[1]["parameters"] == {"binary_data_size": 8}
    assert len(binaries) == 1


def test_bytes_that_are_no_text_are_refused_as_json_and_given_as_binary() -> None:
    blob = _tensor("T", DataType.BYTES, (1,), bytes_tensors.pack([b"\xff"]))
    with pytest.raises(InvalidRequest, match="output 'T' holds bytes that are not UTF-8"):
        answers.encode_infer(_answer(blob), _asked())
    assert bytes(answers.encode_infer(_answer(blob), _asked(parameters={"binary_data_output": True}))[1][0]) == b"\1\0\0\0\xff"


VALUES: Dict[DataType, List[Any]] = {
    DataType.BOOL: [True, False], DataType.UINT8: [0, 255], DataType.UINT16: [0, 65535], DataType.UINT32: [0, 2**32 - 1],
    DataType.UINT64: [0, 2**64 - 1], DataType.INT8: [-128, 127], DataType.INT16: [-32768, 32767],
    DataType.INT32: [-(2**31), 2**31 - 1], DataType.INT64: [-(2**63), 2**63 - 1], DataType.FP32: [0.5, -1.0],
    DataType.FP64: [0.1, 1e308], DataType.BYTES: ["", "é\0x"],
}  # fmt: skip


@pytest.mark.parametrize("datatype", sorted(VALUES, key=lambda datatype: datatype.value))
def test_json_data_survives_the_way_in_and_out(datatype: DataType) -> None:
    values = VALUES[datatype]
    packed = json_tensors.to_bytes(values, datatype, [2], 2, "X")
    assert json_tensors.to_list(packed, datatype, "X") == values


def test_nested_data_is_flattened_row_major() -> None:
    packed = json_tensors.to_bytes([[[1, 2], [3, 4]]], DataType.UINT8, [1, 2, 2], 4, "X")
    assert packed == b"\1\2\3\4"


def _classified(best: int, tensor: Tensor, batched: bool = True, labels: Tuple[str, ...] = ()) -> Dict[str, Any]:
    asked = _asked([{"name": "Y", "parameters": {"classification": best}}])
    output: Dict[str, Any] = json.loads(answers.encode_infer(_answer(tensor), asked, lambda _: labels, batched)[0])["outputs"][
        0
    ]
    return output


def test_classification_gives_the_best_of_each_row_with_labels() -> None:
    scores = _tensor("Y", DataType.FP32, (2, 3), np.array([0.1, 0.7, 0.2, 3, 2, 3], "<f4").tobytes())
    output = _classified(2, scores, labels=("cat", "dog"))
    assert output["datatype"] == "BYTES"
    assert output["shape"] == [2, 2]
    assert output["data"] == ["0.700000:1:dog", "0.200000:2", "3.000000:0:cat", "3.000000:2"]


def test_classification_of_a_model_without_batch_is_one_row_and_never_longer_than_it() -> None:
    scores = _tensor("Y", DataType.UINT8, (3,), bytes([1, 255, 0]))
    output = _classified(9, scores, batched=False)
    assert output["shape"] == [3]
    assert output["data"] == ["255.000000:1", "1.000000:0", "0.000000:2"]


@pytest.mark.parametrize("datatype", [DataType.FP32, DataType.INT8, DataType.UINT64])
@pytest.mark.parametrize("best", [1, 2, 7, 50])
def test_the_best_are_those_of_a_whole_sort_with_the_lower_index_first_where_values_are_equal(
    datatype: DataType, best: int
) -> None:
    values = np.random.RandomState(3).randint(0, 9, size=(4, 50)).astype(json_tensors.json_tensors.DTYPES[datatype.value])
    output = _classified(best, _tensor("Y", datatype, (4, 50), values.tobytes()))
    expected = [
        "%f:%d" % (row[index], index) for row in values for index in sorted(range(50), key=lambda i: (-float(row[i]), i))[:best]
    ]
    assert output["data"] == expected


def test_what_is_no_number_counts_as_the_highest() -> None:
    scores = _tensor("Y", DataType.FP32, (1, 4), np.array([1, np.nan, 3, 2], "<f4").tobytes())
    assert _classified(2, scores)["data"] == ["nan:1", "3.000000:2"]


def test_the_best_of_nothing_is_nothing() -> None:
    output = _classified(2, _tensor("Y", DataType.FP32, (2, 0), b""))
    assert (output["shape"], output["data"]) == ([2, 0], [])


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("shape", "best"), [((1, 30_000), 3), ((2, 5_000), 5_000)])
def test_a_classification_that_takes_long_is_the_body_child_s_and_gives_the_same(
    binary: bool, shape: Tuple[int, int], best: int
) -> None:
    values = np.random.RandomState(3).standard_normal(shape).astype("<f4")
    answer = _answer(_tensor("Y", DataType.FP32, shape, values.tobytes()))
    asked = _asked([{"name": "Y", "parameters": {"classification": best, "binary_data": binary}}])
    assert answers.text_bytes(answer, asked) > 65_536
    whole = answers.encode_infer(answer, asked, lambda _: ("cat", "dog"))
    head, parts = answers.encode_infer(answer, asked, lambda _: ("cat", "dog"), all_binary=True)
    assert [bytes(part) for part in parts] == [values.tobytes()]
    done, blobs = json_bodies.to_json(head + values.tobytes(), len(head), answers.binary_positions(answer, asked))
    assert json.loads(done) == json.loads(whole[0])
    assert [bytes(blob) for blob in blobs] == [bytes(part) for part in whole[1]]
