"""The bound of an engine host's memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from pathlib import Path
from typing import Any, AsyncIterator, Dict, List, Tuple

import numpy
import pytest

from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.batching.policy import BatchPolicy
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Tensor, TensorSpec
from edge_agent.engines.host import EngineHost
from edge_agent.engines.hosted import HostedModel, HostOptions
from edge_agent.engines.load import LoadOrder
from edge_agent.engines.memory import Judge, Verdict, process_bytes
from edge_agent.engines.traffic import Traffic
from edge_agent.processes.arena import Arena
from tests.doubles.engine_host import until

MB = 1 << 20
BOTH = frozenset(["a/1#1", "b/1#2"])

#: keeps as many megabytes as the input says, for ever; waits while the gate is there; adds one
LEAKS = """
import os, time
import triton_python_backend_utils as pb_utils

KEPT = [b"x" * (%(first)d << 20)]

class TritonPythonModel:
    def initialize(self, args):
        pass

    def execute(self, requests):
        while os.path.exists(%(gate)r):
            time.sleep(0.005)
        return [self.one(pb_utils.get_input_tensor_by_name(request, "x").as_numpy()) for request in requests]

    def one(self, x):
        KEPT.append(b"x" * (int(x[0, 0]) << 20))
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", x + 1)])

    def finalize(self):
        with open(%(ended)r, "a") as file:
            file.write("%%d\\n" %% os.getpid())
"""


class Rig:
    """A host with a bound, and a model that leaks."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.gate = folder / "gate"
        self.ended = folder / "ended"
        self.arena = Arena(16 << 20)
        self.events: List[Tuple[str, str]] = []
        defaults = {"batch_timeout_s": 20.0, "load_timeout_s": 20.0, "memory_look_s": 0.05, "memory_max_bytes": 120 * MB}
        on_event = lambda kind, name, text: self.events.append((kind, text))  # noqa: E731
        self.host = EngineHost(HostOptions("test", **{**defaults, **options}), self.arena, Clock(), on_event)

    async def load(self, name: str = "leaks", first: int = 0) -> DynamicBatcher:
        path = self.folder / name / "1" / "model.py"
        path.parent.mkdir(parents=True)
        path.write_text(LEAKS % {"first": first, "gate": str(self.gate), "ended": str(self.ended)})
        specs: Dict[str, Any] = {
            "inputs": (TensorSpec("x", DataType.FP32, (-1, 4)),),
            "outputs": (TensorSpec("y", DataType.FP32, (-1, 4)),),
        }
        model = await self.host.load(LoadOrder(name, "1", "python", str(path), str(self.folder / name), 1, 8, **specs))
        return self.batcher(model)

    def batcher(self, model: HostedModel) -> DynamicBatcher:
        batcher = DynamicBatcher(model.order.model, "1", BatchPolicy(8), Clock())
        batcher.use(model.instances)
        for instance in model.instances:
            instance.on_up = batcher.room
        return batcher

    async def ask(self, batcher: DynamicBatcher, megabytes: int) -> float:
        """What the model makes of it: one more."""
        leases = await self.arena.acquire([(self.host.segment, 16), (self.host.segment, 64)], 5.0)
        leases[0].view()[:16] = numpy.full(4, megabytes, numpy.float32).tobytes()
        try:
            tensor = Tensor("x", DataType.FP32, (1, 4), leases[0], 0, 16)
            response = await batcher.submit(InferRequest("m", (tensor,), room=leases[1]), 1, "k", None)
            got = numpy.frombuffer(bytes(response.outputs[0].view()), numpy.float32)
            response.release()
            return float(got[0])
        finally:
            for lease in leases:
                lease.release()

    def told(self, kind: str) -> List[str]:
        return [text for one, text in self.events if one == kind]


@contextlib.asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[Rig]:
    rig = Rig(folder, **options)
    await rig.host.start()
    try:
        yield rig
    finally:
        await rig.host.stop()
        assert rig.arena.status()["slots"] == 0
        rig.arena.close()
        gc.collect()


# -- reading ------------------------------------------------------------------------------------------------------------


def test_the_memory_of_a_process_is_what_it_holds_alone() -> None:
    before = process_bytes(os.getpid())
    kept = b"x" * (64 * MB)
    after = process_bytes(os.getpid())
    assert before is not None
    assert after is not None
    assert 48 * MB < after - before < 80 * MB
    assert kept


