"""The body child with real and hostile bodies."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import struct
from typing import Any, AsyncIterator, List

import pytest

from edge_agent.cameras.bodies import BodyChild
from edge_agent.cameras.copying import copy
from edge_agent.domain.clock import Clock
from edge_agent.errors import ArenaFull, ChildRefused, Draining, InvalidRequest, PayloadTooLarge
from edge_agent.processes.arena import Arena

LIMIT = 10_000_000


def request(values: List[Any], datatype: str = "FP32", **changes: Any) -> bytes:
    entry = {"name": "X", "shape": [len(values)], "datatype": datatype, "data": values}
    return json.dumps({"id": "7", "inputs": [entry], **changes}).encode()


@pytest.fixture
async def bodies(arena: Arena) -> AsyncIterator[BodyChild]:
    child = BodyChild(arena, Clock())
    await child.start()
    yield child
    await child.stop()


async def works(bodies: BodyChild, count: int = 20_000) -> None:
    body, head_bytes = await bodies.json_to_binary(request([0.5] * count), None, LIMIT)
    assert body[head_bytes:] == struct.pack("<f", 0.5) * count


async def test_the_child_starts_with_its_first_use(bodies: BodyChild) -> None:
    assert bodies.pid == 0
    await works(bodies)
    assert bodies.pid != 0


async def test_results_are_private_and_their_memory_is_asked_for_first(bodies: BodyChild, arena: Arena) -> None:
    held: List[int] = []
    body, _ = await bodies.json_to_binary(request([1] * 20_000), None, LIMIT, hold=held.append)
    assert held == [len(body)]
    assert arena.status()["slots"] == 0


async def test_result_whose_memory_is_not_to_be_had_gives_its_slots_back(bodies: BodyChild, arena: Arena) -> None:
    def full(nbytes: int) -> None:
        raise ArenaFull("no memory")

    with pytest.raises(ArenaFull):
        await bodies.json_to_binary(request([1] * 20_000), None, LIMIT, hold=full)
    assert arena.status()["slots"] == 0


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_what_is_compressed_comes_back_even_where_the_first_slot_is_too_small(bodies: BodyChild, coding: str) -> None:
    plain = b"abcdefgh" * 500_000
    packed = await bodies.deflate(plain, coding)
    assert len(packed) < len(plain) / 100
    assert await bodies.inflate(packed, coding, LIMIT) == plain


async def test_bytes_that_cannot_be_compressed_find_room_too(bodies: BodyChild) -> None:
    noise = os.urandom(3_000_000)
    assert await bodies.inflate(await bodies.deflate(noise, "gzip"), "gzip", LIMIT) == noise


async def test_bomb_is_refused_at_the_limit_and_does_not_end_the_child(bodies: BodyChild) -> None:
    bomb = gzip.compress(bytes(100_000_000), 9)
    with pytest.raises(PayloadTooLarge, match="inflated from gzip, is over the limit of 10000000 bytes"):
        await bodies.inflate(bomb, "gzip", LIMIT)
    await works(bodies)
    assert bodies.restarts == 0


async def test_tensors_larger_than_their_json_find_room_too(bodies: BodyChild) -> None:
    body, head_bytes = await bodies.json_to_binary(request([1] * 200_000, "FP64"), None, LIMIT)
    assert len(body) - head_bytes == 1_600_000


async def test_request_whose_tensors_are_over_the_limit_is_refused(bodies: BodyChild) -> None:
    with pytest.raises(PayloadTooLarge, match="tensors take 1600[0-9]* bytes, over the limit of 100000"):
        await bodies.json_to_binary(request([1] * 200_000, "FP64"), None, 100_000)


async def test_fault_of_a_body_says_which_request_it_is_of(bodies: BodyChild) -> None:
    with pytest.raises(InvalidRequest, match="input 'X' must be numbers for FP32, got a string") as caught:
        await bodies.json_to_binary(request([1, "2"]), None, LIMIT)
    assert caught.value.args_by_name["request_id"] == "7"


async def test_answer_becomes_json_but_for_outputs_that_stay_binary(bodies: BodyChild) -> None:
    entries = [
        {"name": name, "datatype": "UINT8", "shape": [100_000], "parameters": {"binary_data_size": 100_000}} for name in "YZ"
    ]
    head = json.dumps({"outputs": entries}).encode()
    body, head_bytes = await bodies.binary_to_json([head, bytes(100_000), b"\1" * 100_000], len(head), [1])
    document = json.loads(bytes(body[:head_bytes]))
    assert document["outputs"][0]["data"] == [0] * 100_000
    assert body[head_bytes:] == b"\1" * 100_000


async def test_what_the_child_does_not_understand_is_no_fault_of_the_body(bodies: BodyChild) -> None:
    with pytest.raises(ChildRefused):
        await bodies.inflate(b"x", "br", LIMIT)
    await works(bodies)


async def test_requests_in_a_child_that_dies_are_tried_again(bodies: BodyChild, arena: Arena) -> None:
    await works(bodies)
    os.kill(bodies.pid, signal.SIGSTOP)
    waiting = [asyncio.ensure_future(works(bodies)) for _ in range(4)]
    while arena.status()["slots"] < 4:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    os.kill(bodies.pid, signal.SIGKILL)
    await asyncio.gather(*waiting)
    assert bodies.restarts == 1


async def test_body_that_ends_the_converter_twice_is_the_callers_fault(bodies: BodyChild, arena: Arena) -> None:
    await works(bodies)
    first = bodies.pid
    os.kill(first, signal.SIGSTOP)
    waiting = asyncio.ensure_future(works(bodies))
    while arena.status()["slots"] < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    os.kill(first, signal.SIGKILL)
    while bodies.pid in (0, first):  # noqa: ASYNC110 (a slower look would come after the answer)
        await asyncio.sleep(0)
    os.kill(bodies.pid, signal.SIGKILL)
    with pytest.raises(InvalidRequest, match="the body ended the converter"):
        await waiting
    assert arena.status()["slots"] == 0
    await works(bodies)


async def test_body_that_hangs_the_converter_gets_it_killed(bodies: BodyChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_agent.cameras.bodies._BUDGET_S", 0.3)
    await works(bodies)
    os.kill(bodies.pid, signal.SIGSTOP)
    with pytest.raises(InvalidRequest, match="hangs the converter"):
        await works(bodies)
    monkeypatch.undo()
    await works(bodies)
    assert bodies.restarts == 1


async def test_body_larger_than_tensor_memory_is_refused(bodies: BodyChild) -> None:
    with pytest.raises(PayloadTooLarge):
        await bodies.json_to_binary(bytes(65 << 20), None, LIMIT)


async def test_after_stop_nothing_is_started_again(bodies: BodyChild) -> None:
    await works(bodies)
    await bodies.stop()
    await bodies.stop()
    with pytest.raises(Draining):
        await works(bodies)
    assert bodies.pid == 0


async def test_copy_puts_every_byte_in_its_place_and_lets_others_run() -> None:
    source, target = os.urandom(5_000_001), bytearray(5_000_011)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(count())
    assert await copy(source, memoryview(target), 5) == 5_000_006
    other.cancel()
    assert bytes(target) == bytes(5) + source + bytes(5)
    assert turns >= 4


async def test_a_large_output_is_ranked_in_the_child(bodies: BodyChild) -> None:
    asked = {"rows": 1, "best": 2, "datatype": "INT32", "labels": ["cat"]}
    parameters = {"binary_data_size": 400_000, "classification": asked}
    entry = {"name": "Y", "datatype": "BYTES", "shape": [1, 2], "parameters": parameters}
    head = json.dumps({"outputs": [entry]}).encode()
    data = bytearray(400_000)
    data[40:44] = struct.pack("<i", 7)
    body, head_bytes = await bodies.binary_to_json([head, data], len(head), [])
    assert head_bytes == len(body)
    assert json.loads(bytes(body)) == {
        "outputs": [{"name": "Y", "datatype": "BYTES", "shape": [1, 2], "data": ["7.000000:10", "0.000000:0:cat"]}]
    }
