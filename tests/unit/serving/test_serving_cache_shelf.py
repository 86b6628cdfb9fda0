"""Answers on disk: only what may be there is asked for, and not for long."""

from __future__ import annotations

import asyncio
from typing import Dict, List, Mapping, Optional, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.tensors import DataType
from edge_agent.serving.cache_answer import Answer, KeptTensor
from edge_agent.serving.cache_shelf import AnswerShelf

OLD, NEW = "0123456789abcdef", "fedcba9876543210"
ANSWER = Answer((KeptTensor("y", DataType.UINT8, (1,), b"y"),), None)


class Disk:
    """What a store does, in memory; slow or broken when asked to be."""

    def __init__(self, max_bytes: int = 1 << 20, rows: Optional[Dict[str, Tuple[str, str, bytes]]] = None) -> None:
        self.max_bytes = max_bytes
        self.rows = rows or {}
        self.counts: List[Mapping[str, int]] = []
        self.forgotten: List[Tuple[str, str, str]] = []
        self.finds = 0
        self.gate: Optional[asyncio.Event] = None
        self.error: Optional[errors.EdgeAgentError] = None

    def keep(self, key: str, model: str, version: str, value: bytes) -> bool:
        self.rows[key] = (model, version, value)
        return True

    def count(self, hits: Mapping[str, int]) -> bool:
        self.counts.append(dict(hits))
        return True

    def forget(self, model: str = "", version: str = "", but: str = "") -> bool:
        self.forgotten.append((model, version, but))
        return True

    async def find(self, key: str) -> Optional[bytes]:
        self.finds += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.rows[key][2] if key in self.rows else None

    async def keys(self) -> List[Tuple[str, str, str]]:
        if self.error is not None:
            raise self.error
        return [(key, model, version) for key, (model, version, _) in self.rows.items()]


class SetClock(Clock):
    """A clock that a test turns on."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


def left(*keys: str) -> Dict[str, Tuple[str, str, bytes]]:
    return {key: ("m", "1", ANSWER.to_bytes()) for key in keys}


async def test_answers_of_an_earlier_run_are_found_and_keys_that_were_never_kept_cost_nothing() -> None:
    disk = Disk(rows=left(OLD + ".a"))
    shelf = AnswerShelf(disk, Clock())
    await shelf.start()
    assert await shelf.find(OLD + ".a") == ANSWER
    assert await shelf.find(OLD + ".b") is None
    assert disk.finds == 1


async def test_a_row_that_was_deleted_is_asked_for_once_and_a_damaged_one_is_no_answer() -> None:
    disk = Disk(rows=left(OLD + ".a", OLD + ".b"))
    shelf = AnswerShelf(disk, Clock())
    await shelf.start()
    del disk.rows[OLD + ".a"]
    disk.rows[OLD + ".b"] = ("m", "1", b"garbage")
    assert [await shelf.find(OLD + ".a") for _ in range(3)] == [None] * 3
    assert disk.finds == 1
    assert await shelf.find(OLD + ".b") is None


async def test_a_slow_or_broken_disk_is_not_waited_for() -> None:
    disk = Disk(rows=left(*[OLD + ".%d" % n for n in range(9)]))
    shelf = AnswerShelf(disk, Clock())
    await shelf.start()
    disk.gate = asyncio.Event()
    found = await asyncio.wait_for(asyncio.gather(*[shelf.find(OLD + ".%d" % n) for n in range(9)]), 5)
    assert found == [None] * 9
    assert disk.finds == 4  # the others did not ask at all
    disk.gate, disk.error = None, errors.StoreError("broken")
    assert await shelf.find(OLD + ".1") is None
    disk.error = errors.QueueFull("busy")
    assert await shelf.find(OLD + ".1") is None
    disk.error = None
    assert await shelf.find(OLD + ".1") == ANSWER


async def test_a_start_on_a_broken_disk_goes_on_without_what_was_left() -> None:
    disk = Disk(rows=left(OLD + ".a"))
    disk.error = errors.StoreError("broken")
    shelf = AnswerShelf(disk, Clock())
    await shelf.start()
    disk.error = None
    assert await shelf.find(OLD + ".a") is None


async def test_without_a_bound_on_disk_nothing_is_kept_and_what_was_left_is_deleted() -> None:
    disk = Disk(max_bytes=0, rows=left(OLD + ".a"))
    shelf = AnswerShelf(disk, Clock())
    await shelf.start()
    shelf.keep(OLD + ".b", "m", "1", ANSWER)
    assert disk.forgotten == [("", "", "")]
    assert list(disk.rows) == [OLD + ".a"]
    assert await shelf.find(OLD + ".a") is None


def test_hits_are_written_together_and_seldom() -> None:
    disk, clock = Disk(), SetClock()
    shelf = AnswerShelf(disk, clock)
    shelf.keep(OLD + ".a", "m", "1", ANSWER)
    for _ in range(3):
        shelf.hit(OLD + ".a")
    shelf.hit(OLD + ".never kept")
    assert disk.counts == []
    clock.now_s += 301
    shelf.hit(OLD + ".a")
    assert disk.counts == [{OLD + ".a": 4}]
    shelf.hit(OLD + ".a")
    shelf.stop()
    shelf.stop()
    assert disk.counts == [{OLD + ".a": 4}, {OLD + ".a": 1}]


async def test_answers_of_other_files_of_a_version_are_deleted_once() -> None:
    disk = Disk(rows=left(OLD + ".a", NEW + ".a"))
    shelf = AnswerShelf(disk, Clock())
    await shelf.start()
    assert shelf.versions("m") == ["1"]
    assert shelf.only("m", "1", NEW) == {OLD}
    assert shelf.only("m", "1", NEW) == set()
    assert disk.forgotten == [("m", "1", NEW)]
    assert shelf.only("m", "1") == {NEW}
    assert disk.forgotten[1:] == [("m", "1", "")]
    assert shelf.versions("m") == []


async def test_what_is_remembered_of_keys_is_bounded_by_what_the_disk_can_hold() -> None:
    disk = Disk(max_bytes=10 * 1024)
    shelf = AnswerShelf(disk, Clock())
    for n in range(50):
        shelf.keep(OLD + ".%d" % n, "m", "1", ANSWER)
    found = [await shelf.find(OLD + ".%d" % n) for n in range(50)]
    assert [answer is not None for answer in found] == [False] * 40 + [True] * 10