def test_shared_memory_does_not_count() -> None:
    before = process_bytes(os.getpid())
    arena = Arena(64 * MB)
    (lease,) = arena.try_acquire([(arena.segment("host:test"), 48 * MB)]) or ()
    lease.view()[: 48 * MB] = b"x" * (48 * MB)
    gc.collect()
    after = process_bytes(os.getpid())
    lease.release()
    arena.close()
    assert before is not None
    assert after is not None
    assert after - before < 24 * MB


ROLLUP = "5500-7fff ---p 00000000 00:00 0  [rollup]\nRss: 900 kB\nPss: 700 kB\nPss_Shmem: 100 kB\nSwapPss: 50 kB\n"
STATUS = "Name:\tpython\nVmRSS:\t     900 kB\nRssShmem:\t 200 kB\nVmSwap:\t 30 kB\nThreads:\t1\n"


@pytest.mark.parametrize(
    ("files", "kib"),
    [
        ({"smaps_rollup": ROLLUP, "status": STATUS}, 650),
        ({"smaps_rollup": "Rss: 900 kB\nPss: 700 kB\n"}, 700),
        ({"status": STATUS}, 730),
        ({"status": "VmRSS: 900 kB\n"}, 900),
        ({"status": "Name: zombie\n"}, None),
        ({"smaps_rollup": "", "status": ""}, None),
        ({}, None),
    ],
)
def test_old_kernels_tell_less(tmp_path: Path, files: Dict[str, str], kib: Any) -> None:
    (tmp_path / "7").mkdir()
    for name, text in files.items():
        (tmp_path / "7" / name).write_text(text)
    assert process_bytes(7, tmp_path) == (None if kib is None else kib * 1024)


# -- judging ------------------------------------------------------------------------------------------------------------


def test_under_the_bound_all_is_fine() -> None:
    assert Judge(100 * MB, 300).look(100 * MB, BOTH, 0.0) is Verdict.FINE


def test_over_the_bound_it_is_ended_but_not_again_for_a_while() -> None:
    judge = Judge(100 * MB, 300)
    looks = [judge.look(150 * MB, BOTH, now) for now in (0.0, 5.0, 299.0, 300.0, 305.0)]
    assert looks == [Verdict.END, Verdict.LEAVE, Verdict.LEAVE, Verdict.END, Verdict.LEAVE]
    assert "need more than memory_max_bytes: 150 MB of 100 MB 5 s after" in judge.text


def test_what_is_over_the_bound_right_after_loading_is_left_running_for_good() -> None:
    judge = Judge(100 * MB, 300)
    assert judge.look(150 * MB, BOTH, 0.0) is Verdict.END
    judge.loaded(120 * MB, BOTH)
    assert judge.look(150 * MB, BOTH, 10_000.0) is Verdict.LEAVE
    assert "right after loading" in judge.text


def test_other_models_are_another_matter() -> None:
    judge = Judge(100 * MB, 300)
    judge.loaded(120 * MB, BOTH)
    assert judge.look(150 * MB, frozenset(["a/1#1"]), 1000.0) is Verdict.END


def test_what_fits_after_loading_may_be_ended_again() -> None:
    judge = Judge(100 * MB, 300)
    judge.loaded(120 * MB, BOTH)
    judge.loaded(50 * MB, BOTH)
    assert judge.look(150 * MB, BOTH, 0.0) is Verdict.END


def test_a_machine_with_little_left_counts_as_over_the_bound() -> None:
    judge = Judge(100 * MB, 300)
    assert judge.look(50 * MB, BOTH, 0.0, "the machine has 9 MB left") is Verdict.END
    assert judge.text == "the machine has 9 MB left"
    assert judge.look(50 * MB, BOTH, 299.0, "the machine has 9 MB left") is Verdict.LEAVE
    assert "the machine has 9 MB left 299 s after it was started anew" in judge.text
    assert judge.look(50 * MB, BOTH, 299.5) is Verdict.FINE
    judge.loaded(50 * MB, BOTH, "the machine has 8 MB left")
    assert judge.look(50 * MB, BOTH, 999.0, "the machine has 7 MB left") is Verdict.LEAVE
    assert "right after loading" in judge.text


# -- no new batches -----------------------------------------------------------------------------------------------------


def test_a_closed_host_takes_nothing_and_tells_when_it_is_empty() -> None:
    traffic, told = Traffic(), []
    traffic.began(alone=False)
    traffic.began(alone=False)
    traffic.close(lambda: told.append("empty"))
    assert not traffic.open
    assert not traffic.may_run_alone(lambda: told.append("alone"))
    traffic.ended()
    assert told == []
    traffic.ended()
    assert told == ["empty"]
    assert not traffic.open
    traffic.reset()
    assert traffic.open


