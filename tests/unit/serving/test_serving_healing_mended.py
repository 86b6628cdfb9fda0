"""What was wrong for a while does not stay so: folders, files that others replace, doubts."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from types import SimpleNamespace

import numpy
import pytest

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.gpu import GpuFacts
from edge_agent.engines.builder import Builder
from edge_agent.engines.plans.shelf import Plan
from edge_agent.engines.plans.sidecar import Sidecar
from edge_agent.serving import second_tries
from edge_agent.serving.healing import doubts as doubts_module
from edge_agent.serving.healing import late_gpu
from edge_agent.serving.healing.doubts import Doubts
from edge_agent.serving.healing.plan_store import PlanStore
from tests.fake_gpu import fake_module, make_plan
from tests.healing_rig import PLAN, add_plan_model, healing, right, told, until, until_on, version_of
from tests.promotion_rig import add_affine
from tests.serving_rig import MODELS

GOLDEN = PLAN + '[accept]\ngolden = "golden"\n'


# -- the folder of plans ----------------------------------------------------------------------------------------------


async def test_what_stands_in_the_way_of_the_folder_of_plans_is_told_before_anything_is_built(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
        await until(lambda: told(rig, "engine.built") == 1, rig)
        shutil.rmtree(str(state / "plans"))
        (state / "plans").write_text("in the way")
        begun = told(rig, "engine.building")
        for _ in range(2):
            with pytest.raises(errors.StoreError, match="folder of plans") as caught:
                await rig.serving.build_plan("one")
            assert caught.value.code == "build.not_kept"
        assert told(rig, "engine.building") == begun
        assert version_of(rig)["engine"] == "tensorrt"
        os.unlink(str(state / "plans"))
        await rig.serving.build_plan("one")
        await until(lambda: told(rig, "engine.built") == 2, rig)
        assert list((state / "plans").glob("*.plan"))
        assert version_of(rig)["build"]["code"] == ""


async def test_a_folder_that_goes_while_a_build_waits_its_turn_is_told_and_nothing_is_built(repository, gpu, state):
    add_plan_model(repository, "a")
    add_plan_model(repository, "b", PLAN + "[build]\nworkspace_mb = 64\n")
    async with healing(repository, gpu, state_dir=state) as rig:
        for name in "ab":
            await until_on("tensorrt", rig, name)
        await until(lambda: told(rig, "engine.built") == 2, rig)
        begun = rig.journal.events.count(("engine.building", "b/1", "engine.building"))
        gpu.hold_builds()
        await rig.serving.build_plan("a")
        await until(lambda: version_of(rig, "a")["build"]["state"] == "building", rig)
        await rig.serving.build_plan("b")
        shutil.rmtree(str(state / "plans"))
        (state / "plans").write_text("in the way")
        gpu.let_go()
        build = await until(lambda: version_of(rig, "b")["build"]["state"] == "failed" and version_of(rig, "b")["build"], rig)
        assert (build["code"], "folder of plans" in build["reason"]) == ("build.not_kept", True), build
        assert rig.journal.events.count(("engine.building", "b/1", "engine.building")) == begun
        assert await right(rig, "b")


async def test_a_folder_of_plans_that_can_be_made_again_is_with_the_next_load(repository, gpu, state):
    (state / "plans").write_text("a file where the folder should be")
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state, control_mode="explicit", load=("*",)) as rig:
        assert version_of(rig)["build"]["code"] == "build.not_kept"
        os.unlink(str(state / "plans"))

        async def loaded():
            await rig.serving.load_model("one")
            return version_of(rig)["code"] != "engine.build_failed"

        end = rig.clock.monotonic() + 20
        while not await loaded():
            assert rig.clock.monotonic() < end, rig.serving.status()
            await asyncio.sleep(0.1)
        assert (await until_on("tensorrt", rig))["verified"]


class HandClock(Clock):
    """Stands still."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


async def test_a_folder_that_cannot_be_used_is_looked_at_once_in_a_while_and_what_is_in_it_is_read_then(tmp_path):
    clock = HandClock()
    kept = PlanStore(tmp_path, 0, clock)
    await kept.open()
    await kept.failed("a" * 32, "build.failed", "it did not work", permanent=True)
    (tmp_path / "plans").rename(tmp_path / "mended")
    (tmp_path / "plans").write_text("in the way")
    plans = PlanStore(tmp_path, 0, clock)
    await plans.open()
    assert plans.fault_code == "build.not_kept"
    os.unlink(str(tmp_path / "plans"))
    (tmp_path / "mended").rename(tmp_path / "plans")
    await plans.succeeded("b" * 32)
    assert plans.fault, "it was looked at a moment ago"
    clock.now_s += 10
    await plans.succeeded("b" * 32)
    assert not plans.fault
    assert plans._tries.permanent("a" * 32), "what an earlier run has left was read"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_folder_that_may_not_be_written_to_is_found_out_before_a_build(tmp_path):
    plans = PlanStore(tmp_path, 0, Clock())
    await plans.look()
    os.chmod(str(tmp_path / "plans"), 0o500)
    with pytest.raises(errors.StoreError):
        await plans.look()
    os.chmod(str(tmp_path / "plans"), 0o700)
    await plans.look()


