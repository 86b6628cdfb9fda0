"""What a version says, and what goes on, where its golden files are no good."""

from __future__ import annotations

import numpy
import pytest

from edge_agent import errors
from edge_agent.engines.builder import Builder
from tests.healing_rig import PLAN, Gpu, add_plan_model, healing, right, surroundings, told, until, until_on, version_of
from tests.unit.serving.test_serving_healing_failures import no_onnx_runtime

GOLDEN = PLAN + '[accept]\ngolden = "golden"\n'
ONES = numpy.ones((2, 4), numpy.float32)
EXPLICIT = {"control_mode": "explicit", "load": ("*",)}


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


def give(folder, **outputs):
    (folder / "golden").mkdir(exist_ok=True)
    numpy.savez(str(folder / "golden/inputs.npz"), x=numpy.zeros((2, 4), numpy.float32))
    numpy.savez(str(folder / "golden/outputs.npz"), **outputs)


def no_archives(folder):
    give(folder, y=ONES)
    (folder / "golden/outputs.npz").write_bytes(b"rubbish")


def no_files(folder):
    (folder / "golden").mkdir()


def another_shape(folder):
    give(folder, y=numpy.ones((2, 5), numpy.float32))


def texts(folder):
    give(folder, y=numpy.full((2, 4), "one"))


def objects(folder):
    give(folder, y=numpy.full((2, 4), None, object))


@pytest.mark.parametrize("make", [no_archives, no_files, another_shape, texts, objects])
async def test_golden_files_that_are_no_good_are_told_at_once_and_wait_for_others(repository, gpu, state, monkeypatch, make):
    builds = []
    build = Builder.build

    async def counted(self, order, *more, **fields):
        builds.append(order.label)
        return await build(self, order, *more, **fields)

    monkeypatch.setattr(Builder, "build", counted)
    folder = add_plan_model(repository, config=GOLDEN)
    make(folder)
    long = surroundings(unable_s=3600.0)
    async with healing(repository, gpu, state_dir=state, surroundings=long, **EXPLICIT) as rig:
        version = await until_on("onnxruntime", rig, code="engine.golden_unreadable", state="degraded")
        build = await until(lambda: version_of(rig)["build"], rig)
        assert (build["state"], build["phase"], build["code"]) == ("failed", "", "engine.golden_unreadable")
        assert "golden" in version["reason"]
        assert told(rig, "engine.plan_refused") == 0
        assert await right(rig)
        give(folder, y=ONES)
        await rig.serving.load_model("one")
        await until_on("tensorrt", rig, verified=True, state="ok")
        assert await right(rig)
    assert builds == ["one/1"]


async def test_a_check_that_is_made_again_later_says_that_it_waits(repository, gpu, state):
    add_plan_model(repository, config=PLAN + "[accept]\nmax_p95_ms = 0.000001\n")
    async with healing(repository, gpu, state_dir=state, surroundings=surroundings(slow_s=3600.0)) as rig:
        await until(lambda: (version_of(rig)["build"] or {}).get("code") == "engine.verify_failed", rig)
        build = await until(lambda: version_of(rig)["build"]["phase"] == "waiting" and version_of(rig)["build"], rig)
        assert (build["state"], build["eta_s"]) == ("queued", 3600.0)
        assert "max_p95_ms" in build["reason"]


async def test_without_onnx_runtime_too_they_are_told_as_what_they_are(repository, gpu, state):
    folder = add_plan_model(repository, config=GOLDEN)
    no_archives(folder)
    async with healing(repository, gpu, state_dir=state, hosts=no_onnx_runtime(gpu), **EXPLICIT) as rig:
        await until(lambda: version_of(rig)["code"] == "engine.golden_unreadable", rig)
        with pytest.raises(errors.EngineLoadError, match="outputs.npz cannot be used"):
            await rig.serving.load_model("one")
        version = version_of(rig)
        assert (version["state"], version["code"]) == ("failed", "engine.golden_unreadable")
        assert (version["build"]["state"], version["build"]["code"]) == ("failed", "engine.golden_unreadable")
        give(folder, y=ONES)
        await rig.serving.load_model("one")
        await until_on("tensorrt", rig, verified=True, state="ok")


async def test_whole_numbers_for_an_output_of_floats_are_compared_as_floats(repository, gpu, state):
    folder = add_plan_model(repository, config=GOLDEN)
    give(folder, y=ONES.astype(numpy.int64))
    gpu.faults(wrong_outputs=0.001)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig, verified=True, state="ok")
