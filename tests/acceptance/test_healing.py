"""The acceptance of engines that heal themselves: requests without a pause across everything that happens to a plan."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Counter as Counts

import numpy
import pytest

from tests.fake_gpu import make_plan
from tests.healing_rig import PLAN, WRONG, Gpu, add_plan_model, healing, told, until, until_on, version_of
from tests.serving_rig import MODELS, Rig

pytestmark = pytest.mark.timeout(300)

_REQUESTS = 10_000
_CLIENTS = 16


class Traffic:
    """Clients that ask as fast as they are answered; every answer is looked at."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.answered: Counts[str] = Counts()  #: by the engine that served when it was asked
        self.wrong = 0
        self.total = 0
        self._stop = False

    async def run(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(_CLIENTS)))

    async def _client(self, number: int) -> None:
        """What fails raises, and ends the test."""
        for turn in itertools.count(number):
            if self._stop:
                return
            array = numpy.full((1 + self.total % 3, 4), self.total % 1000, numpy.float32)  # fp16 knows these exactly
            engine = version_of(self.rig)["engine"] if turn % 20 == 0 else ""
            answer = await self.rig.ask("one", array)
            self.wrong += not numpy.array_equal(answer, array + 1)
            self.answered[engine] += 1
            self.total += 1

    async def at_least(self, more: int) -> None:
        """Until so many more were answered."""
        aim = self.total + more
        await until(lambda: self.total >= aim, self.rig, 120.0)

    def stop(self) -> None:
        self._stop = True


@pytest.mark.parametrize("wrong", [False, True], ids=["good plans", "wrong plans"])
async def test_ten_thousand_requests_across_a_foreign_plan_a_build_its_check_and_the_swap(tmp_path: Path, wrong: bool) -> None:
    """None fails, and none is answered from a plan that was not checked: with wrong plans each such answer would show."""
    (tmp_path / "models").mkdir()
    (tmp_path / "state").mkdir()
    gpu = Gpu(tmp_path / "gpu")
    folder = add_plan_model(tmp_path / "models", config=PLAN + "[dynamic_batching]\n")
    make_plan(MODELS / "add_one.onnx", folder / "1/model.plan", version="8.6.1")
    faults = {"wrong_outputs": WRONG} if wrong else {}
    gpu.hold_builds(**faults)
    async with healing(tmp_path / "models", gpu, state_dir=tmp_path / "state", trust_plans="all") as rig:
        assert told(rig, "engine.plan_refused") == 1  # the foreign one
        traffic = Traffic(rig)
        running = asyncio.ensure_future(traffic.run())
        try:
            await traffic.at_least(_REQUESTS // 4)
            gpu.let_go(**faults)
            if wrong:
                await until_on("onnxruntime", rig, code="engine.verify_failed")
            else:
                await until_on("tensorrt", rig, verified=True)
            await traffic.at_least(max(_REQUESTS - traffic.total, _REQUESTS // 4))
        finally:
            traffic.stop()
            await asyncio.wait({running}, timeout=60)
        assert running.exception() is None
        assert traffic.total >= _REQUESTS
        assert traffic.wrong == 0
        failed = [record for record in rig.journal.requests if record.status != "ok"]
        assert failed == []
        engines = {"onnxruntime"} if wrong else {"onnxruntime", "tensorrt"}
        assert {engine for engine in traffic.answered if engine} == engines


async def test_a_wrong_plan_is_dropped_the_right_one_taken_and_a_restart_keeps_it_under_traffic(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "state").mkdir()
    gpu = Gpu(tmp_path / "gpu")
    add_plan_model(tmp_path / "models")
    gpu.faults(wrong_outputs=WRONG)
    async with healing(tmp_path / "models", gpu, state_dir=tmp_path / "state") as rig:
        traffic = Traffic(rig)
        running = asyncio.ensure_future(traffic.run())
        await until_on("onnxruntime", rig, code="engine.verify_failed")
        gpu.faults()
        await rig.serving.build_plan("one")
        await until_on("tensorrt", rig, verified=True)
        await traffic.at_least(500)
        traffic.stop()
        await running
        assert traffic.wrong == 0
    async with healing(tmp_path / "models", gpu, state_dir=tmp_path / "state") as rig:
        assert version_of(rig)["engine"] == "tensorrt"
        assert version_of(rig)["verified"]
