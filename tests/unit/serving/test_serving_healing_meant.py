"""Somebody's plan that is replaced while it serves: it is taken when somebody asks for it, and never of its own accord."""

from __future__ import annotations

import os

import numpy
import pytest

from edge_agent import errors
from edge_agent.serving import second_tries
from tests.fake_gpu import make_plan
from tests.healing_rig import Gpu, add_plan_model, healing, right, told, until, until_on, version_of
from tests.promotion_rig import add_affine
from tests.serving_rig import MODELS

PROFILES = [{"x": ((1, 4), (8, 4), (8, 4))}]


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture
def gpu(tmp_path):
    return Gpu(tmp_path / "gpu")


@pytest.fixture
def state(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def plan(tmp_path, repository):
    """A plan alone, that adds one."""
    (repository / "one" / "1").mkdir(parents=True)
    (repository / "one" / "config.toml").write_text("max_batch_size = 8\n")
    path = repository / "one" / "1" / "model.plan"
    add_affine(tmp_path, "first", 1, offset=1.0)
    make_plan(tmp_path / "first" / "1" / "model.onnx", path, profiles=PROFILES)
    return path


def swap(tmp_path, plan, unseen=False):
    """One that adds two in its place; `unseen`: of the same size and time, as far as a look can tell."""
    add_affine(tmp_path, "other", 1, offset=2.0)
    before = os.stat(str(plan))
    made = tmp_path / "made.plan"
    make_plan(tmp_path / "other" / "1" / "model.onnx", made, profiles=PROFILES)
    data = made.read_bytes()
    if unseen:
        assert len(data) == before.st_size, "else a look tells"
    with open(str(plan), "r+b") as file:
        file.write(data)
        file.truncate()
    if unseen:
        os.utime(str(plan), ns=(before.st_atime_ns, before.st_mtime_ns))


async def adds(rig):
    return float((await rig.ask("one", numpy.zeros((1, 4), numpy.float32)))[0, 0])


@pytest.mark.parametrize("mode", ["explicit", "none"])
async def test_a_plan_alone_that_is_replaced_is_not_served_until_it_is_asked_for(
    tmp_path, repository, gpu, state, plan, monkeypatch, mode
):
    monkeypatch.setattr(second_tries, "_PAUSES_S", (0.05,))
    async with healing(repository, gpu, state_dir=state, control_mode=mode, load=("*",)) as rig:
        assert await adds(rig) == 1.0
        swap(tmp_path, plan)
        await rig.kill_host("gpu")
        await until(lambda: version_of(rig)["code"] == "plan.changed", rig)
        with pytest.raises(errors.EngineLoadError, match="models load one"):
            await rig.serving._second_tries._again("one", "1")  # whoever else may try of its own accord
        assert version_of(rig)["code"] == "plan.changed"
        with pytest.raises(errors.ModelNotReady):
            await adds(rig)
        await rig.serving.release("one")
        assert await adds(rig) == 2.0


async def test_where_poll_cannot_see_it_neither(tmp_path, repository, gpu, state, plan, monkeypatch):
    monkeypatch.setattr(second_tries, "_PAUSES_S", (0.05,))
    async with healing(repository, gpu, state_dir=state, control_mode="poll", poll_interval_s=0.1) as rig:
        assert await adds(rig) == 1.0
        swap(tmp_path, plan, unseen=True)
        await rig.kill_host("gpu")
        await until(lambda: version_of(rig)["code"] == "plan.changed", rig)
        await until(lambda: not rig.serving._second_tries._trying, rig)
        with pytest.raises(errors.EngineLoadError, match="models load one"):
            await rig.serving._second_tries._again("one", "1")
        assert version_of(rig)["code"] == "plan.changed"
        os.utime(str(plan))  # now it sees it
        await until(lambda: rig.serving.is_ready("one"), rig)
        assert await adds(rig) == 2.0


async def test_beside_an_onnx_model_where_all_are_trusted_another_is_built_instead(
    tmp_path, repository, gpu, state, monkeypatch
):
    monkeypatch.setattr(second_tries, "_PAUSES_S", (0.05,))
    folder = add_plan_model(repository)
    plan = folder / "1" / "model.plan"
    make_plan(MODELS / "add_one.onnx", plan, profiles=PROFILES)
    options = {"control_mode": "explicit", "load": ("*",), "trust_plans": "all"}
    async with healing(repository, gpu, state_dir=state, **options) as rig:
        await until_on("tensorrt", rig, verified=False)
        gpu.hold_builds()
        swap(tmp_path, plan)
        await rig.kill_host("gpu")
        await until_on("onnxruntime", rig, code="engine.building")
        assert await right(rig)
        await rig.serving._second_tries._again("one", "1")
        assert version_of(rig)["engine"] == "onnxruntime"
        await rig.serving.load_model("one")
        assert version_of(rig)["engine"] == "tensorrt"
        assert await adds(rig) == 2.0, "the operator's word"
        gpu.let_go()


async def test_beside_an_onnx_model_it_ends_with_a_plan_of_the_agents_own(tmp_path, repository, gpu, state):
    folder = add_plan_model(repository)
    plan = folder / "1" / "model.plan"
    make_plan(MODELS / "add_one.onnx", plan, profiles=PROFILES)
    options = {"control_mode": "explicit", "load": ("*",), "trust_plans": "all"}
    async with healing(repository, gpu, state_dir=state, **options) as rig:
        await until_on("tensorrt", rig, verified=False)
        swap(tmp_path, plan)
        await rig.kill_host("gpu")
        await until_on("tensorrt", rig, verified=True)
        assert await right(rig)
        await until(lambda: told(rig, "engine.built") == 1, rig)
