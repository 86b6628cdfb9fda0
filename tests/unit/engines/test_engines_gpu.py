"""A real engine host on the fake TensorRT: what only a process can show."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, AsyncIterator

import numpy
import pytest

from edge_agent import errors
from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.batching.policy import BatchPolicy
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.engine_host.trt.failures import EXIT_ENGINE_BROKEN
from edge_agent.engines.host import EngineHost
from edge_agent.engines.hosted import HostedModel, HostOptions
from edge_agent.engines.load import LoadOrder
from edge_agent.processes.arena import Arena
from tests.doubles.engine_host import until
from tests.fake_gpu import gpu_python, make_plan, set_faults
from tests.jetson_memory import machine
from tests.serving_rig import MODELS

ROWS = {"x": ((1, 4), (4, 4), (8, 4))}
WAIT_S = 20.0
OPTIONS = ("memory_max_bytes", "memory_look_s", "memory_root")


class Rig:
    """A GPU host with an interpreter of its own, and plans in a folder."""

    def __init__(self, folder: Any, **choices: Any) -> None:
        self.folder = folder
        self.version = choices.setdefault("version", "10.3.0")
        self.faults = folder / "faults.json"
        self.arena = Arena(16 << 20)
        self.reasons = []
        given = {name: choices.pop(name) for name in list(choices) if name in OPTIONS}
        python = gpu_python(folder, faults=self.faults, **choices)
        options = HostOptions("gpu", python=python, batch_timeout_s=5.0, load_timeout_s=30.0, **given)
        self.host = EngineHost(options, self.arena, Clock(), self._on_event)

    def _on_event(self, kind: str, name: str, text: str) -> None:
        if kind == "engine_host.down":
            self.reasons.append(text)

    def set_faults(self, **faults: Any) -> None:
        set_faults(self.faults, **faults)

    def order(self, source: str = "add_one", profile: Any = ROWS, **fields: Any) -> LoadOrder:
        plan = make_plan(MODELS / (source + ".onnx"), self.folder / "m.plan", self.version, profiles=[profile])
        given = {"threads": 1, "max_batch_size": 8, "instances": 1, **fields}
        return LoadOrder("m", "1", "tensorrt_plan", str(plan), str(self.folder), **given)

    def batcher(self, model: HostedModel) -> DynamicBatcher:
        batcher = DynamicBatcher("m", "1", BatchPolicy(8), Clock())
        batcher.use(model.instances)
        for instance in model.instances:
            instance.on_up = batcher.room
        return batcher

    async def ask(self, batcher: DynamicBatcher, value: float, shape: Any = (1, 4)) -> float:
        """add_one's answer for `value`."""
        size = int(numpy.prod(shape)) * 4
        leases = await self.arena.acquire([(self.host.segment, size), (self.host.segment, size)], WAIT_S)
        try:
            leases[0].view()[:size] = numpy.full(shape, value, numpy.float32).tobytes()
            tensor = Tensor("x", DataType.FP32, shape, leases[0], 0, size)
            response = await batcher.submit(InferRequest("m", (tensor,), room=leases[1]), shape[0], "k", None)
            got = numpy.frombuffer(bytes(response.outputs[0].view()), numpy.float32)
            response.release()
            assert (got == got[0]).all()
            return float(got[0])
        finally:
            for lease in leases:
                lease.release()


