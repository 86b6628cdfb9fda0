"""What is asked of every transport, with the real client's inputs, outputs and results: one table, three ways to send it.

A case is a function of `infer`, which takes what tritonclient's own `infer` takes and raises what that raises.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import pytest
from tritonclient.http import InferInput, InferRequestedOutput, InferResult
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from tests.conformance.repository import SAME

Infer = Callable[..., InferResult]
CASES: Dict[str, Callable[[Infer], None]] = {}


def case(name: str) -> Callable[[Callable[[Infer], None]], Callable[[Infer], None]]:
    """Puts a case into the table."""

    def put(act: Callable[[Infer], None]) -> Callable[[Infer], None]:
        assert name not in CASES
        CASES[name] = act
        return act

    return put


def given(name: str, array: Any, datatype: str, binary: bool = True) -> InferInput:
    """An input with its data."""
    made = InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def floats(*rows: Sequence[float], name: str = "x", binary: bool = True) -> InferInput:
    """An FP32 input of so many rows."""
    return given(name, np.array(rows, np.float32), "FP32", binary)


def plain(name: str) -> InferRequestedOutput:
    """An output as JSON."""
    return InferRequestedOutput(name, binary_data=False)


def refused(infer: Infer, status: Optional[int], words: Sequence[str], *arguments: Any, **options: Any) -> None:
    """The request gets an error of this status (None where the transport has none) whose text says what and where."""
    with pytest.raises(InferenceServerException) as caught:
        infer(*arguments, **options)
    text = caught.value.message()
    assert all(word in text for word in words), text
    if caught.value.status() is not None:
        assert caught.value.status() == str(status), text


FOUR = [1.0, 2.0, 3.0, 4.0]
PLUS_ONE = [2.0, 3.0, 4.0, 5.0]

# -- datatypes ------------------------------------------------------------------------------------------------------

_VALUES: Dict[str, List[Any]] = {
    "BOOL": [[True, False, True]],
    "UINT8": [[0, 1, 255]], "UINT16": [[0, 1, 65535]], "UINT32": [[0, 1, 2**32 - 1]], "UINT64": [[0, 1, 2**64 - 1]],
    "INT8": [[-128, 0, 127]], "INT16": [[-(2**15), 0, 2**15 - 1]], "INT32": [[-(2**31), 0, 2**31 - 1]],
    "INT64": [[-(2**63), 0, 2**63 - 1]],
    "FP16": [[0.5, -65504.0, 6e-8]], "FP32": [[0.1, -3.4e38, 1e-45]], "FP64": [[0.1, -1.7e308, 5e-324]],
    "BF16": [[0.5, -1.0, 2.0**100]],
    "BYTES": [[b"", b"caf\xc3\xa9", b"x" * 300]],
}  # fmt: skip


def _array(datatype: str) -> Any:
    return np.array(_VALUES[datatype], np.object_ if datatype == "BYTES" else triton_to_np_dtype(datatype))


def _survives(datatype: str, binary: bool) -> Callable[[Infer], None]:
    def act(infer: Infer) -> None:
        if datatype == "BF16":
            pytest.importorskip("ml_dtypes", reason="the engine needs ml_dtypes for BF16")
        array = _array(datatype)
        outputs = [InferRequestedOutput("y", binary_data=binary)]
        answer = infer(SAME[datatype], [given("x", array, datatype, binary)], outputs=outputs)
        got = answer.as_numpy("y")
        if datatype == "BYTES":
            # the client hands JSON strings on as text
            got = np.array([[item.encode() if isinstance(item, str) else item for item in row] for row in got], np.object_)
        assert got.shape == array.shape
        assert got.tolist() == array.tolist()
        assert answer.get_output("y")["datatype"] == datatype

    return act


for _datatype in SAME:
    case("%s as binary survives bit by bit" % _datatype)(_survives(_datatype, True))
    if _datatype not in ("FP16", "BF16"):
        case("%s as JSON survives value by value" % _datatype)(_survives(_datatype, False))


@case("FP16 cannot be asked for as JSON")
def _half_as_json(infer: Infer) -> None:
    refused(infer, 400, ["FP16", "'y'"], "same_half", [given("x", _array("FP16"), "FP16")], outputs=[plain("y")])


@case("BF16 cannot be asked for as JSON")
def _brain_as_json(infer: Infer) -> None:
    refused(infer, 400, ["BF16", "'y'"], "same_bf16", [given("x", _array("BF16"), "BF16")], outputs=[plain("y")])


@case("NaN and infinity survive as binary")
def _nan_binary(infer: Infer) -> None:
    array = np.array([[np.nan, np.inf, -np.inf]], np.float32)
    assert infer("same_fp32", [given("x", array, "FP32")]).as_numpy("y").tobytes() == array.tobytes()


@case("NaN and infinity are null as JSON")
def _nan_json(infer: Infer) -> None:
    answer = infer("same_fp32", [floats([np.nan, np.inf, 1.0])], outputs=[plain("y")])
    assert answer.get_output("y")["data"] == [None, None, 1.0]


@case("a tensor without elements is legal")
def _no_elements(infer: Infer) -> None:
    for binary in (True, False):
        answer = infer("same_fp32", [given("x", np.zeros((2, 0), np.float32), "FP32", binary)])
        assert answer.as_numpy("y").shape == (2, 0)
        assert answer.get_output("y")["shape"] == [2, 0]


# -- forms ----------------------------------------------------------------------------------------------------------


@case("outputs that nobody named all come, as binary")
def _all_outputs(infer: Infer) -> None:
    answer = infer("pair", [floats([5, 7], name="a"), floats([3, 4], name="b")])
    assert answer.as_numpy("sum").tolist() == [[8, 11]]
    assert answer.as_numpy("difference").tolist() == [[2, 3]]
    sizes = [output["parameters"] for output in answer.get_response()["outputs"]]
    assert sizes == [{"binary_data_size": 8}] * 2


@case("only the outputs that were named come, in that order")
def _named_outputs(infer: Infer) -> None:
    inputs = [floats([5, 7], name="a"), floats([3, 4], name="b")]
    one = infer("pair", inputs, outputs=[InferRequestedOutput("difference")]).get_response()
    assert [output["name"] for output in one["outputs"]] == ["difference"]
    both = infer("pair", inputs, outputs=[InferRequestedOutput("difference"), InferRequestedOutput("sum")])
    assert [output["name"] for output in both.get_response()["outputs"]] == ["difference", "sum"]


@case("one input as JSON and one as binary")
def _mixed_inputs(infer: Infer) -> None:
    answer = infer("pair", [floats([5, 7], name="a", binary=False), floats([3, 4], name="b")])
    assert answer.as_numpy("sum").tolist() == [[8, 11]]


@case("one output as JSON and one as binary")
def _mixed_outputs(infer: Infer) -> None:
    inputs = [floats([5, 7], name="a"), floats([3, 4], name="b")]
    answer = infer("pair", inputs, outputs=[plain("sum"), InferRequestedOutput("difference")])
    assert answer.get_output("sum")["data"] == [8, 11]
    assert answer.as_numpy("difference").tolist() == [[2, 3]]


@case("an output as JSON has no parameters")
def _no_parameters_on_json(infer: Infer) -> None:
    output = infer("add_one", [floats(FOUR)], outputs=[plain("y")]).get_output("y")
    assert output == {"name": "y", "datatype": "FP32", "shape": [1, 4], "data": PLUS_ONE}


@case("the id comes back")
def _id_back(infer: Infer) -> None:
    assert infer("add_one", [floats(FOUR)], request_id="cam-7 é").get_response()["id"] == "cam-7 é"


@case("an answer names its model and its version as text")
def _names(infer: Infer) -> None:
    answer = infer("add_one", [floats(FOUR)]).get_response()
    assert (answer["model_name"], answer["model_version"]) == ("add_one", "3")


@case("several rows are answered row by row")
def _rows(infer: Infer) -> None:
    rows = [[float(number)] * 4 for number in range(4)]
    assert infer("add_one", [floats(*rows)]).as_numpy("y").tolist() == [[number + 1.0] * 4 for number in range(4)]


@case("a model that does not batch takes its own shape")
def _unbatched(infer: Infer) -> None:
    assert infer("fixed", [floats(FOUR)]).as_numpy("y").tolist() == [PLUS_ONE]


@case("a request is answered whatever its priority and timeout")
def _priority(infer: Infer) -> None:
    answer = infer("add_one", [floats(FOUR)], priority=3, timeout=5_000_000)
    assert answer.as_numpy("y").tolist() == [PLUS_ONE]


@case("parameters of the caller's own are taken")
def _own_parameters(infer: Infer) -> None:
    own = {"who": "me", "count": 3, "really": True, "share": 0.5}
    assert infer("add_one", [floats(FOUR)], parameters=own).as_numpy("y").tolist() == [PLUS_ONE]


@case("sequence parameters do not bother a model without sequences")
def _sequence(infer: Infer) -> None:
    answer = infer("add_one", [floats(FOUR)], sequence_id=5, sequence_start=True, sequence_end=True)
    assert answer.as_numpy("y").tolist() == [PLUS_ONE]


# -- classification -------------------------------------------------------------------------------------------------


def _picture(*colours: float) -> InferInput:
    array = np.stack([np.full((8, 8), colour, np.float32) for colour in colours])[None]
    return given("image", array, "FP32")


@case("classification gives the best classes with their labels")
def _classes(infer: Infer) -> None:
    answer = infer("colours", [_picture(0.25, 4.0, 1.5)], outputs=[InferRequestedOutput("scores", class_count=2)])
    assert answer.as_numpy("scores").tolist() == [[b"4.000000:1:green", b"1.500000:2:blue"]]
    assert answer.get_output("scores")["datatype"] == "BYTES"


@case("classification gives no more classes than there are")
def _all_classes(infer: Infer) -> None:
    asked = InferRequestedOutput("scores", binary_data=False, class_count=9)
    output = infer("colours", [_picture(3.0, 2.0, 1.0)], outputs=[asked]).get_output("scores")
    assert output["shape"] == [1, 3]
    assert output["data"] == ["3.000000:0:red", "2.000000:1:green", "1.000000:2:blue"]


@case("classification of text is refused")
def _text_classes(infer: Infer) -> None:
    asked = [InferRequestedOutput("y", class_count=1)]
    refused(infer, 400, ["BYTES", "'y'"], "same_text", [given("x", _array("BYTES"), "BYTES")], outputs=asked)


# -- what is refused ------------------------------------------------------------------------------------------------


@case("an unknown model is not found")
def _unknown_model(infer: Infer) -> None:
    refused(infer, 404, ["nobody", "is not found"], "nobody", [floats(FOUR)])


@case("an unknown input is named")
def _unknown_input(infer: Infer) -> None:
    refused(infer, 400, ["'z'", "add_one"], "add_one", [floats(FOUR, name="z")])


@case("an unknown output is named")
def _unknown_output(infer: Infer) -> None:
    refused(infer, 400, ["'z'", "add_one"], "add_one", [floats(FOUR)], outputs=[InferRequestedOutput("z")])


@case("a wrong datatype is named beside the right one")
def _wrong_datatype(infer: Infer) -> None:
    refused(infer, 400, ["INT32", "FP32"], "add_one", [given("x", np.array([[1, 2, 3, 4]], np.int32), "INT32")])


@case("a wrong shape is named beside the right one")
def _wrong_shape(infer: Infer) -> None:
    refused(infer, 400, ["[-1,4]", "[1,3]", "'x'"], "add_one", [floats([1, 2, 3])])


@case("a wrong number of dimensions is refused")
def _wrong_rank(infer: Infer) -> None:
    refused(infer, 400, ["[-1,4]", "[4]"], "add_one", [given("x", np.array(FOUR, np.float32), "FP32")])


@case("a batch over the model's is refused")
def _large_batch(infer: Infer) -> None:
    refused(infer, 400, ["batch-size must be <= 4"], "add_one", [floats(*[FOUR] * 5)])


@case("a batch of nothing is refused")
def _empty_batch(infer: Infer) -> None:
    refused(infer, 400, ["batch-size must be >= 1"], "add_one", [given("x", np.zeros((0, 4), np.float32), "FP32")])


@case("inputs of different batches are refused")
def _uneven_batches(infer: Infer) -> None:
    inputs = [floats([1, 2], [3, 4], name="a"), floats([1, 2], name="b")]
    refused(infer, 400, ["'a'", "'b'", "batch-size"], "pair", inputs)


@case("a missing input is named")
def _missing_input(infer: Infer) -> None:
    refused(infer, 400, ["expected 2 inputs but got 1", "b"], "pair", [floats([1, 2], name="a")])


@case("an input sent twice is refused")
def _input_twice(infer: Infer) -> None:
    refused(infer, 400, ["'x'", "already exists"], "add_one", [floats(FOUR), floats(FOUR)])


@case("an output asked for twice is refused")
def _output_twice(infer: Infer) -> None:
    twice = [InferRequestedOutput("y"), InferRequestedOutput("y")]
    refused(infer, 400, ["'y'", "already exists"], "add_one", [floats(FOUR)], outputs=twice)


@case("binary data that does not fit its shape is refused with both sizes")
def _wrong_bytes(infer: Infer) -> None:
    lying = floats(FOUR)
    lying.set_shape([2, 4])
    refused(infer, 400, ["16", "32", "'x'"], "add_one", [lying])


@case("JSON data that does not fit its shape is refused")
def _wrong_count(infer: Infer) -> None:
    lying = floats(FOUR, binary=False)
    lying.set_shape([2, 4])
    refused(infer, 400, ["'x'"], "add_one", [lying])


@case("text whose lengths do not add up is refused")
def _wrong_text(infer: Infer) -> None:
    lying = given("x", np.array([[b"abc", b"d"]], np.object_), "BYTES")
    lying.set_shape([1, 3])
    refused(infer, 400, ["3", "'x'"], "same_text", [lying])


@case("a reserved parameter is refused")
def _reserved(infer: Infer) -> None:
    refused(infer, 400, ["triton_mine", "reserved"], "add_one", [floats(FOUR)], parameters={"triton_mine": 1})


@case("an error carries the id of its request")
def _error_id(infer: Infer) -> None:
    refused(infer, 400, ["[request id: mine]"], "add_one", [floats([1, 2])], request_id="mine")


@case("an error without an id says so")
def _error_no_id(infer: Infer) -> None:
    refused(infer, 400, ["[request id: <id_unknown>]"], "add_one", [floats([1, 2])])


@case("an engine that fails on a request fails that request alone")
def _engine_fails(infer: Infer) -> None:
    refused(infer, 500, ["lookup"], "lookup", [given("index", np.array([[9]], np.int64), "INT64")])
    assert infer("lookup", [given("index", np.array([[3]], np.int64), "INT64")]).as_numpy("found").tolist() == [[30.0]]


@case("a model that could not be loaded is not ready")
def _broken_model(infer: Infer) -> None:
    refused(infer, 503, ["broken", "not at ready state"], "broken", [floats(FOUR)])
