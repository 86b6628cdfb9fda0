from __future__ import annotations

from typing import Optional, Tuple

import pytest

from edge_agent.mqtt.topics import InferTopic, Topics, is_publishable

TOPICS = Topics("edge/a1")


@pytest.mark.parametrize(
    ("topic", "model", "tail"),
    [
        ("edge/a1/models/face/infer", "face", ()),
        ("edge/a1/models/face/infer/press/7", "face", ("press", "7")),
        ("edge/a1/models/face/infer/", "face", ("",)),
        ("edge/a1/models//infer", "", ()),
        ("edge/a1/models/infer/infer", "infer", ()),
        ("edge/a1/models/face/result", None, ()),
        ("edge/a1/models/face", None, ()),
        ("edge/a1/models/face/inference", None, ()),
        ("edge/a12/models/face/infer", None, ()),
        ("other", None, ()),
    ],
)
def test_a_request_topic_names_its_model_and_tail(topic: str, model: Optional[str], tail: Tuple[str, ...]) -> None:
    assert TOPICS.parse_infer(topic) == (None if model is None else InferTopic(model, tail))


@pytest.mark.parametrize(
    ("tail", "good"),
    [((), True), (("a",), True), (("a",) * 4, True), (("a",) * 5, False), (("",), False), (("a", "", "b"), False)],
)
def test_one_to_four_levels_without_an_empty_one_are_a_good_tail(tail: Tuple[str, ...], good: bool) -> None:
    assert InferTopic("face", tail).tail_is_good is good


def test_answers_go_beside_their_request() -> None:
    assert TOPICS.result(InferTopic("face")) == "edge/a1/models/face/result"
    assert TOPICS.result(InferTopic("face", ("press", "7"))) == "edge/a1/models/face/result/press/7"


@pytest.mark.parametrize(
    ("topic", "good"),
    [
        ("a", True),
        ("/", True),
        ("\u6444\u50cf/\u673a", True),
        ("a" * 65_535, True),
        ("/".join("a" * 200), True),
        ("", False),
        ("a" * 65_536, False),
        ("\u6444" * 30_000, False),
        ("/".join("a" * 202), False),
        ("a/#", False),
        ("+", False),
        ("a\0b", False),
        ("a\nb", False),
        ("a\x7fb", False),
        ("a\ud800b", False),
        ("a\uffff", False),
        ("a\ufdd0", False),
        ("$SYS/broker", False),
    ],
)
def test_only_what_every_broker_takes_is_published_on(topic: str, good: bool) -> None:
    assert is_publishable(topic) is good


@pytest.mark.parametrize(
    ("topic", "allowed"),
    [
        ("device/7/answer", True),
        ("edge/a2/anything", True),
        ("edge/a12", True),
        ("edge/a1/models/face/result", True),
        ("edge/a1/models/face/result/x", True),
        ("edge/a1/models/face/results", False),
        ("edge/a1/models/other/result", False),
        ("edge/a1/models/face/infer", False),
        ("edge/a1/status", False),
        ("edge/a1", False),
        ("$SYS/x", False),
        ("a/#", False),
    ],
)
def test_a_device_cannot_make_the_agent_write_below_its_own_prefix(topic: str, allowed: bool) -> None:
    assert TOPICS.may_answer_on(topic, InferTopic("face")) is allowed