async def test_a_disk_without_room_is_found_out_before_a_build(tmp_path, monkeypatch):
    plans = PlanStore(tmp_path, 0, Clock())
    await plans.look()

    def full(folder):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("edge_agent.engines.plans.plan_files.try_to_write", full)
        with pytest.raises(errors.StoreFull) as caught:
            await plans.look()
    assert caught.value.code == "build.no_space"
    await plans.look()


# -- two models, one file of a plan -----------------------------------------------------------------------------------


def rewritten_by(change):
    """What the builder leaves is rewritten before anybody reads it: `change` gets the path."""
    real = Builder.build

    async def build(self, order, tell):
        report = await real(self, order, tell)
        change(order.output_path)
        return report

    return build


def another_of_the_same(path):
    """No real builder gives the same bytes twice."""
    plan = fake_module("plan")
    with open(path, "rb") as file:
        fields, model = plan.unpack(file.read())
    with open(path, "wb") as file:
        file.write(plan.pack(dict(fields, nonce=1), model))


@pytest.mark.parametrize("config", [PLAN, PLAN + "[accept]\nmax_abs_error = 0.5\n"])
async def test_who_shares_a_plan_that_is_built_anew_runs_the_new_one_too(repository, gpu, state, monkeypatch, config):
    add_plan_model(repository, "a")
    add_plan_model(repository, "b", config)
    async with healing(repository, gpu, state_dir=state) as rig:
        for name in "ab":
            await until_on("tensorrt", rig, name, verified=True)
        await until(lambda: told(rig, "engine.built") == 2, rig)
        (file,) = (state / "plans").glob("*.plan")
        one = hashlib.sha256(file.read_bytes()).hexdigest()
        monkeypatch.setattr(Builder, "build", rewritten_by(another_of_the_same))
        await rig.serving.build_plan("a")
        await until(lambda: hashlib.sha256(file.read_bytes()).hexdigest() != one, rig)

        def runs():
            served = rig.serving._catalogue.model("b").versions["1"]
            assert served.ready
            return served.plan is not None and served.plan.sidecar.sha256

        await until(lambda: runs() == hashlib.sha256(file.read_bytes()).hexdigest(), rig)
        await until(lambda: version_of(rig, "a")["build"]["state"] == "done", rig)
        rig.journal.events.clear()
        await rig.kill_host("gpu")
        await until(lambda: all(version_of(rig, name)["state"] == "ok" for name in "ab"), rig)
        assert await right(rig, "a")
        assert await right(rig, "b")
        assert not [event for event in rig.journal.events if event[0] == "model.failed"]


async def test_a_plan_alone_that_was_changed_is_served_when_an_operator_loads_it_and_not_before(
    tmp_path, repository, gpu, state, monkeypatch
):
    monkeypatch.setattr(second_tries, "_PAUSES_S", (0.05,))
    (repository / "own" / "1").mkdir(parents=True)
    (repository / "own" / "config.toml").write_text("max_batch_size = 8\n")
    plan, profiles = repository / "own" / "1" / "model.plan", [{"x": ((1, 4), (8, 4), (8, 4))}]
    make_plan(MODELS / "add_one.onnx", plan, profiles=profiles)
    add_affine(tmp_path, "other", 1, offset=2.0)
    async with healing(repository, gpu, state_dir=state, control_mode="explicit", load=("*",)) as rig:
        assert await right(rig, "own")
        make_plan(tmp_path / "other" / "1" / "model.onnx", plan, profiles=profiles)
        await rig.kill_host("gpu")
        await until(lambda: ("model.failed", "own/1", "plan.changed") in rig.journal.events, rig)
        await until(lambda: not rig.serving._second_tries._trying, rig)
        assert version_of(rig, "own")["code"] == "plan.changed"
        with pytest.raises(errors.ModelNotReady):
            await right(rig, "own")
        await rig.serving.load_model("own")
        assert float((await rig.ask("own", numpy.zeros((1, 4), numpy.float32)))[0, 0]) == 2.0


# -- doubts -----------------------------------------------------------------------------------------------------------


