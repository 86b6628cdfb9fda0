"""Versions that TensorRT runs are compared, promoted and taken back like all others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edge_agent.config.hosts import HostSection
from tests.fake_gpu import gpu_python
from tests.healing_rig import PLAN, Gpu, healing, right, until, until_on, version_of
from tests.promotion_rig import ACCEPT, add_affine, ask_until, kinds, shown

CONFIG = PLAN + ACCEPT


@pytest.fixture
def gpu(tmp_path):
    return Gpu(tmp_path / "gpu")


def options(tmp_path):
    (tmp_path / "state").mkdir(exist_ok=True)
    return {"control_mode": "explicit", "state_dir": tmp_path / "state"}


async def test_a_newer_version_gets_its_plan_while_it_is_compared_and_serves_with_it(tmp_path, gpu):
    add_affine(tmp_path / "models", "one", 1, CONFIG)
    async with healing(tmp_path / "models", gpu, **options(tmp_path)) as rig:
        await until_on("tensorrt", rig)
        gpu.hold_builds()
        add_affine(tmp_path / "models", "one", 2, offset=1.0000002)  # another file, another plan
        await rig.serving.load_model("one")
        await until(lambda: version_of(rig, number="2")["code"] == "model.shadowing", rig)
        assert version_of(rig, number="2")["engine"] == "onnxruntime"
        assert shown(rig, "one")["2"]["shadow"]["paused"] == "its plan is being built"
        for _ in range(10):
            assert await right(rig)
        assert shown(rig, "one")["2"]["shadow"]["compared"] == 0
        gpu.let_go()
        await until(lambda: version_of(rig, number="2")["engine"] == "tensorrt", rig)
        assert rig.serving.lookup("one").version == "1"
        assert {"gpu", "gpu+one"} <= {host["name"] for host in rig.serving.host_status()}
        await ask_until(rig, "one", lambda: rig.serving.lookup("one").version == "2")
        assert rig.serving.lookup("one").engine == "tensorrt"
        await until(lambda: [host["name"] for host in rig.serving.host_status()] == ["gpu"], rig)
        await until(lambda: len(kinds(rig, "one")) == 2, rig)
        assert [event[:2] for event in kinds(rig, "one")] == [("model.shadowing", "one/2"), ("model.promoted", "one/2")]
        await rig.serving.roll_back("one")
        assert (rig.serving.lookup("one").version, rig.serving.lookup("one").engine) == ("1", "tensorrt")


async def test_a_worse_version_is_refused_and_the_plan_of_the_other_serves_on(tmp_path, gpu):
    add_affine(tmp_path / "models", "one", 1, CONFIG)
    async with healing(tmp_path / "models", gpu, **options(tmp_path)) as rig:
        await until_on("tensorrt", rig)
        add_affine(tmp_path / "models", "one", 2, offset=4.0)
        await rig.serving.load_model("one")
        await ask_until(rig, "one", lambda: kinds(rig, "one")[-1][0] == "model.rolled_back")
        await until(lambda: [host["name"] for host in rig.serving.host_status()] == ["gpu"], rig)
        assert (rig.serving.lookup("one").version, rig.serving.lookup("one").engine) == ("1", "tensorrt")
        await asyncio.sleep(0.3)
        assert [event[0] for event in kinds(rig, "one")] == ["model.shadowing", "model.rolled_back"]


def no_onnx_runtime(gpu):
    """Hosts whose interpreter has none: a module that cannot be imported hides it."""
    folder = Path(gpu.python).parents[3] / "bare"
    python = gpu_python(folder)
    (packages,) = folder.glob("gpu-python/lib/*/site-packages")
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "onnxruntime.py").write_text("raise ImportError('there is none here')")
    pth = packages / "fake_gpu.pth"
    pth.write_text("%s\n%s" % (hidden, pth.read_text()))
    return {**gpu.hosts, **{name: HostSection(python=python) for name in ("cpu", "onnxruntime", "onnxruntime-own")}}


@pytest.mark.parametrize("mode", ["explicit", "poll"])
async def test_a_candidate_that_only_a_plan_can_run_waits_for_it_and_is_compared_then(tmp_path, gpu, mode):
    add_affine(tmp_path / "models", "one", 1, CONFIG)
    more = {**options(tmp_path), "control_mode": mode, "poll_interval_s": 0.1, "load": ["one"]}
    async with healing(tmp_path / "models", gpu, hosts=no_onnx_runtime(gpu), **more) as rig:
        await until_on("tensorrt", rig, code="engine.unverified")
        gpu.hold_builds()
        add_affine(tmp_path / "models", "one", 2, offset=1.0000002)
        if mode == "explicit":
            await rig.serving.load_model("one")  # no failure: what serves is up
        await until(lambda: shown(rig, "one").get("2", {}).get("build", {}).get("state") == "building", rig)
        assert shown(rig, "one")["2"]["state"] == "failed"
        assert shown(rig, "one")["2"]["shadow"]["paused"] == "its plan is being built"
        assert kinds(rig, "one") == []
        gpu.let_go()
        await until(lambda: [event[:2] for event in kinds(rig, "one")] == [("model.shadowing", "one/2")], rig)
        assert shown(rig, "one")["2"]["engine"] == "tensorrt"
        await ask_until(rig, "one", lambda: rig.serving.lookup("one").version == "2")


async def test_a_candidate_that_is_taken_away_before_its_plan_is_there_has_none_built(tmp_path, gpu):
    add_affine(tmp_path / "models", "one", 1, CONFIG)
    async with healing(tmp_path / "models", gpu, hosts=no_onnx_runtime(gpu), **options(tmp_path), load=["one"]) as rig:
        await until_on("tensorrt", rig, code="engine.unverified")
        gpu.hold_builds()
        add_affine(tmp_path / "models", "one", 2, offset=1.0000002)
        await rig.serving.load_model("one")
        await until(lambda: shown(rig, "one")["2"]["build"]["state"] == "building", rig)
        await rig.serving.roll_back("one")
        assert shown(rig, "one")["2"]["code"] == "model.shadow_rejected"
        gpu.let_go()
        await asyncio.sleep(1.0)
        assert len(list((tmp_path / "state" / "plans").glob("*.plan"))) == 1
