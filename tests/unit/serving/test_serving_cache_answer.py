"""Answers by value, in memory and as bytes."""

from __future__ import annotations

from typing import Tuple

import pytest

from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import DataType
from edge_agent.processes.arena import Arena
from edge_agent.serving.cache_answer import Answer, KeptTensor
from edge_agent.serving.cache_memory import AnswerMemory

FACE = Detection("face \u4eba", 0.1 + 0.2, (0.5, 1.0, 2.25, 3.0), {"track": [1, 2], "nan": None})
CLASS = Detection("cat", 1.0)
ANSWERS = {
    "tensors": Answer(
        (KeptTensor("a", DataType.FP32, (1, 1), b"\0\0\xc0\x7f"), KeptTensor("t", DataType.BYTES, (0,), b"")), None
    ),
    "detections": Answer((), (FACE, CLASS)),
    "nothing seen": Answer((), ()),
    "nothing": Answer((), None),
}


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_answer_comes_back_from_its_bytes_as_it_was(name: str) -> None:
    assert Answer.from_bytes(ANSWERS[name].to_bytes()) == ANSWERS[name]


@pytest.mark.parametrize("value", [b"", b"\xff\xff\xff\xff", b"\2\0\0\0{}", b"\2\0\0\0[]", b"\1\0\0\0\xff"])
def test_what_is_no_answer_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of any kind
        Answer.from_bytes(value)


def test_an_answer_that_is_not_whole_is_refused() -> None:
    whole = ANSWERS["tensors"].to_bytes()
    for damaged in (whole[:-1], whole + b"x", whole.replace(b'"form": 1', b'"form": 2')):
        with pytest.raises(ValueError, match="form 1"):
            Answer.from_bytes(damaged)


def test_tensors_are_copied_into_a_slot_of_the_size_that_was_asked_for() -> None:
    answer = Answer((KeptTensor("a", DataType.UINT8, (65,), b"a" * 65), KeptTensor("b", DataType.UINT8, (2,), b"bb")), None)
    arena = Arena(1 << 20)
    leases = arena.try_acquire([(arena.segment("s"), answer.room_bytes)])
    assert leases is not None
    tensors = answer.into(leases[0])
    assert [(one.name, one.datatype, one.shape, bytes(one.view())) for one in tensors] == [
        ("a", DataType.UINT8, (65,), b"a" * 65),
        ("b", DataType.UINT8, (2,), b"bb"),
    ]
    assert all(one.start % 64 == 0 and one.start + one.nbytes <= answer.room_bytes for one in tensors)
    leases[0].release()
    arena.close()


def of_size(size: int) -> Answer:
    return Answer((KeptTensor("a", DataType.UINT8, (size,), bytes(size)),), None)


def kept(memory: AnswerMemory, *keys: str) -> Tuple[str, ...]:
    return tuple(key for key in keys if memory.get(key) is not None)


def test_the_least_recently_used_answers_leave_memory_first() -> None:
    memory = AnswerMemory(3 * of_size(100).nbytes)
    for key in "abc":
        memory.put(key, of_size(100))
    memory.get("a")
    memory.put("d", of_size(100))
    assert kept(memory, *"abcd") == ("a", "c", "d")
    memory.put("e", of_size(200))
    assert memory.nbytes <= 3 * of_size(100).nbytes
    assert len(memory) == 2


def test_an_answer_larger_than_the_memory_is_not_kept_and_displaces_nothing() -> None:
    memory = AnswerMemory(of_size(100).nbytes)
    memory.put("a", of_size(100))
    memory.put("b", of_size(101))
    assert kept(memory, "a", "b") == ("a",)


def test_an_answer_put_twice_counts_once() -> None:
    memory = AnswerMemory(1 << 20)
    memory.put("a", of_size(10))
    memory.put("a", of_size(20))
    assert memory.nbytes == of_size(20).nbytes


def test_answers_of_a_tag_are_dropped_together() -> None:
    memory = AnswerMemory(1 << 20)
    one, other = "0123456789abcdef.", "fedcba9876543210."
    for key in (one + "a", one + "b", other + "a"):
        memory.put(key, of_size(1))
    memory.forget(one[:-1])
    assert kept(memory, one + "a", one + "b", other + "a") == (other + "a",)
    assert memory.nbytes == of_size(1).nbytes
