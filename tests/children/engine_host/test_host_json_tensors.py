import json
import struct

import numpy
import pytest

from edge_agent.engine_host import json_tensors
from edge_agent.engine_host.json_tensors import BadJson

VALUES = {
    "BOOL": [True, False], "UINT8": [0, 255], "UINT16": [0, 65535], "UINT32": [0, 2**32 - 1], "UINT64": [0, 2**64 - 1],
    "INT8": [-128, 127], "INT16": [-32768, 32767], "INT32": [-(2**31), 2**31 - 1], "INT64": [-(2**63), 2**63 - 1],
    "FP32": [0.5, -1.0], "FP64": [0.1, 1e308], "BYTES": ["", "\u00e9\0x"],
}  # fmt: skip


@pytest.mark.parametrize("datatype", sorted(VALUES))
def test_data_survives_the_way_in_and_out(datatype):
    packed = json_tensors.to_bytes(VALUES[datatype], datatype, [2], 2, "X")
    assert json_tensors.to_list(packed, datatype, "X") == VALUES[datatype]
    assert json_tensors.to_list(memoryview(packed), datatype, "X") == VALUES[datatype]


def test_an_empty_tensor_is_an_empty_list():
    for datatype in VALUES:
        assert json_tensors.to_bytes([], datatype, [0], 0, "X") == b""
        assert json_tensors.to_list(b"", datatype, "X") == []


def test_numbers_that_json_has_not_are_null():
    odd = numpy.array([numpy.nan, 1.5, -numpy.inf], "<f4").tobytes()
    assert json_tensors.to_list(odd, "FP32", "Y") == [None, 1.5, None]


@pytest.mark.parametrize(
    ("data", "datatype", "shape", "text"),
    [
        ([1, 2, 3], "FP32", [2], "has 3 elements, its shape [2] takes 2"),
        ([[1, 2], [3]], "FP32", [2, 2], "is ragged"),
        ([[1, 2], [3, 4], [5, 6]], "FP32", [2, 3], "nested as [3, 2], its shape is [2, 3]"),
        ([True], "FP32", [1], "must be numbers for FP32, got a bool"),
        ([1.0], "INT8", [1], "must be integers for INT8, got a number"),
        ([128], "INT8", [1], "holds 128, out of range for INT8"),
        ([1e39], "FP32", [1], "out of range for FP32"),
        ([10**400], "FP64", [1], "out of range for FP64"),
        ([1], "BYTES", [1], "must be strings for BYTES, got a number"),
        (["\ud800"], "BYTES", [1], "half of a surrogate"),
        ([1], "FP16", [1], "sending FP16 data via JSON is not supported"),
    ],
)
def test_data_that_does_not_fit_is_refused_by_the_inputs_name(data, datatype, shape, text):
    count = 1
    for dim in shape:
        count *= dim
    with pytest.raises(BadJson) as caught:
        json_tensors.to_bytes(data, datatype, shape, count, "X")
    assert text in str(caught.value)
    assert "'X'" in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "body is empty"),
        (b"[]", "must be a JSON object, got a list"),
        (b'{"id":"\xff"}', "not UTF-8 at byte 7 (a hint)"),
        (b"{inputs", "parse the request JSON"),
        (b'{"a":[NaN]}', "NaN is not a JSON value"),
        (b'{"a":' + b"[" * 100000, "nested deeper than 100 levels"),
        (b'{"a":[' + b"9" * 5000 + b"]}", "a number of more than 4300 digits"),
    ],
)
def test_what_is_no_json_object_is_refused_with_a_reason(raw, text):
    for body in (raw, memoryview(raw)):
        with pytest.raises(BadJson) as caught:
            json_tensors.load_object(body, " (a hint)")
        assert text in str(caught.value)


def test_many_digits_are_no_fault_where_they_are_no_integer():
    digits = "9" * 5000
    raw = ('{"text":"%s","number":0.%s,"whole":[1,%s]}' % (digits, digits, "1" * 4300)).encode()
    document = json_tensors.load_object(raw)
    assert document["text"] == digits
    assert document["number"] == 1.0
    assert document["whole"] == [1, int("1" * 4300)]


def test_nesting_is_counted_by_levels_not_by_elements():
    value = 1
    for _ in range(json_tensors.MAX_NESTING):
        value = [value, 1]
    json_tensors.check_nesting(value, "'x'")
    with pytest.raises(BadJson):
        json_tensors.check_nesting([value], "'x'")


def test_strings_are_packed_with_their_lengths():
    assert json_tensors.pack_strings([b"ab", b""]) == struct.pack("<I", 2) + b"ab" + struct.pack("<I", 0)
    assert json_tensors.unpack_strings(json_tensors.pack_strings([b"ab", b""])) == [b"ab", b""]


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ([2, 3], 6), ([], 1), ([0, 5], 0), ([2**38], 2**38), ([2**38 + 1], None), ([2**63, 0], None), ([-1], None),
        ([1.0], None), ([True], None), ("2", None), (None, None), ([1] * 32, 1), ([1] * 33, None),
    ],
)  # fmt: skip
def test_elements_of_a_foreign_shape_are_counted_or_the_shape_is_none(shape, count):
    assert json_tensors.elements_of(shape, 4) == count


def test_documents_are_written_without_spaces():
    assert json_tensors.compact({"a": [1, 0.5, "\u00e9"]}) == b'{"a":[1,0.5,"\\u00e9"]}'
    assert json.loads(json_tensors.compact({"a": None}).decode()) == {"a": None}