class Forgetful:
    """A store that counts what is to be checked anew."""

    def __init__(self):
        self.keys = []

    async def doubt(self, key):
        self.keys.append(key)


class Labelled:
    label = "one/1"


def plan_of(number, tmp_path):
    return Plan(tmp_path / "x.plan", Sidecar("k" * 32, "one/1", "fp16", "", {}, sha256="%064d" % number))


async def test_a_plan_is_in_doubt_once_until_it_runs_again_and_by_its_bytes(tmp_path):
    store, error = Forgetful(), errors.EngineLoadError("it died", deaths=3)
    doubts = Doubts(store)
    one, two = plan_of(1, tmp_path), plan_of(2, tmp_path)
    assert await doubts.of(Labelled(), one, error)
    assert not await doubts.of(Labelled(), one, error)
    assert await doubts.of(Labelled(), two, error), "another plan of the same key"
    doubts.over(one)
    assert await doubts.of(Labelled(), one, error)
    assert not await doubts.of(Labelled(), two, error)
    assert store.keys == ["k" * 32] * 3


async def test_doubts_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(doubts_module, "_MOST", 8)
    doubts, error = Doubts(Forgetful()), errors.EngineLoadError("it died", deaths=3)
    for number in range(20):
        await doubts.of(Labelled(), plan_of(number, tmp_path), error)
    assert len(doubts._doubted) == 8


# -- golden files and a plan that is not the model's ------------------------------------------------------------------


def other_output(path):
    """A plan whose output has another name than the model's."""
    model = (MODELS / "add_one.onnx").read_bytes().replace(b"\x01y", b"\x01z")
    with open(path + ".onnx", "wb") as file:
        file.write(model)
    make_plan(path + ".onnx", path, profiles=[{"x": ((1, 4), (8, 4), (8, 4))}])
    os.unlink(path + ".onnx")


def smaller_batches(path):
    """A plan that takes fewer rows than the model."""
    make_plan(MODELS / "add_one.onnx", path, profiles=[{"x": ((1, 4), (2, 4), (2, 4))}])


@pytest.mark.parametrize(
    ("change", "why"), [(other_output, "no output 'y'"), (smaller_batches, "it has [4] rows, 1 to 2 are taken")]
)
async def test_golden_files_that_are_the_models_find_out_a_plan_that_is_not(repository, gpu, state, monkeypatch, change, why):
    folder = add_plan_model(repository, config=GOLDEN.replace("max_batch_size = 8\n", ""))
    (folder / "golden").mkdir()
    array = numpy.arange(16, dtype=numpy.float32).reshape(4, 4)
    numpy.savez(str(folder / "golden/inputs.npz"), x=array)
    numpy.savez(str(folder / "golden/outputs.npz"), y=array + 1)
    monkeypatch.setattr(Builder, "build", rewritten_by(change))
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.verify_failed")
        assert why in version["reason"]
        assert told(rig, "engine.plan_refused") == 1
        assert await right(rig)


async def test_golden_files_of_another_model_say_nothing_of_a_plan(repository, gpu, state):
    folder = add_plan_model(repository, config=GOLDEN)
    (folder / "golden").mkdir()
    array = numpy.zeros((1, 4), numpy.float32)
    numpy.savez(str(folder / "golden/inputs.npz"), x=array)
    numpy.savez(str(folder / "golden/outputs.npz"), other=array)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.golden_unreadable")
        assert "no output 'other', only y" in version["reason"]
        assert version["build"]["code"] == "engine.golden_unreadable"
        assert told(rig, "engine.plan_refused") == 0


# -- a GPU that never comes -------------------------------------------------------------------------------------------


class NoGpu:
    """A loader whose hosts find none."""

    def __init__(self):
        self.asked = asyncio.Event()

    async def facts(self, like):
        self.asked.set()
        return GpuFacts()

    async def end_idle_hosts(self):
        """There are none."""


class Everything:
    """A catalogue in which each version is loaded, and the name of its host."""

    def __init__(self):
        self.version = None

    def get(self, name):
        return self

    def loaded(self, number):
        return self.version

    def gpu(self, config):
        return "gpu"


async def test_how_often_a_gpu_was_looked_for_is_not_remembered_of_every_version_that_ever_was(monkeypatch):
    monkeypatch.setattr(late_gpu, "_MOST", 8)
    loader, known = NoGpu(), Everything()
    late = late_gpu.LateGpu(loader, known, known, None, (0.0,))
    for number in range(20):
        known.version = SimpleNamespace(label="one/%d" % number, name="one", version=str(number), aside="", config=None)
        loader.asked.clear()
        late.expect(known.version)
        await loader.asked.wait()
    await late.stop()
    assert len(late._looks) == 8
