from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from pathlib import Path

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
from tests.doubles.engine_host import Owner, StandIn, until
from tests.serving_rig import MODELS

SLEEPS = "import time\nclass Decoder:\n    def __init__(self, config):\n        pass\n    def decode(self, outputs):\n"
ENDS = "import os\nos._exit(9)\n"


def threads(pid):
    """Names of a process's threads; an instance's is its model."""
    return [path.read_text().strip() for path in Path("/proc/%d/task" % pid).glob("*/comm")]


class Rig:
    """An engine host, and orders for models in a folder."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.arena = Arena(16 << 20)
        self.events = []
        options = HostOptions("test", **{"batch_timeout_s": 2.0, "load_timeout_s": 10.0, **options})
        on_event = lambda kind, name, text: self.events.append((kind, text))  # noqa: E731
        self.host = EngineHost(options, self.arena, Clock(), on_event)
        self.changes = []
        self.host.on_change = self.changes.append

    def order(self, name="add", file="add_one.onnx", decoder="", **fields):
        path = self.folder / (name + ".onnx")
        if not path.exists():
            path.write_bytes((MODELS / file).read_bytes())
        decode = None
        if decoder:
            (self.folder / (name + "_decoder.py")).write_text(decoder)
            decode = {"kind": "python:%s_decoder:Decoder" % name}
        order = {"max_batch_size": 8, "threads": 1, "decode": decode, "instances": 1, **fields}
        return LoadOrder(name, "1", "onnxruntime_onnx", str(path), str(self.folder), **order)

    def batcher(self, model, **options):
        batcher = DynamicBatcher(model.order.model, "1", BatchPolicy(8), Clock(), **options)
        batcher.use(model.instances)
        for instance in model.instances:
            instance.on_up = batcher.room
        return batcher

    async def ask(self, batcher, value=1.0, lease=None):
        """add_one's answer for `value`."""
        leases = await self.arena.acquire([(self.host.segment, 16), (self.host.segment, 64)], 1.0)
        source = lease or leases[0]
        source.view()[:16] = numpy.full(4, value, numpy.float32).tobytes()
        try:
            tensor = Tensor("x", DataType.FP32, (1, 4), source, 0, 16)
            response = await batcher.submit(InferRequest("m", (tensor,), room=leases[1]), 1, "k", None)
            got = numpy.frombuffer(bytes(response.outputs[0].view()), numpy.float32)
            response.release()
            return float(got[0])
        finally:
            for one in leases:
                one.release()

    async def kill(self):
        """The host is killed; waits for its end to be told."""
        ends = self.ends
        os.kill(self.host.supervisor.pid, signal.SIGKILL)
        await until(lambda: self.ends > ends)

    async def back(self):
        await until(lambda: self.host.up, 20)

    @property
    def ends(self):
        return sum(kind == "engine_host.down" for kind, _ in self.events)


@contextlib.asynccontextmanager
async def running(folder, **options):
    rig = Rig(folder, **options)
    await rig.host.start()
    try:
        yield rig
    finally:
        await rig.host.stop()
        assert rig.arena.status()["slots"] == 0
        rig.arena.close()
        gc.collect()  # a socket that was not closed fails the test


# -- loading ----------------------------------------------------------------------------------------------------------


async def test_models_share_a_process_and_all_of_them_come_back_with_it(tmp_path):
    async with running(tmp_path) as rig:
        models = [await rig.host.load(rig.order(name)) for name in ("one", "two")]
        batchers = [rig.batcher(model) for model in models]
        assert rig.host.status()["models"] == ["one/1", "two/1"]
        await rig.kill()
        assert not any(model.ready for model in models)
        assert rig.host.status()["state"] == "failed"
        await rig.back()
        assert all(model.ready for model in models)
        assert [await rig.ask(batcher) for batcher in batchers] == [2.0, 2.0]
        assert [kind for kind, _ in rig.events] == ["engine_host.up", "engine_host.down", "engine_host.up"]
        assert set(rig.changes) == set(models)


async def test_a_model_that_ends_its_host_while_it_loads_is_given_up_and_those_behind_it_are_not_blamed(tmp_path):
    async with running(tmp_path) as rig:
        bad = asyncio.ensure_future(rig.host.load(rig.order("bad", "mean_colour.onnx", ENDS)))
        good = [asyncio.ensure_future(rig.host.load(rig.order(name))) for name in ("good", "better", "best")]
        with pytest.raises(errors.EngineLoadError, match="bad/1 ended its engine host 3 times within a minute"):
            await asyncio.wait_for(bad, 30)
        for model in await asyncio.wait_for(asyncio.gather(*good), 30):
            assert model.error is None
            assert len(model.deaths) == 0
        assert rig.ends == 3


async def test_requests_that_a_neighbours_loading_kills_are_answered_when_that_is_over(tmp_path):
    ends = "import os, time\ntime.sleep(0.2)\nos._exit(9)\n"
    async with running(tmp_path) as rig:
        model = await rig.host.load(rig.order())
        deaths = []
        batcher = rig.batcher(model, on_lone_death=lambda: deaths.append(1))
        loading = asyncio.ensure_future(rig.host.load(rig.order("bad", "mean_colour.onnx", ends)))
        asked = []
        while not loading.done():
            asked.append(asyncio.ensure_future(rig.ask(batcher)))
            await asyncio.sleep(0.001)
        assert isinstance(loading.exception(), errors.EngineLoadError)
        assert {await task for task in asked} == {2.0}
        assert deaths == []


