"""A whole engine host on the real PyCUDA: started, asked, broken and asked again, as the agent does it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, AsyncIterator, Callable, List

import numpy
import pytest

from edge_agent import errors
from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.batching.policy import BatchPolicy
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.engines.host import EngineHost
from edge_agent.engines.hosted import HostedModel, HostOptions
from edge_agent.engines.load import LoadOrder
from edge_agent.processes.arena import Arena
from tests.cuda.real_pycuda import GpuInterpreter
from tests.doubles.engine_host import until

WAIT_S = 30.0
EXIT_ENGINE_BROKEN = "76"


class Rig:
    """A GPU host of the agent with the interpreter of a test."""

    def __init__(self, gpu: GpuInterpreter, plan: str) -> None:
        self.gpu = gpu
        self.plan = plan
        self.reasons: List[str] = []
        self.arena = Arena(64 << 20)
        options = HostOptions("gpu", python=str(gpu.python), batch_timeout_s=20.0, load_timeout_s=60.0)
        self.host = EngineHost(options, self.arena, Clock(), self._on_event)

    def _on_event(self, kind: str, name: str, text: str) -> None:
        if kind == "engine_host.down":
            self.reasons.append(text)

    async def load(self, **fields: Any) -> HostedModel:
        """The plan as a model of 8 rows of 16."""
        given = {"threads": 1, "max_batch_size": 8, "instances": 1, "warmup_sizes": (1,), **fields}
        return await self.host.load(LoadOrder("m", "1", "tensorrt_plan", self.plan, str(Path(self.plan).parent), **given))

    def batcher(self, model: HostedModel) -> DynamicBatcher:
        """Sends requests to it."""
        batcher = DynamicBatcher("m", "1", BatchPolicy(8), Clock())
        batcher.use(model.instances)
        for instance in model.instances:
            instance.on_up = batcher.room
        return batcher

    async def ask(self, batcher: DynamicBatcher, value: float, rows: int = 1, width: int = 16) -> bool:
        """Whether the answer is right, each row of it."""
        given = numpy.arange(rows * width, dtype=numpy.float32).reshape(rows, width) + value
        leases = await self.arena.acquire([(self.host.segment, given.nbytes), (self.host.segment, given.nbytes)], WAIT_S)
        try:
            leases[0].view()[: given.nbytes] = given.tobytes()
            tensor = Tensor("x", DataType.FP32, given.shape, leases[0], 0, given.nbytes)
            response = await batcher.submit(InferRequest("m", (tensor,), room=leases[1]), rows, str(width), None)
            got = numpy.frombuffer(bytes(response.outputs[0].view()), numpy.float32)
            response.release()
            return bool((got == given.ravel() + 1).all())
        finally:
            for lease in leases:
                lease.release()

    async def ask_many(self, batcher: DynamicBatcher, number: int) -> bool:
        """Many at once, of all sizes."""
        return all(await asyncio.gather(*[self.ask(batcher, 100.0 * turn, 1 + turn % 8) for turn in range(number)]))


@contextlib.asynccontextmanager
async def running(gpu: GpuInterpreter, plan: str) -> AsyncIterator[Rig]:
    """A started one; nothing is left of it afterwards."""
    rig = Rig(gpu, plan)
    await rig.host.start()
    try:
        yield rig
    finally:
        await rig.host.stop()


@pytest.mark.parametrize("integrated", [0, 1])
async def test_a_host_serves_many_requests_with_two_instances(each_gpu: Callable[..., GpuInterpreter], plan, integrated):
    async with running(each_gpu(asynchronous=1, integrated=integrated), plan) as rig:
        batcher = rig.batcher(await rig.load(instances=2))
        assert await rig.ask_many(batcher, 300)
        for turn in range(300):  # sizes by turns leave no graph, one size that comes again and again does
            assert await rig.ask(batcher, float(turn), 2)
        assert rig.gpu.driver["graph_launches"] > 0
        assert rig.gpu.driver["spinning_waits"] == 0
        assert rig.gpu.driver["contexts_made"] == 0
        assert rig.gpu.driver["pageable_async"] == 0


async def test_the_hosts_facts_are_the_devices(gpu, plan):
    async with running(gpu(memory_limit=4 << 30, multiprocessors=16), plan) as rig:
        facts = await rig.host.facts(WAIT_S)
        assert facts.usable
        assert (facts.device, facts.multiprocessors, facts.memory_bytes) == ("Test device", 16, 4 << 30)


@pytest.mark.parametrize(("code", "word"), [(100, "engine.no_device"), (3, "engine.no_driver"), (803, "engine.no_driver")])
async def test_a_driver_that_does_not_start_is_told_and_ends_nothing(gpu, plan, code, word):
    async with running(gpu(init_code=code), plan) as rig:
        facts = await rig.host.facts(WAIT_S)
        assert (facts.usable, facts.code) == (False, word)
        assert str(code) in facts.text
        with pytest.raises(errors.EngineLoadError):
            await rig.load()
        assert rig.host.up


@pytest.mark.parametrize("function", ["cuEventSynchronize", "cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuGraphLaunch"])
async def test_a_cuda_error_ends_the_host_and_its_successor_answers(gpu, plan, function):
    async with running(gpu(asynchronous=1, integrated=0), plan) as rig:
        batcher = rig.batcher(await rig.load())
        assert await rig.ask_many(batcher, 20)
        pid = rig.host.supervisor.pid
        rig.gpu.driver.fail(function, 700)
        for turn in range(20):  # one of a few, since graphs are launched for what comes again
            with contextlib.suppress(errors.HostDied):  # or it is run again
                assert await rig.ask(batcher, float(turn), 2)
            if rig.reasons:
                break
        await until(lambda: rig.host.up, WAIT_S)
        assert rig.host.supervisor.pid != pid
        assert await rig.ask_many(batcher, 20)
        (reason,) = rig.reasons
        assert "the GPU engine is broken" in reason
        assert EXIT_ENGINE_BROKEN in reason


async def test_want_of_memory_is_answered_and_the_host_lives(gpu, plan):
    async with running(gpu(asynchronous=1, integrated=0, memory_limit=1 << 20), plan) as rig:
        batcher = rig.batcher(await rig.load())
        pid = rig.host.supervisor.pid
        assert await rig.ask(batcher, 1.0, 8)
        for _ in range(3):
            with pytest.raises(errors.ExecutionError, match="no GPU memory"):
                await rig.ask(batcher, 1.0, 8, 65536)
            assert await rig.ask(batcher, 5.0, 8)
        assert rig.host.supervisor.pid == pid
        assert rig.reasons == []


async def test_an_allocation_that_fails_once_by_itself_is_made_good_by_pycuda(gpu, plan):
    async with running(gpu(integrated=0), plan) as rig:
        batcher = rig.batcher(await rig.load())
        rig.gpu.driver.fail("cuMemAlloc_v2", 2)
        assert await rig.ask(batcher, 1.0, 8, 4000)


async def test_models_that_come_and_go_leave_nothing_in_the_host(gpu, plan):
    async with running(gpu(asynchronous=1, integrated=0), plan) as rig:
        stays = rig.batcher(await rig.load())
        assert await rig.ask_many(stays, 8)
        held = rig.gpu.driver.live()
        for _ in range(25):
            model = await rig.load(instances=2)
            assert await rig.ask_many(rig.batcher(model), 8)
            rig.host.drop(model)
        await until(lambda: rig.gpu.driver.live() == held, WAIT_S)
        assert await rig.ask_many(stays, 8)
