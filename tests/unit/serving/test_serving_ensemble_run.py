from __future__ import annotations

import asyncio

import numpy
import pytest

from edge_agent import errors
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.domain.tensors import DataType, Tensor, TensorSpec
from edge_agent.engines.waits import Waits
from edge_agent.processes.arena import Arena
from edge_agent.serving.ensemble_plan import PlanStep
from edge_agent.serving.ensemble_run import EnsembleRun, StepDoor
from edge_agent.serving.room import StepRooms

FIRST = PlanStep(0, "first", None, {"in": "x"}, {"out": "between"})
SECOND = PlanStep(1, "second", "3", {"in": "between"}, {"out": "y"})
THIRD = PlanStep(2, "third", None, {"in": "x"}, {"out": "z"})


class Model:
    """One that adds one to what it gets, when it is allowed to."""

    inputs = (TensorSpec("in", DataType.FP32, (-1, 4)),)

    def __init__(self, name):
        self.label = name + "/1"
        self.shared = []
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.error = None
        self.gives = ("out",)
        self.requests = []

    async def share(self, segment):
        self.shared.append(segment)

    async def infer(self, request, arena, segment):
        self.requests.append(request)
        self.began.set()
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        kept = ()
        lease = request.room
        if lease is None:
            (lease,) = kept = tuple(arena.try_acquire([(segment, 16)]))
        data = numpy.frombuffer(request.inputs[0].view(), numpy.float32) + 1
        lease.view()[:16] = data.tobytes()
        outputs = tuple(Tensor(name, DataType.FP32, (1, 4), lease, 0, 16) for name in self.gives)
        return InferResponse(request.model, "1", request.id, outputs, None, Timing(1, 2, 3, 4, 10), 1, kept)


class Bench:
    """Models, memory, and one request of ones."""

    def __init__(self):
        self.arena = Arena(1 << 20)
        self.segment = self.arena.segment("models")
        self.models = {name: Model(name) for name in ("first", "second", "third")}
        self.waits = Waits()
        (self.lease,) = self.arena.try_acquire([(self.segment, 16)])
        self.lease.view()[:] = numpy.ones(4, numpy.float32).tobytes()
        self.request = InferRequest("whole", (Tensor("x", DataType.FP32, (1, 4), self.lease, 0, 16),), id="7")

    def run(self, steps, wanted, rooms=None, **fields):
        request = InferRequest(**{**self.request.__dict__, **fields})
        door = StepDoor(lambda name, version: self.models[name], self.infer, self.arena, self.waits)
        return EnsembleRun("whole", steps, wanted, request, rooms, door)

    async def infer(self, request):
        return await self.models[request.model].infer(request, self.arena, self.segment)

    def rooms(self, *steps):
        leases = self.arena.try_acquire([(self.segment, 16)] * len(steps))
        return StepRooms(dict(zip(steps, leases)))

    @property
    def slots(self):
        """Beside the request's own."""
        return self.arena.status()["slots"] - 1


@pytest.fixture
async def bench():
    bench = Bench()
    yield bench
    assert bench.slots == 0
    bench.arena.close()


def values(tensor):
    return numpy.frombuffer(bytes(tensor.view()), numpy.float32).tolist()


async def test_a_tensor_goes_on_by_reference_and_is_freed_after_its_last_use(bench):
    rooms = bench.rooms(0, 1)
    second = bench.models["second"]
    second.may_end.clear()
    running = asyncio.ensure_future(bench.run([FIRST, SECOND], ["y"], rooms).run())
    await second.began.wait()
    (request,) = second.requests
    assert request.inputs[0].name == "in"
    assert request.inputs[0].lease is bench.models["first"].requests[0].room
    assert (request.version, request.outputs, request.id) == ("3", ("out",), "7")
    assert second.shared == [bench.segment]
    second.may_end.set()
    (output,), kept = await running
    assert (output.name, values(output)) == ("y", [3.0] * 4)
    assert bench.slots == 1  # the first one's is free already
    for lease in kept:
        lease.release()
    rooms.release()


async def test_slots_that_a_step_found_for_itself_are_held_like_its_room(bench):
    run = bench.run([FIRST, SECOND, THIRD], ["y", "between", "z"])
    outputs, kept = await run.run()
    assert {tensor.name: values(tensor)[0] for tensor in outputs} == {"y": 3.0, "between": 2.0, "z": 2.0}
    assert len(kept) == bench.slots == 3
    assert run.timing == Timing(3, 6, 9, 12)
    for lease in kept:
        lease.release()


async def test_the_first_failure_ends_what_runs_beside_it_and_frees_everything(bench):
    rooms = bench.rooms(0, 1, 2)
    bench.models["second"].error = errors.QueueFull()
    bench.models["third"].may_end.clear()  # for ever
    with pytest.raises(errors.QueueFull, match="in ensemble 'whole', step 'second': Exceeds maximum queue size"):
        await asyncio.wait_for(bench.run([FIRST, SECOND, THIRD], ["y", "z"], rooms).run(), 5)
    assert bench.slots == 0
    rooms.release()


async def test_leaving_frees_everything_and_starts_nothing_more(bench):
    rooms = bench.rooms(0, 1)
    bench.models["first"].may_end.clear()
    running = asyncio.ensure_future(bench.run([FIRST, SECOND], ["y"], rooms).run())
    await bench.models["first"].began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.models["second"].requests == []
    assert bench.slots == 1
    rooms.release()


async def test_a_model_that_is_gone_is_not_the_callers_mistake(bench):
    bench.models["second"].error = errors.ModelNotFound("'second' is not found")
    with pytest.raises(errors.ModelNotReady, match="step 'second': 'second' is not found"):
        await bench.run([FIRST, SECOND], ["y"]).run()


async def test_a_step_that_gives_less_than_it_was_asked_for_fails(bench):
    bench.models["first"].gives = ()
    with pytest.raises(errors.ExecutionError, match="step 'first' gave no output 'out'"):
        await bench.run([FIRST, SECOND], ["y"]).run()


async def test_a_tensor_that_the_request_lacks_is_named(bench):
    with pytest.raises(errors.TensorMismatch, match="step 'second' takes the tensor 'between', which the request does not"):
        await bench.run([SECOND], ["y"]).run()


async def test_a_python_model_that_would_wait_for_itself_is_told_so(bench):
    bench.waits.join("python/1", "second/1", frozenset)
    assert bench.waits.begin("python/1", "whole/1")
    with pytest.raises(errors.ExecutionError, match="step 'second': second/1 would wait for itself"):
        await bench.run([FIRST, SECOND], ["y"], callers=("python/1",)).run()
    bench.waits.join("python/2", "second/1", frozenset)
    _, kept = await bench.run([FIRST, SECOND], ["y"], callers=("python/1",)).run()
    for lease in kept:
        lease.release()
    bench.waits.end("python/1", "whole/1")
    assert bench.waits.begin("python/2", "third/1")  # the first one waits for nobody any more
