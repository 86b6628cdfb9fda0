"""What a version that is only compared takes: less priority, a part of the time, nothing while others are served."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from edge_agent.serving.promotion.board import Board, no_room_beside
from edge_agent.telemetry import procfs
from tests.healing_rig import PLAN, Gpu, healing, until_on
from tests.promotion_rig import add_affine, add_python, ask_until, rows, shown, until
from tests.serving_rig import running

HUNDRED = "[accept]\nmax_p95_ms = 60000\nshadow_requests = 100\n"
FLOOR = 128 << 20


def pids(rig):
    return {host["name"]: host["pid"] for host in rig.serving.host_status()}


async def compare(rig, name):
    await rig.serving.load_model(name)
    await until(lambda: shown(rig, name).get("2", {}).get("code") == "model.shadowing", tell=rig.serving.status)


def shadow(rig, name="add"):
    return shown(rig, name)["2"]["shadow"]


async def test_its_host_gives_way_to_the_one_that_serves(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, control_mode="explicit", load=["add"]) as rig:
        add_affine(repository, "add", 2)
        await compare(rig, "add")
        nice = {name: os.getpriority(os.PRIO_PROCESS, pid) for name, pid in pids(rig).items()}
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert nice == {"cpu": own, "cpu+add": min(19, own + 10)}
        await rig.serving.promote("add")
        await until(lambda: set(pids(rig)) == {"cpu"})
        assert os.getpriority(os.PRIO_PROCESS, pids(rig)["cpu"]) == own


async def test_it_runs_a_fifth_of_the_time_at_most(tmp_path):
    repository = tmp_path / "models"
    add_python(repository, "add", 1, HUNDRED)
    async with running(repository, control_mode="explicit", load=["add"]) as rig:
        add_python(repository, "add", 2, HUNDRED, infer="time.sleep(0.1)")
        await compare(rig, "add")
        await ask_until(rig, "add", lambda: shadow(rig)["compared"] >= 1)
        began = rig.clock.monotonic()
        await ask_until(rig, "add", lambda: shadow(rig)["compared"] >= 6)
        assert rig.clock.monotonic() - began >= 5 * 0.1 / 0.2 * 0.99


async def test_nothing_is_compared_while_the_one_that_serves_runs_something(tmp_path):
    repository, gate = tmp_path / "models", tmp_path / "gate"
    config = HUNDRED + "[[instance_group]]\ncount = 2\n"
    wait = "while x[0, 0] == 5 and os.path.exists(%r): time.sleep(0.01)" % str(gate)
    add_python(repository, "add", 1, config, infer=wait)
    async with running(repository, control_mode="explicit", load=["add"]) as rig:
        add_python(repository, "add", 2, config)
        await compare(rig, "add")
        gate.touch()
        long = asyncio.ensure_future(rig.ask("add", rows(5.0)))
        await until(lambda: rig.serving.lookup("add").batcher.in_flight == 1)
        for _ in range(20):
            await rig.ask("add", rows(1.0))
        await asyncio.sleep(0.3)
        assert (shadow(rig)["compared"], shadow(rig)["skipped"]) == (0, 20)
        gate.unlink()
        await long
        await ask_until(rig, "add", lambda: shadow(rig)["compared"] >= 3)


async def test_models_that_share_a_host_share_its_memory_in_the_guess(tmp_path):
    names = ["a", "b", "c", "d"]
    for name in names:
        add_affine(tmp_path / "models", name, 1)
    async with running(tmp_path / "models", control_mode="explicit", load=names) as rig:
        text = procfs.read_text(Path("/proc/%d/status" % pids(rig)["cpu"]))
        (kilobytes,) = [int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon")]
        served, share = rig.serving.lookup("a"), kilobytes * 1024 // 4
        assert no_room_beside(Board(memory_available=lambda: FLOOR + share * 2), served) == ""
        text = no_room_beside(Board(memory_available=lambda: FLOOR + share // 2), served)
        assert "no memory for a second engine" in text


async def test_a_plan_takes_twice_its_size_whatever_its_host_takes(tmp_path):
    add_affine(tmp_path / "models", "one", 1, PLAN)
    (tmp_path / "state").mkdir()
    async with healing(tmp_path / "models", Gpu(tmp_path / "gpu"), state_dir=tmp_path / "state") as rig:
        await until_on("tensorrt", rig, state="ok")
        served = rig.serving.lookup("one")
        need = FLOOR + 2 * served.plan.path.stat().st_size
        assert no_room_beside(Board(memory_available=lambda: need), served) == ""
        assert no_room_beside(Board(memory_available=lambda: need - 1), served) != ""