def test_an_empty_host_is_empty_at_once() -> None:
    traffic, told = Traffic(), []
    traffic.close(lambda: told.append("empty"))
    assert told == ["empty"]


def test_a_host_that_ends_by_itself_meanwhile_is_empty_too() -> None:
    traffic, told = Traffic(), []
    traffic.began(alone=False)
    traffic.close(lambda: told.append("empty"))
    traffic.reset()
    assert told == ["empty"]
    assert traffic.open


def test_a_model_that_waits_for_another_one_gets_its_answer_although_the_host_is_closed() -> None:
    traffic, told = Traffic(), []
    traffic.began(alone=False)
    traffic.calls(1, True)
    traffic.close(lambda: told.append("empty"))
    assert traffic.open
    traffic.began(alone=False)
    traffic.ended()
    traffic.calls(1, False)
    assert not traffic.open
    traffic.ended()
    assert told == ["empty"]


# -- a real host --------------------------------------------------------------------------------------------------------


async def test_a_host_over_its_bound_is_started_anew_and_no_request_fails_by_it(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        batcher = await rig.load()
        first = rig.host.supervisor.pid
        for _ in range(40):
            assert await rig.ask(batcher, 10) == 11.0
            if rig.host.supervisor.pid != first and rig.host.up:
                break
        await until(lambda: rig.host.supervisor.pid not in (None, first) and rig.host.up, 20)
        assert await rig.ask(batcher, 0) == 1.0
        (text,) = rig.told("engine_host.down")
        assert "of 120 MB" in text
        assert rig.host.end_code == "engine_host.memory"
        assert [kind for kind, _ in rig.events][:3] == ["engine_host.up", "engine_host.down", "engine_host.up"]


async def test_a_batch_that_runs_is_waited_for_and_what_waits_runs_in_the_new_process(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        batcher = await rig.load()
        first = rig.host.supervisor.pid
        assert await rig.ask(batcher, 0) == 1.0
        rig.gate.touch()
        inside = asyncio.ensure_future(rig.ask(batcher, 1))
        await until(lambda: batcher.pending == 0, 20)
        waits = asyncio.ensure_future(rig.ask(batcher, 2))
        rig.host._bound._judge = Judge(1, 300.0)  # from now on it is over its bound
        await until(lambda: rig.host._bound.ending, 20)
        last = asyncio.ensure_future(rig.ask(batcher, 3))
        await asyncio.sleep(0.2)
        assert rig.host.supervisor.pid == first
        assert not inside.done()
        rig.gate.unlink()
        assert await asyncio.wait_for(inside, 20) == 2.0
        assert await asyncio.wait_for(waits, 20) == 3.0
        assert await asyncio.wait_for(last, 20) == 4.0
        assert rig.host.supervisor.pid != first


async def test_a_python_model_runs_its_own_end_before_its_process_is_ended(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        batcher = await rig.load()
        first = rig.host.supervisor.pid
        assert await rig.ask(batcher, 200) == 201.0
        await until(lambda: rig.host.supervisor.pid not in (None, first) and rig.host.up, 20)
        assert rig.ended.read_text() == "%d\n" % first


async def test_a_batch_that_is_not_done_in_its_time_is_run_again_and_nobodys_fault(tmp_path: Path) -> None:
    """The first run of a shape may take longer than a batch; a planned end does not wait so long for it."""
    decoder = (
        "import os, time\nclass Decoder:\n    def __init__(self, config):\n        pass\n"
        "    def decode(self, outputs):\n        while os.path.exists(%r):\n            time.sleep(0.005)\n"
        "        return [[] for _ in outputs['scores']]\n"
    )
    async with running(tmp_path, batch_timeout_s=0.5, load_timeout_s=60.0, memory_max_bytes=1 << 40) as rig:
        (tmp_path / "waits.py").write_text(decoder % str(rig.gate))
        model = Path(__file__).parents[2] / "models" / "any_size.onnx"
        decode = {"kind": "python:waits:Decoder"}
        hosted = await rig.host.load(LoadOrder("slow", "1", "onnxruntime_onnx", str(model), str(tmp_path), 1, 8, decode=decode))
        batcher = rig.batcher(hosted)
        first = rig.host.supervisor.pid
        rig.gate.touch()
        leases = await rig.arena.acquire([(rig.host.segment, 300)], 5.0)
        tensor = Tensor("image", DataType.FP32, (1, 3, 5, 5), leases[0], 0, 300)  # its warm-up had another size
        asked = asyncio.ensure_future(batcher.submit(InferRequest("slow", (tensor,), decode=True), 1, "k", None))
        await until(lambda: batcher.pending == 0, 20)
        rig.host._bound._judge = Judge(1, 300.0)
        await until(lambda: rig.told("engine_host.down"), 20)
        assert rig.host.end_code == "engine_host.memory"
        rig.gate.unlink()
        (await asyncio.wait_for(asked, 20)).release()
        leases[0].release()
        assert rig.host.supervisor.pid != first
        assert len(hosted.deaths) == 0


async def test_a_host_whose_models_need_more_is_told_once_and_serves_on(tmp_path: Path) -> None:
    async with running(tmp_path, memory_max_bytes=60 * MB) as rig:
        batcher = await rig.load(first=100)
        await until(lambda: rig.told("engine_host.memory"), 20)
        (ended,) = rig.told("engine_host.down")
        (left,) = rig.told("engine_host.memory")
        assert "need more than memory_max_bytes" in left
        pid = rig.host.supervisor.pid
        for _ in range(20):
            assert await rig.ask(batcher, 0) == 1.0
            await asyncio.sleep(0.02)
        assert rig.host.supervisor.pid == pid
        assert len(rig.told("engine_host.memory")) == 1
        status = rig.host.status()
        assert (status["state"], status["code"]) == ("degraded", "engine_host.memory")
        assert "need more" in status["reason"]


async def test_what_was_over_and_is_not_any_more_is_well_again(tmp_path: Path) -> None:
    async with running(tmp_path, memory_max_bytes=60 * MB) as rig:
        await rig.load(first=100)
        await until(lambda: rig.told("engine_host.memory"), 20)
        rig.host._bound._judge = Judge(1000 * MB, 300.0)
        await until(lambda: rig.host.status()["state"] == "ok", 20)


async def test_a_model_that_is_loaded_while_the_process_is_ended_is_loaded_into_the_next(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        batcher = await rig.load()
        first = rig.host.supervisor.pid
        assert await rig.ask(batcher, 0) == 1.0
        rig.gate.touch()
        inside = asyncio.ensure_future(rig.ask(batcher, 1))
        await until(lambda: batcher.pending == 0, 20)
        rig.host._bound._judge = Judge(1, 300.0)
        await until(lambda: rig.host._bound.ending, 20)
        loading = asyncio.ensure_future(rig.load("other"))
        await asyncio.sleep(0.1)
        assert not loading.done()
        rig.gate.unlink()
        assert await asyncio.wait_for(inside, 20) == 2.0
        other = await asyncio.wait_for(loading, 20)
        assert rig.host.supervisor.pid != first
        assert await rig.ask(other, 5) == 6.0
        assert await rig.ask(batcher, 6) == 7.0


async def test_a_host_that_dies_while_it_is_being_ended_comes_back_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        batcher = await rig.load()
        assert await rig.ask(batcher, 0) == 1.0
        first = rig.host.supervisor.pid
        rig.gate.touch()
        inside = asyncio.ensure_future(rig.ask(batcher, 1))
        await until(lambda: batcher.pending == 0, 20)
        rig.host._bound._judge = Judge(1, 300.0)
        await until(lambda: rig.host._bound.ending, 20)
        assert first is not None
        os.kill(first, 9)
        await asyncio.wait({inside}, timeout=20)
        assert inside.exception() is not None  # a Python model's request is not run twice
        rig.gate.unlink()
        await until(lambda: rig.host.up and rig.host.supervisor.pid != first, 10)
        assert await rig.ask(batcher, 1) == 2.0


async def test_stopping_in_the_midst_of_a_planned_end_is_quick(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.host.start()
    batcher = await rig.load()
    assert await rig.ask(batcher, 0) == 1.0
    rig.gate.touch()
    inside = asyncio.ensure_future(rig.ask(batcher, 1))
    await until(lambda: batcher.pending == 0, 20)
    rig.host._bound._judge = Judge(1, 300.0)
    await until(lambda: rig.host._bound.ending, 20)
    await asyncio.wait_for(rig.host.stop(), 15)
    await asyncio.wait({inside}, timeout=20)
    assert inside.exception() is not None
    rig.arena.close()


async def test_without_a_bound_nobody_looks(tmp_path: Path) -> None:
    async with running(tmp_path, memory_max_bytes=0) as rig:
        batcher = await rig.load()
        pid = rig.host.supervisor.pid
        assert await rig.ask(batcher, 300) == 301.0
        await asyncio.sleep(0.3)
        assert rig.host.supervisor.pid == pid
        assert rig.told("engine_host.down") == []
