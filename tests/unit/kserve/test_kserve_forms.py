"""A body converted to its binary form first is judged and served like the body itself."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional, Tuple

import pytest

from edge_agent.domain.requests import InferResponse, Timing
from edge_agent.errors import RequestError
from edge_agent.kserve import answers, codec
from edge_agent.vision_host import json_bodies
from tests.unit.kserve.test_kserve_answers import FP32, VALUES, _answer, _asked, _tensor
from tests.unit.kserve.test_kserve_parsing import BAD_BODIES, _body, _input


def _through_binary(body: bytes) -> Tuple[bytes, codec.InferBody]:
    try:
        head, blobs = json_bodies.to_binary(body, None, codec.HINT)
    except json_bodies.BadBody as error:
        raise RequestError(codec.prefixed(str(error), codec.shown(error.request_id))) from error
    whole = head + b"".join(blobs)
    return whole, codec.parse_head(whole[: len(head)], len(whole) - len(head), codec.HINT)


@pytest.mark.parametrize("case", sorted(BAD_BODIES))
def test_fault_is_told_in_the_same_words(case: str) -> None:
    body = BAD_BODIES[case][0]
    with pytest.raises(RequestError) as inline:
        codec.parse_infer(body)
    with pytest.raises(RequestError) as converted:
        _through_binary(body)
    assert str(converted.value) == str(inline.value)


def _contents(parsed: codec.InferBody, body: bytes) -> Dict[str, Any]:
    slot = memoryview(bytearray(parsed.input_bytes))
    parsed.copy_inputs(body, slot)
    return {
        part.name: (part.datatype, part.shape, bytes(slot[at : at + part.nbytes]))
        for part, at in zip(parsed.inputs, parsed.offsets())
    }


def test_good_request_is_the_same_in_both_forms() -> None:
    entries = [
        _input(name=datatype.value, datatype=datatype.value, shape=[2], data=values) for datatype, values in VALUES.items()
    ]
    body = _body(
        *entries,
        id="é",
        parameters={"priority": 3, "timeout": 5, "mine": 1.5, "binary_data_output": True},
        outputs=[{"name": "Y", "parameters": {"classification": 3}}],
    )
    inline = codec.parse_infer(body)
    whole, converted = _through_binary(body)
    assert _contents(converted, whole) == _contents(inline, body)
    for name in ("id", "parameters", "outputs", "priority", "timeout_us", "binary_default"):
        assert getattr(converted, name) == getattr(inline, name)


@pytest.mark.parametrize("third", [None, True])
def test_answer_is_the_same_whoever_writes_its_json(third: Optional[bool]) -> None:
    tensors = [_tensor(datatype.value, datatype, (2,), _packed(datatype, values)) for datatype, values in VALUES.items()]
    outputs = [{"name": tensor.name} for tensor in [FP32, *tensors]]
    if third:
        outputs[2]["parameters"] = {"binary_data": True}  # type: ignore[assignment]
    asked, answer = _asked(outputs, id="7"), _answer(FP32, *tensors)
    head, binaries = answers.encode_infer(answer, asked)
    all_head, all_binaries = answers.encode_infer(answer, asked, all_binary=True)
    whole = all_head + b"".join(all_binaries)
    made, blobs = json_bodies.to_json(whole, len(all_head), answers.binary_positions(answer, asked))
    assert made == head
    assert b"".join(blobs) == b"".join(binaries)


def _packed(datatype: Any, values: Any) -> bytes:
    return codec.parse_infer(_body(_input(datatype=datatype.value, shape=[2], data=values))).inputs[0].data or b""


def test_length_of_the_text_is_told_from_above_and_not_far_off() -> None:
    tensors = [_tensor(datatype.value, datatype, (2,), _packed(datatype, values)) for datatype, values in VALUES.items()]
    for tensor in tensors:
        answer, asked = InferResponse("demo", "1", "", (tensor,), None, Timing(), 1), _asked()
        document = json.loads(answers.encode_infer(answer, asked)[0])["outputs"][0]["data"]
        text = len(json.dumps(document, separators=(",", ":")))
        assert text / 8 < answers.text_bytes(answer, asked) + 2
    binary = _asked(parameters={"binary_data_output": True})
    assert answers.text_bytes(_answer(*tensors), binary) == 0
    ranked = _asked([{"name": "FP32", "parameters": {"classification": 1}}])
    assert answers.text_bytes(_answer(*tensors), ranked) == 0
