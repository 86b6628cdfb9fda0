"""The agent's end of a Python model's calls; the test is the host, and serving."""

from __future__ import annotations

import asyncio

import numpy
import pytest

from edge_agent import errors
from edge_agent.domain.requests import InferResponse, Timing
from edge_agent.domain.tensors import DataType, Tensor, TensorSpec
from edge_agent.engine_host import wire
from edge_agent.engines.calls import CallDesk, CallHost, CallMemory
from edge_agent.engines.instance_calls import InstanceCalls
from edge_agent.processes.arena import Arena
from tests.doubles.engine_host import until

X, Y = (TensorSpec(name, DataType.FP32, (-1, 4)) for name in "xy")
TENSOR = {"name": "x", "datatype": "FP32", "shape": [1, 4], "nbytes": 16}


class Rig:
    """An instance's calls. `response` of a call is what `answers` gives, or raises."""

    def __init__(self):
        self.arena = Arena(1 << 20)
        self.desk = CallDesk(self.on_call)
        self.memory = CallMemory(self.arena, "python", self.desk.reserves)
        self.shared = []
        self.host = CallHost(self.desk, self.memory, self.arena, self.share)
        self.said = []
        self.told = []
        self.requests = []
        self.error = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        behind = lambda: frozenset({"other/1"})  # noqa: E731
        self.calls = InstanceCalls(
            self.host,
            "python/1",
            "m/1",
            self.deliver,
            behind,
            lambda whether: self.told.append(("open", whether)),
            lambda whether: self.told.append(("wait", whether)),
        )
        self.calls.join()

    def deliver(self, data):
        kind, _, number = wire.message_kind(data)
        self.said.append((kind, number, wire.unpack_note(data)))

    async def share(self, segment, writable=False):
        self.shared.append((segment, writable))

    async def on_call(self, call):
        request = await call.request("1", (X,), (Y,), 8, 64)
        self.requests.append(request)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        output = Tensor("y", DataType.FP32, (1, 4), request.room, 0, 16)
        return InferResponse("n", "1", "", (output,), None, Timing(), 1)

    def call(self, number=1, **fields):
        whole = {"model": "n", "version": "", "outputs": ["y"], "inputs": [TENSOR], **fields}
        self.calls.on_message(wire.CALL, number, whole)

    async def got(self, kind, number=1):
        """The fields of the next message."""
        await until(lambda: self.said)
        found = self.said.pop(0)
        assert found[:2] == (kind, number)
        return found[2]

    @property
    def slots(self):
        return self.arena.status()["slots"]


@pytest.fixture
async def rig():
    rig = Rig()
    yield rig
    rig.calls.lose()
    await rig.host.tasks.stop()
    await until(lambda: rig.slots == 0)
    rig.arena.close()


async def test_a_call_goes_from_room_to_answer_and_its_slots_are_free_when_it_was_read(rig):
    rig.call(id="r", timeout=7, parameters={"p": 1})
    ((segment, offset),) = (await rig.got(wire.CALL_ROOM))["places"]
    assert rig.slots == 2
    assert rig.shared == [(rig.memory.segment(), True)]
    rig.memory.segment().view(offset, 16)[:] = numpy.ones(4, numpy.float32).tobytes()
    rig.calls.on_message(wire.CALL_GO, 1, {})
    (output,) = (await rig.got(wire.CALL_DONE))["outputs"]
    (request,) = rig.requests
    assert (request.model, request.version, request.outputs, request.id) == ("n", "1", ("y",), "r")
    assert (request.timeout_us, request.parameters, request.source) == (7, {"p": 1}, "model/m")
    assert request.callers == ("python/1", "other/1")
    assert bytes(request.inputs[0].view()) == numpy.ones(4, numpy.float32).tobytes()
    assert (output["segment"], output["offset"]) == (segment, request.room.offset)
    assert rig.slots == 2
    rig.calls.on_message(wire.CALL_FREE, 1, {})
    assert rig.slots == 0


async def test_the_instance_is_told_when_it_waits_for_the_agent_and_when_the_agent_waits_for_it(rig):
    rig.call()
    await rig.got(wire.CALL_ROOM)
    assert rig.told == [("wait", True), ("open", True), ("wait", False)]
    rig.calls.on_message(wire.CALL_GO, 1, {})
    await rig.got(wire.CALL_DONE)
    assert rig.calls.open
    rig.calls.on_message(wire.CALL_FREE, 1, {})
    assert rig.told[3:] == [("wait", True), ("wait", False), ("open", False)]
    assert not rig.calls.open


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ModelNotFound("no"), "NOT_FOUND"),
        (errors.TensorMismatch("no"), "INVALID_ARG"),
        (errors.QueueFull("no"), "UNAVAILABLE"),
        (errors.HostDied("no"), "INTERNAL"),
    ],
)
async def test_an_error_has_tritons_word(rig, error, status):
    rig.error = error
    rig.call()
    await rig.got(wire.CALL_ROOM)
    rig.calls.on_message(wire.CALL_GO, 1, {})
    assert await rig.got(wire.CALL_DONE) == {"error": {"text": "no", "status": status}}