@pytest.fixture
async def rig(tmp_path: Any) -> AsyncIterator[Any]:
    """Makes a started Rig."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(**choices: Any) -> Rig:
            made = Rig(tmp_path, **choices)
            await made.host.start()
            stack.push_async_callback(made.host.stop)
            return made

        yield make


@pytest.mark.parametrize("version", ["8.2", "10.3.0", "11.4.0"])
async def test_a_host_tells_its_gpu_and_serves_a_plan(rig, version):
    one = await rig(version=version)
    facts = await one.host.facts(WAIT_S)
    assert facts.usable
    assert (facts.tensorrt, facts.device, facts.compute_capability) == (version, "Orin", (8, 7))
    model = await one.host.load(one.order(instances=2))
    assert model.report.max_batch_size == 8
    batcher = one.batcher(model)
    answers = await asyncio.gather(*[one.ask(batcher, value, (1 + value % 8, 4)) for value in range(60)])
    assert answers == [value + 1 for value in range(60)]


async def test_a_machine_without_a_gpu_says_what_was_tried(rig):
    one = await rig(driver=False)
    facts = await one.host.facts(WAIT_S)
    assert (facts.usable, facts.code) == (False, "engine.no_driver")
    assert "libcuda.so.1" in facts.text
    with pytest.raises(errors.EngineLoadError, match="libcuda") as caught:
        await one.host.load(one.order())
    assert caught.value.args_by_name["code"] == "engine.no_driver"
    assert one.host.up


async def test_a_plan_of_another_version_is_told_from_want_of_memory(rig):
    one = await rig()
    order = one.order()
    make_plan(MODELS / "add_one.onnx", order.path, "8.5", profiles=[ROWS])
    with pytest.raises(errors.EngineLoadError, match="Version tag does not match") as caught:
        await one.host.load(order)
    assert caught.value.args_by_name["code"] == "plan.foreign"
    one.set_faults(deserialize="oom")
    with pytest.raises(errors.EngineLoadError, match="no memory") as caught:
        await one.host.load(order)
    assert caught.value.args_by_name["code"] == "engine.out_of_memory"


@pytest.mark.parametrize("fault", ["false", "error"])
@pytest.mark.parametrize("version", ["8.2", "10.3.0"])
async def test_an_engine_that_broke_ends_its_host_with_the_reason_and_the_next_one_answers(rig, version, fault):
    one = await rig(version=version)
    batcher = one.batcher(await one.host.load(one.order()))
    assert await one.ask(batcher, 1.0) == 2.0
    one.set_faults(enqueue=fault)
    asked = asyncio.ensure_future(one.ask(batcher, 5.0))
    await until(lambda: one.reasons, WAIT_S)
    one.set_faults()
    with contextlib.suppress(errors.HostDied):
        assert await asked == 6.0
    await until(lambda: one.host.up, WAIT_S)
    assert await one.ask(batcher, 7.0) == 8.0
    assert "the GPU engine is broken" in one.reasons[0]
    assert str(EXIT_ENGINE_BROKEN) in one.reasons[0]


async def test_a_bad_request_and_want_of_memory_end_nothing(rig):
    one = await rig(integrated=False)
    any_width = {"x": ((1, 1), (1, 4), (8, 4096))}
    batcher = one.batcher(await one.host.load(one.order("add_one_any", any_width, warmup_sizes=(1,), max_batch_size=4)))
    pid = one.host.supervisor.pid
    with pytest.raises(errors.ExecutionError, match=r"the plan takes \[1, 1\] to \[8, 4096\]"):
        await one.ask(batcher, 1.0, (1, 4097))
    one.set_faults(alloc_above=1)
    with pytest.raises(errors.ExecutionError, match="no GPU memory") as caught:
        await one.ask(batcher, 1.0, (4, 2048))
    assert caught.value.args_by_name["refusal"] == "engine.out_of_memory"
    one.set_faults()
    assert await one.ask(batcher, 1.0, (4, 2048)) == 2.0
    assert one.host.supervisor.pid == pid


async def test_an_engine_that_hangs_is_ended_by_the_batches_time(rig):
    one = await rig()
    batcher = one.batcher(await one.host.load(one.order()))
    one.set_faults(enqueue="hang")
    asked = asyncio.ensure_future(one.ask(batcher, 5.0))
    await until(lambda: one.reasons, 40)
    one.set_faults()
    with contextlib.suppress(errors.HostDied):
        assert await asked == 6.0
    await until(lambda: one.host.up, WAIT_S)
    assert await one.ask(batcher, 7.0) == 8.0


async def test_a_host_that_crashes_while_it_loads_a_plan_is_tried_thrice(rig):
    one = await rig()
    one.set_faults(deserialize="crash")
    with pytest.raises(errors.EngineLoadError, match="ended its engine host 3 times"):
        await one.host.load(one.order())
    one.set_faults()
    batcher = one.batcher(await one.host.load(one.order()))
    assert await one.ask(batcher, 1.0) == 2.0


async def test_a_host_whose_gpu_takes_the_machine_s_memory_is_started_anew_before_the_kernel_ends_something(rig, tmp_path):
    """What a GPU takes of shared memory is in no process's size."""
    root = tmp_path / "root"
    root.mkdir()
    machine(root, available=1500)
    one = await rig(memory_max_bytes=4 << 30, memory_look_s=0.05, memory_root=root)
    await one.host.facts(WAIT_S)
    batcher = one.batcher(await one.host.load(one.order()))
    first = one.host.supervisor.pid
    assert await one.ask(batcher, 1.0) == 2.0
    machine(root, available=100)
    await until(lambda: one.reasons, WAIT_S)
    assert "the machine has 100 MB left" in one.reasons[0]
    assert one.host.end_code == "engine_host.memory"
    machine(root, available=1500)
    await until(lambda: one.host.up and one.host.supervisor.pid != first, WAIT_S)
    assert await one.ask(batcher, 2.0) == 3.0
    machine(root, available=100)
    await until(lambda: one.host.status()["code"] == "engine_host.memory", WAIT_S)
    assert len(one.reasons) == 1, "not twice within a few minutes"