async def test_a_second_copy_that_does_not_load_leaves_nothing_of_the_first(tmp_path):
    """As on a board whose memory holds one copy and not two."""
    once = "import os\nif os.path.exists(%r):\n    raise ValueError('no memory')\nopen(%r, 'w').close()\n" % (
        (str(tmp_path / "mark"),) * 2
    )
    once += SLEEPS + "        return [[] for _ in outputs['scores']]\n"
    async with running(tmp_path) as rig:
        with pytest.raises(errors.EngineLoadError, match="no memory"):
            await rig.host.load(rig.order("twice", "mean_colour.onnx", once, instances=2))
        assert rig.host.models == {}
        pid = rig.host.supervisor.pid
        await until(lambda: "twice/1" not in threads(pid))
        await rig.host.load(rig.order("other"))
        assert rig.host.supervisor.pid == pid


async def test_a_host_that_dies_between_two_copies_loads_both_again(tmp_path):
    mark = str(tmp_path / "mark")
    second = "import os\nif os.path.exists(%r) and not os.path.exists(%r):\n    open(%r, 'w').close()\n    os._exit(9)\n" % (
        mark,
        mark + "2",
        mark + "2",
    )
    second += "open(%r, 'w').close()\n" % mark + SLEEPS + "        return [[] for _ in outputs['scores']]\n"
    async with running(tmp_path) as rig:
        model = await asyncio.wait_for(rig.host.load(rig.order("twice", "mean_colour.onnx", second, instances=2)), 20)
        assert model.ready
        assert len(model.deaths) == 1
        assert rig.ends == 1


async def test_a_load_that_takes_too_long_is_a_failure_and_the_next_model_loads(tmp_path):
    async with running(tmp_path, load_timeout_s=1.0) as rig:
        model = await rig.host.load(rig.order())
        with pytest.raises(errors.EngineLoadError, match="loading slow/1 took more than 1 s"):
            await rig.host.load(rig.order("slow", "mean_colour.onnx", "import time\ntime.sleep(100)\n"))
        await rig.back()
        assert model.ready
        assert (await rig.host.load(rig.order("next"))).ready
        assert len(model.deaths) == 0


async def test_a_file_that_was_replaced_by_another_model_stops_the_model_at_its_reload_and_no_other(tmp_path):
    async with running(tmp_path) as rig:
        changed, same = [await rig.host.load(rig.order(name)) for name in ("changed", "same")]
        batcher = rig.batcher(same)
        (tmp_path / "changed.onnx").write_bytes((MODELS / "sum_and_difference.onnx").read_bytes())
        await rig.kill()
        await rig.back()
        assert "other inputs or outputs" in str(changed.error)
        assert not changed.ready
        assert await rig.ask(batcher) == 2.0


async def test_a_model_that_ends_its_host_when_it_is_loaded_again_is_stopped_and_its_neighbour_serves(tmp_path):
    async with running(tmp_path) as rig:
        mark = tmp_path / "mark"
        text = "import os\nif os.path.exists(%r):\n    os._exit(9)\n" % str(mark)
        text += SLEEPS + "        return [[] for _ in outputs['scores']]\n"
        bad, good = await rig.host.load(rig.order("bad", "mean_colour.onnx", text)), await rig.host.load(rig.order("good"))
        mark.touch()
        await rig.kill()
        await until(lambda: bad.error is not None, 20)
        await rig.back()
        assert good.ready
        assert len(good.deaths) == 0
        assert await rig.ask(rig.batcher(good)) == 2.0


async def test_a_model_that_is_dropped_is_not_loaded_again(tmp_path):
    async with running(tmp_path) as rig:
        model, other = await rig.host.load(rig.order()), await rig.host.load(rig.order("other"))
        rig.host.drop(model)
        assert not model.ready
        await rig.kill()
        await rig.back()
        assert (model.ready, other.ready) == (False, True)
        assert rig.host.status()["models"] == ["other/1"]


# -- ends -------------------------------------------------------------------------------------------------------------


async def test_it_stops_twice_before_its_start_and_while_it_loads(tmp_path):
    rig = Rig(tmp_path)
    await rig.host.stop()
    for moment_s in (0.0, 0.05, 0.3):
        rig = Rig(tmp_path)
        await rig.host.start()
        loading = asyncio.ensure_future(rig.host.load(rig.order("slow", "mean_colour.onnx", "import time\ntime.sleep(1)\n")))
        await asyncio.sleep(moment_s)
        await rig.host.stop()
        await rig.host.stop()
        with pytest.raises(errors.ChildGone):
            await loading
        assert rig.host.status()["pid"] is None
        gc.collect()