async def test_the_unforeseen_is_logged_and_the_model_does_not_wait_for_ever(rig, caplog):
    rig.error = RuntimeError("a bug")
    rig.call()
    await rig.got(wire.CALL_ROOM)
    rig.calls.on_message(wire.CALL_GO, 1, {})
    assert "see its log" in (await rig.got(wire.CALL_DONE))["error"]["text"]
    assert "a bug" in caplog.text


async def test_a_call_that_is_given_up_ends_and_frees_its_slots_when_nothing_runs_on_them(rig):
    rig.may_answer.clear()
    rig.call()
    await rig.got(wire.CALL_ROOM)
    rig.calls.on_message(wire.CALL_GO, 1, {})
    await until(lambda: rig.requests)
    rig.calls.on_message(wire.CALL_FREE, 1, {})
    assert not rig.calls.open
    await until(lambda: rig.slots == 0)
    assert rig.said == []
    rig.calls.on_message(wire.CALL_FREE, 1, {})
    rig.calls.on_message(wire.CALL_GO, 1, {})


async def test_a_call_to_itself_is_refused_before_it_takes_memory(rig):
    rig.call(model="m")
    text = (await rig.got(wire.CALL_DONE))["error"]["text"]
    assert text.startswith("calling m/1 from m/1 would wait for itself")
    assert rig.slots == 0
    rig.call(2)
    await rig.got(wire.CALL_ROOM, 2)


async def test_the_end_of_the_host_ends_its_calls(rig):
    rig.call()
    rig.call(2)
    await rig.got(wire.CALL_ROOM)
    await rig.got(wire.CALL_ROOM, 2)
    rig.calls.lose()
    await until(lambda: rig.slots == 0)
    assert rig.told[-1] == ("open", False)


@pytest.mark.parametrize(
    "fields",
    [
        {"inputs": [{"name": "x"}]},
        {"inputs": [dict(TENSOR, datatype="FP33")]},
        {"outputs": None},
        {"timeout": "soon"},
        {"parameters": [1]},
    ],
)
async def test_a_call_that_cannot_be_read_is_an_error_for_the_model(rig, fields):
    rig.call(**fields)
    error = (await rig.got(wire.CALL_DONE))["error"]
    assert error["status"] == "INVALID_ARG"
    assert error["text"].startswith("the call cannot be read: ")
    rig.calls.on_message(wire.CALL_FREE, 1, {})
    assert not rig.calls.open
    assert rig.told[-2:] == [("wait", False), ("open", False)]


async def test_calls_have_a_bound(rig):
    for number in range(64):
        rig.call(number)
    with pytest.raises(ValueError, match="more than 64 calls at once"):
        rig.call(64)


async def test_the_reserves_of_all_hosts_together_are_a_quarter_of_the_arena_at_most(rig):
    assert rig.arena.status()["bytes_reserved"] == 0
    memories = [CallMemory(rig.arena, "h%d" % number, rig.desk.reserves) for number in range(20)]
    reserved = [memory.segment().reserve_bytes for memory in memories]
    assert reserved[:3] == [128 << 10, 64 << 10, 32 << 10]
    assert sum(reserved) <= 256 << 10
    memories[0].retire()
    assert CallMemory(rig.arena, "next", rig.desk.reserves).segment().reserve_bytes >= 64 << 10


async def test_the_reserve_is_there_however_full_the_arena_is_and_is_given_back(rig):
    segment = rig.memory.segment()
    assert segment.reserve_bytes == (1 << 20) // 8
    other = rig.arena.segment("other")
    fillers = []
    while True:
        more = rig.arena.try_acquire([(other, 4096)])
        if more is None:
            break
        fillers += more
    for lease in rig.memory.take([4096, 4096]):
        lease.release()
    with pytest.raises(errors.ArenaFull, match="no memory for calls of host python"):
        rig.memory.take([100_000, 100_000])
    with pytest.raises(errors.PayloadTooLarge, match="a call of host python"):
        rig.memory.take([2 << 20])
    for lease in fillers:
        lease.release()
    rig.arena.abandon(segment)
    assert rig.memory.segment() is not segment
    rig.memory.retire()
    rig.memory.retire()
    assert rig.arena.status()["bytes_reserved"] == 0
    rig.arena.retire(segment)
