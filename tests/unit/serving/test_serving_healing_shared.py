"""Models of the same ONNX file share a plan, and nothing else: what one of them demands is no concern of the others."""

from __future__ import annotations

import asyncio
import contextlib
import shutil

import numpy
import pytest

from edge_agent import errors
from tests.healing_rig import PLAN, Gpu, add_plan_model, healing, right, surroundings, until, until_on, version_of

EXPLICIT = {"control_mode": "explicit", "load": ("*",)}
GOLDEN = PLAN + '[accept]\ngolden = "golden"\n'


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


def golden(folder, value):
    (folder / "golden").mkdir(exist_ok=True)
    numpy.savez(str(folder / "golden/inputs.npz"), x=numpy.zeros((1, 4), numpy.float32))
    numpy.savez(str(folder / "golden/outputs.npz"), y=numpy.full((1, 4), value, numpy.float32))


async def test_golden_files_that_cannot_be_read_keep_only_their_own_model_from_its_plan(repository, gpu, state):
    add_plan_model(repository, "a", PLAN + '[accept]\ngolden = "nope"\n')
    add_plan_model(repository, "b")
    async with healing(repository, gpu, state_dir=state) as rig:
        assert (await until_on("tensorrt", rig, "b"))["verified"]
        told = await until_on("onnxruntime", rig, "a", code="engine.golden_unreadable")
        assert "nope" in told["reason"]
        assert told["build"]["code"] == "engine.golden_unreadable"
        assert await right(rig, "b")
        build = version_of(rig, "b")["build"]
        assert build is None or (build["code"], build["reason"]) == ("", "")


async def test_a_golden_answer_that_a_plan_does_not_give_says_nothing_to_others_with_the_same_plan(repository, gpu, state):
    folder = add_plan_model(repository, "a", GOLDEN)
    golden(folder, 1)
    add_plan_model(repository, "b")
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig, "a")
        await until_on("tensorrt", rig, "b")
        golden(folder, 2)
        assert (await rig.serving.verify_plan("a"))["good"] is False
        await until_on("onnxruntime", rig, "a", code="engine.verify_failed")
    async with healing(repository, gpu, state_dir=state) as rig:
        assert (await until_on("tensorrt", rig, "b"))["verified"]
        assert version_of(rig, "a")["code"] == "engine.verify_failed"


async def test_equal_demands_in_other_folders_are_other_demands(repository, gpu, state):
    for name in ("a", "c"):
        add_plan_model(repository, name, PLAN + '[accept]\ngolden = "nope"\n')
    async with healing(repository, gpu, state_dir=state) as rig:
        for name in ("a", "c"):
            told = await until_on("onnxruntime", rig, name, code="engine.golden_unreadable")
            assert "/%s/nope" % name in told["reason"]


async def test_a_calibration_file_that_is_missing_is_told_as_the_models_own(repository, gpu, state):
    for name in ("pj", "pl"):
        add_plan_model(repository, name, PLAN + '[build]\nprecision = "int8"\ncalibration = "%s.cache"\n' % name)
    async with healing(repository, gpu, state_dir=state) as rig:
        for name in ("pj", "pl"):
            told = await until_on("onnxruntime", rig, name, code="engine.build_failed")
            assert "%s.cache" % name in told["reason"], told
            other = "pl" if name == "pj" else "pj"
            assert other + "/" not in told["reason"], told


async def test_plans_are_kept_again_where_their_folder_was_deleted(repository, gpu, state):
    add_plan_model(repository, "a")
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig, "a")
        shutil.rmtree(str(state / "plans"))
        await rig.serving.build_plan("a")
        await until_on("tensorrt", rig, "a")

        def kept():
            return list((state / "plans").glob("*.plan"))

        await until(kept, rig)
        build = version_of(rig, "a")["build"]
        assert build["code"] == "", build


async def test_the_first_load_after_the_gpu_came_finds_it_also_after_a_build_was_asked_for(repository, gpu, state):
    add_plan_model(repository)
    gpu.faults(cuda_init=100)
    async with healing(repository, gpu, state_dir=state, surroundings=surroundings(late_s=()), **EXPLICIT) as rig:
        assert version_of(rig)["code"] == "engine.unavailable"
        with contextlib.suppress(errors.EdgeAgentError):
            await rig.serving.build_plan("one")
        gpu.faults()
        await rig.serving.load_model("one")
        assert (await until_on("tensorrt", rig))["verified"]


async def test_a_check_by_hand_that_an_unload_cuts_off_is_told_as_that(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state, **EXPLICIT) as rig:
        await until_on("tensorrt", rig)
        asked = asyncio.ensure_future(rig.serving.verify_plan("one"))
        await asyncio.sleep(0)
        await rig.serving.unload_model("one")
        (end,) = await asyncio.gather(asked, return_exceptions=True)
        assert isinstance(end, errors.ModelNotReady) or end["good"] is not None


async def test_a_host_that_was_only_asked_and_found_no_gpu_is_not_believed_later(repository, gpu, state):
    add_plan_model(repository)
    gpu.faults(cuda_init=100)
    async with healing(repository, gpu, state_dir=state, surroundings=surroundings(late_s=()), **EXPLICIT) as rig:
        loader = rig.serving._loader
        assert not (await loader.facts("gpu")).usable
        assert "gpu" in loader.hosts
        gpu.faults()
        await rig.serving.load_model("one")
        assert version_of(rig)["code"] != "engine.unavailable"
        assert (await until_on("tensorrt", rig))["verified"]