async def test_a_load_whose_caller_leaves_leaves_nothing_behind(tmp_path):
    async with running(tmp_path) as rig:
        await rig.back()
        order = rig.order("slow", "mean_colour.onnx", "import time\ntime.sleep(0.5)\n" + SLEEPS + "        return [[]]\n")
        loading = asyncio.ensure_future(rig.host.load(order))
        await asyncio.sleep(0.1)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        del loading
        gc.collect()
        model = await rig.host.load(rig.order())
        assert await rig.ask(rig.batcher(model)) == 2.0


async def test_all_copies_of_a_model_are_down_before_any_request_of_theirs_is_tried_again(tmp_path):
    """With two copies in one process a request that comes back must not be handed to the other's dead channel."""
    stand_in, deaths = StandIn(), []
    rig = Rig(tmp_path)
    other = stand_in.another(2)
    ends = [stand_in.host, stand_in.connect(other)]
    other.open()
    rig.host.models["m/1"] = model = HostedModel(rig.order("m"), [stand_in.instance, other])
    batcher = rig.batcher(model, on_lone_death=lambda: deaths.append(1))
    items = [stand_in.item(), stand_in.item()]
    asked = [asyncio.ensure_future(batcher.submit(item.request, 1, "k", None)) for item in items]
    await asyncio.sleep(0)
    stand_in.traffic.reset()
    rig.host._on_child_down("killed", True)
    await asyncio.sleep(0.01)
    assert deaths == []
    assert not any(task.done() for task in asked)
    assert batcher.pending == 2
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    stand_in.release(*items)
    assert stand_in.slots == 0
    for end in ends:
        end.close()
    await rig.host.stop()


async def test_two_copies_share_the_requests_and_a_killed_host_fails_none(tmp_path):
    async with running(tmp_path) as rig:
        model = await rig.host.load(rig.order(instances=2))
        await until(lambda: threads(rig.host.supervisor.pid).count("add/1") == 2)
        deaths = []
        batcher = rig.batcher(model, on_lone_death=lambda: deaths.append(1))
        for _ in range(3):
            asked = [asyncio.ensure_future(rig.ask(batcher, n)) for n in range(40)]
            await asyncio.sleep(0.002)
            await rig.kill()
            assert await asyncio.wait_for(asyncio.gather(*asked), 20) == [n + 1.0 for n in range(40)]
            await rig.back()
        assert deaths == []


# -- segments ---------------------------------------------------------------------------------------------------------


async def test_a_shared_segment_is_given_to_each_new_process(tmp_path):
    async with running(tmp_path) as rig:
        batcher = rig.batcher(await rig.host.load(rig.order()))
        camera = rig.arena.segment("camera:door")
        (lease,) = rig.arena.try_acquire([(camera, 16)])
        await asyncio.gather(*(rig.host.share(camera) for _ in range(3)))
        assert await rig.ask(batcher, 5.0, lease) == 6.0
        await rig.kill()
        await rig.back()
        assert await rig.ask(batcher, 7.0, lease) == 8.0
        lease.release()


async def test_a_segment_that_was_closed_does_not_keep_the_host_down(tmp_path):
    async with running(tmp_path) as rig:
        batcher = rig.batcher(await rig.host.load(rig.order()))
        gone = rig.arena.segment("camera:door")
        await rig.host.share(gone)
        rig.arena.retire(gone)
        await rig.kill()
        await rig.back()
        assert await rig.ask(batcher) == 2.0


async def test_a_host_that_is_down_takes_no_pictures_and_says_so(tmp_path):
    async with running(tmp_path) as rig:
        await rig.back()
        segment = rig.arena.segment("camera:door")
        await rig.host.stop()
        with pytest.raises(errors.ModelNotReady, match="engine host test takes no pictures now"):
            await rig.host.share(segment)
        rig.arena.retire(segment)


async def test_memory_of_a_process_that_cannot_be_ended_is_not_used_again_and_comes_back_with_its_late_end(tmp_path):
    stand_in, owner = StandIn(), Owner()
    rig = Rig(tmp_path)
    host, arena = rig.host, rig.arena
    stand_in.instance.close()
    stand_in.host.close()
    stand_in.arena.close()
    stand_in.arena = arena
    stand_in.segment = host.segment
    instance = stand_in.another(2)
    theirs = stand_in.connect(instance)
    instance.open()
    host.models["m/1"] = HostedModel(rig.order("m"), [instance])
    camera = arena.segment("camera:door")
    (picture,) = arena.try_acquire([(camera, 16)])
    item = stand_in.item()
    tensor = Tensor("x", DataType.FP32, (1, 4), picture, 0, 16)
    request = InferRequest("m", (tensor,), room=item.request.room)
    stand_in.owner = owner
    stand_in.instance = instance
    stand_in.send(type(item)(request))
    before = host.segment
    host._on_child_down("killed, but it does not go", False)
    assert len(owner.lost_batches) == 1
    assert host.segment is not before
    stand_in.release(item)
    picture.release()
    assert arena.status()["abandoned_bytes"] > 0
    assert camera.leases == 0  # the camera's memory was only read, so it is free again
    host._segments.reaped(0)
    assert arena.status()["abandoned_bytes"] == 0
    assert before.closed
    theirs.close()
    await host.stop()
    arena.close()
