"""Builds and plans that fail in every way: ONNX Runtime serves on, few tries are made, and nothing wrong is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from tests.fake_gpu import gpu_python, make_plan
from tests.healing_rig import (
    PLAN,
    WRONG,
    add_plan_model,
    healing,
    right,
    surroundings,
    told,
    until,
    until_on,
    version_of,
)
from tests.promotion_rig import add_affine
from tests.serving_rig import MODELS


def tries(state):
    found = json.loads((state / "plans/tries.json").read_text())["keys"]
    return sum(entry["tries"] for entry in found.values())


def left_behind(state):
    return sorted(path.name for path in (state / "plans").glob("*") if path.name[0] == "." or path.suffix == ".plan")


async def failed(rig, code="engine.build_failed"):
    return await until_on("onnxruntime", rig, code=code)


@pytest.mark.parametrize(
    ("faults", "config", "code", "count"),
    [
        ({"build": "crash"}, PLAN, "build.killed", 3),
        ({"build": "none"}, PLAN, "build.failed", 3),
        ({"build": "oom"}, PLAN, "build.out_of_memory", 3),
        ({"build": "hang"}, PLAN + "[build]\ntimeout_s = 1.5\n", "build.timeout", 3),
        ({"parse": "this is no model of mine"}, PLAN, "build.parse_failed", 1),
    ],
    ids=["crash", "nothing", "memory", "hang", "parse"],
)
async def test_a_build_that_fails_is_tried_three_times_at_most_and_onnx_runtime_serves_on(
    repository, gpu, state, faults, config, code, count
):
    add_plan_model(repository, config=config)
    gpu.faults(**faults)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await failed(rig)
        assert (version["state"], version["build"]["state"], version["build"]["code"]) == ("degraded", "failed", code)
        assert version["build"]["reason"]
        assert rig.serving.is_ready("one")
        assert await right(rig)
        assert tries(state) == count
        assert told(rig, "engine.build_failed") == 1
        assert told(rig, "model.failed") == 0
        assert left_behind(state) == []
    gpu.faults()
    async with healing(repository, gpu, state_dir=state) as rig:  # the box has not booted anew
        assert version_of(rig)["code"] == "engine.build_failed"
        assert tries(state) == count
        await rig.serving.build_plan("one")
        assert (await until_on("tensorrt", rig))["verified"]


def memory(root, available_mb):
    (root / "proc").mkdir(parents=True, exist_ok=True)
    beside = root / "proc/meminfo.new"
    beside.write_text("MemTotal: 8000000 kB\nMemAvailable: %d kB\n" % (available_mb * 1024))
    beside.replace(root / "proc/meminfo")


async def test_waiting_for_memory_takes_no_try_and_smaller_models_go_first(tmp_path, repository, gpu, state):
    """Three waits that found no memory would end all tries of this boot."""
    large = add_plan_model(repository, "large", PLAN.replace("8", "4"))
    with (large / "1/model.onnx").open("ab") as file:
        file.write(b"\x32\x80\x80\x80\x20" + b"x" * (64 << 20))  # its doc_string
    add_plan_model(repository, "one")
    root = tmp_path / "root"
    memory(root, 256 + 256 + 40)
    async with healing(repository, gpu, state_dir=state, surroundings=surroundings(root=root)) as rig:
        await until_on("tensorrt", rig, "one")
        await until(lambda: version_of(rig, "large")["build"]["phase"] == "waiting", rig)
        build = version_of(rig, "large")["build"]
        assert (build["state"], build["tries"], build["code"]) == ("queued", 0, "")
        assert "the build begins at 640 MB" in build["text"]
        assert version_of(rig, "large")["code"] == "engine.building"
        events = [event for event in rig.journal.events if event[0] == "engine.building" and "large" in str(event)]
        assert len(events) == 1
        memory(root, 2048)
        await until_on("tensorrt", rig, "large")
        assert tries(state) == 0  # a good build uses up none


async def test_a_builder_that_is_killed_from_outside_is_tried_again(repository, gpu, state):
    add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        os.kill(await until(builder, rig), signal.SIGKILL)
        await until(lambda: version_of(rig)["build"]["tries"] == 2, rig)
        assert await right(rig)
        gpu.let_go()
        await until_on("tensorrt", rig)


def builder():
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and b"engine_host.build.main" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except (OSError, IndexError):
            continue
    return 0


async def test_a_plan_with_wrong_answers_is_never_answered_from_and_not_built_again(repository, gpu, state):
    add_plan_model(repository)
    gpu.faults(wrong_outputs=WRONG)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await failed(rig, "engine.verify_failed")
        assert "output 'y' is off by" in version["reason"]
        assert await right(rig)
        assert told(rig, "engine.plan_refused") == 1
        assert told(rig, "engine.building") == 1
    async with healing(repository, gpu, state_dir=state) as rig:
        assert version_of(rig)["code"] == "engine.verify_failed"
        assert await right(rig)
        assert told(rig, "engine.building") == 0


async def test_wrong_answers_of_one_precision_lead_to_the_next_where_it_may_fall(repository, gpu, state):
    """The wide one is as wrong here: each is built once, and ONNX Runtime serves."""
    add_plan_model(repository, config=PLAN + "[build]\nprecision_fallback = true\n")
    gpu.faults(wrong_outputs=WRONG)
    async with healing(repository, gpu, state_dir=state) as rig:
        await failed(rig, "engine.verify_failed")
        assert told(rig, "engine.building") == 2
        assert told(rig, "engine.precision_fell") == 1
        assert await right(rig)


@pytest.mark.parametrize("fault", ["none", "crash"])
async def test_a_plan_that_cannot_be_loaded_is_put_aside_and_the_same_plan_is_not_loaded_twice(repository, gpu, state, fault):
    add_plan_model(repository)
    gpu.faults(deserialize=fault)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await failed(rig, "engine.plan_refused")
        assert version["build"]["code"] == "engine.plan_refused"
        assert await right(rig)
        assert tries(state) == 3
        assert left_behind(state) == []
        gpu.faults()
        await rig.serving.build_plan("one")
        await until_on("tensorrt", rig)


async def test_a_checked_plan_that_cannot_be_loaded_any_more_is_put_aside_for_good(repository, gpu, state):
    """The fake builds the same plan of the same file each time."""
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
    gpu.hold_builds(deserialize="none")
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig)
        assert (version["engine"], version["code"]) == ("onnxruntime", "engine.building")
        assert told(rig, "engine.plan_refused") == 1
        assert await right(rig)
        gpu.let_go()
        version = await until_on("onnxruntime", rig, code="engine.plan_refused")
        assert "the very plan that was put aside before" in version["reason"]
        await rig.serving.build_plan("one")
        assert (await until_on("tensorrt", rig))["verified"]


async def test_a_damaged_plan_is_not_loaded_and_built_anew(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
    (plan,) = (state / "plans").glob("*.plan")
    plan.write_bytes(plan.read_bytes()[:-1] + b"?")
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        assert version_of(rig)["engine"] == "onnxruntime"
        gpu.let_go()
        assert (await until_on("tensorrt", rig))["verified"]


async def test_a_plan_that_ends_its_host_thrice_while_it_serves_gives_way_to_onnx_runtime(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
        await until(lambda: told(rig, "engine.built") == 1, rig)
        gpu.hold_builds(enqueue="error")
        while version_of(rig)["engine"] == "tensorrt":
            with contextlib.suppress(errors.HostDied, errors.ModelNotReady):  # each of its requests is lost, and says so
                await right(rig)
            await asyncio.sleep(0.01)
        version = await until_on("onnxruntime", rig, code="engine.building")
        assert version["state"] == "degraded"
        assert await right(rig)
        assert told(rig, "engine.plan_refused") == 1
        gpu.let_go()
        await rig.serving.build_plan("one")
        assert (await until_on("tensorrt", rig))["verified"]
        assert await right(rig)


@pytest.mark.parametrize("phase", ["building", "checking"])
async def test_an_agent_that_stops_in_the_middle_goes_on_after_its_restart(repository, gpu, state, phase):
    add_plan_model(repository)
    gate = gpu.gate
    gate.write_text("")
    gpu.faults(**{"building": {"gate": gate}, "checking": {"compute_gate": gate}}[phase])
    async with healing(repository, gpu, state_dir=state) as rig:
        await until(lambda: version_of(rig)["build"]["state"] == phase, rig)
        assert await right(rig)
    assert [name for name in left_behind(state) if name[0] == "."] == []
    assert len(left_behind(state)) == (phase == "checking")  # the plan is there, and nobody is answered from it
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig)
        assert (version["engine"], version["code"]) == ("onnxruntime", "engine.building")
        assert await right(rig)
        gpu.let_go()
        assert (await until_on("tensorrt", rig))["verified"]
        assert await right(rig)


async def test_a_plan_that_the_restarted_host_refuses_gives_way_to_onnx_runtime(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
        await until(lambda: told(rig, "engine.built") == 1, rig)
        gpu.hold_builds(deserialize="none")
        await rig.kill_host("gpu")
        await until_on("onnxruntime", rig, state="degraded")
        assert await right(rig)
        assert told(rig, "engine.plan_refused") == 1


async def test_an_agent_that_stops_between_two_tries_makes_no_more_of_them_after_its_restart(repository, gpu, state):
    add_plan_model(repository)
    gpu.faults(build="none")
    slow = surroundings(tries_clock=None)
    async with healing(repository, gpu, state_dir=state, surroundings=slow) as rig:
        await until(lambda: version_of(rig)["build"]["phase"] == "waiting", rig)
        assert 20 < version_of(rig)["build"]["eta_s"] <= 30
    async with healing(repository, gpu, state_dir=state, surroundings=slow) as rig:
        version = await until(lambda: version_of(rig)["build"]["phase"] == "waiting" and version_of(rig), rig)
        assert (version["code"], version["build"]["tries"]) == ("engine.building", 1)
        assert await right(rig)
    assert tries(state) == 1


async def test_an_agent_that_dies_during_a_build_has_lost_a_try(repository, gpu, state):
    """What its process leaves behind: a try that was begun and never ended."""
    add_plan_model(repository)
    gpu.faults(build="none")
    async with healing(repository, gpu, state_dir=state) as rig:
        await failed(rig)
    path = state / "plans/tries.json"
    document = json.loads(path.read_text())
    (entry,) = document["keys"].values()
    entry.update(tries=1, failures=0, open=True, code="", reason="")
    path.write_text(json.dumps(document))
    gpu.faults()
    async with healing(repository, gpu, state_dir=state) as rig:
        assert version_of(rig)["build"]["tries"] >= 1  # the one that was never ended
        await until_on("tensorrt", rig)
        assert tries(state) == 1


async def test_a_full_or_unwritable_place_for_plans_is_told_and_onnx_runtime_serves(repository, gpu, state):
    (state / "plans").write_text("a file where the folder should be")
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig)
        assert (version["engine"], version["state"], version["code"]) == ("onnxruntime", "degraded", "engine.build_failed")
        assert version["build"]["code"] == "build.not_kept"
        assert await right(rig)


# -- plans of others --------------------------------------------------------------------------------------------------


def add_plan(repository, name="own", with_onnx=False, **fields):
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    profile = {"x": ([1, 4], [4, 4], [8, 4])}
    make_plan(MODELS / "add_one.onnx", folder / "model.plan", profiles=[profile], **fields)
    if with_onnx:
        (folder / "model.onnx").write_bytes((MODELS / "add_one.onnx").read_bytes())
    (repository / name / "config.toml").write_text("max_batch_size = 8\n")
    return folder


async def test_a_plan_alone_is_the_operators_own_and_served_as_it_is(repository, gpu, state):
    add_plan(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig, "own")
        assert (version["engine"], version["state"], version["verified"]) == ("tensorrt", "ok", False)
        assert await right(rig, "own")
        answer = await rig.serving.verify_plan("own")
        assert (answer["good"], answer["code"]) == (None, "engine.unverified")
        assert version_of(rig, "own")["engine"] == "tensorrt"


async def test_a_foreign_plan_alone_fails_with_its_cure(repository, gpu, state):
    add_plan(repository, version="8.6.1")
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig, "own")
        assert (version["state"], version["code"]) == ("failed", "plan.foreign")
        assert "Put model.onnx beside it" in version["cure"]
        assert told(rig, "model.failed") == 1
        assert not rig.serving.is_ready("own")
        assert rig.serving.ready()


async def test_a_plan_alone_that_kills_its_host_is_not_loaded_again_after_a_restart(repository, gpu, state):
    add_plan(repository)
    gpu.faults(deserialize="crash")
    async with healing(repository, gpu, state_dir=state) as rig:
        assert version_of(rig, "own")["state"] == "failed"
        deaths = told(rig, "engine_host.down")
        assert deaths
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig, "own")
        assert (version["state"], version["code"]) == ("failed", "plan.foreign")
        assert told(rig, "engine_host.down") == 0


async def test_a_plan_alone_is_not_loaded_where_none_are_trusted(repository, gpu, state):
    add_plan(repository)
    async with healing(repository, gpu, state_dir=state, trust_plans="none") as rig:
        version = version_of(rig, "own")
        assert (version["state"], version["code"]) == ("failed", "plan.untrusted")
        assert rig.serving.host_status() == []


async def test_a_plan_beside_its_onnx_is_not_used_unless_its_sidecar_says_whose_it_is(repository, gpu, state):
    add_plan(repository, "one", with_onnx=True)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig)
        assert (version["engine"], version["code"]) == ("onnxruntime", "engine.building")
        gpu.let_go()
        await until_on("tensorrt", rig, verified=True)


async def test_a_plan_with_a_valid_sidecar_beside_its_onnx_is_used(tmp_path, repository, gpu, state):
    folder = add_plan_model(repository) / "1"
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
    (plan,), (sidecar,) = (state / "plans").glob("*.plan"), (state / "plans").glob("[0-9a-f]*.json")
    plan.rename(folder / "model.plan")
    sidecar.rename(folder / "model.plan.json")
    gpu.faults(build="crash")
    async with healing(repository, gpu, state_dir=tmp_path / "state2") as rig:
        version = version_of(rig)
        assert (version["engine"], version["verified"]) == ("onnxruntime", False)  # what it says of itself is not believed
        await until_on("tensorrt", rig, verified=True)
        assert await right(rig)
    async with healing(repository, gpu, state_dir=tmp_path / "state2") as rig:
        assert version_of(rig)["verified"]
    async with healing(repository, gpu, state_dir=tmp_path / "state3", trust_plans="none") as rig:
        await failed(rig)


async def test_every_plan_is_loaded_as_it_is_where_all_are_trusted(repository, gpu, state):
    add_plan(repository, "one", with_onnx=True)
    async with healing(repository, gpu, state_dir=state, trust_plans="all") as rig:
        version = version_of(rig)
        assert (version["engine"], version["state"], version["verified"]) == ("tensorrt", "ok", False)
        answer = await rig.serving.verify_plan("one")
        assert answer["good"]
        assert version_of(rig)["verified"]


async def test_a_trusted_plan_that_is_foreign_is_built_here(repository, gpu, state):
    add_plan(repository, "one", with_onnx=True, version="8.6.1")
    async with healing(repository, gpu, state_dir=state, trust_plans="all") as rig:
        assert told(rig, "engine.plan_refused") == 1
        assert await right(rig)
        assert (await until_on("tensorrt", rig))["verified"]


# -- without ONNX Runtime ---------------------------------------------------------------------------------------------


def no_onnx_runtime(gpu):
    """No host has an interpreter with ONNX Runtime: a module that cannot be imported hides it."""
    folder = Path(gpu.python).parents[3] / "bare"
    python = gpu_python(folder)
    (packages,) = folder.glob("gpu-python/lib/*/site-packages")
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "onnxruntime.py").write_text("raise ImportError('there is none here')")
    pth = packages / "fake_gpu.pth"
    pth.write_text("%s\n%s" % (hidden, pth.read_text()))
    bare = HostSection(python=python)
    return {**gpu.hosts, **{name: bare for name in ("cpu", "onnxruntime", "onnxruntime-own")}}


async def test_without_onnx_runtime_a_plan_is_built_and_serves_unverified_with_a_warning(repository, gpu, state):
    add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state, hosts=no_onnx_runtime(gpu)) as rig:
        version = version_of(rig)
        assert version["state"] == "failed"
        assert "it is ready when its TensorRT plan is built" in version["reason"]
        assert version["build"]["state"] in ("queued", "building")
        gpu.let_go()
        version = await until_on("tensorrt", rig, code="engine.unverified")
        assert (version["state"], version["verified"]) == ("degraded", False)
        assert await right(rig)
    async with healing(repository, gpu, state_dir=state, hosts=no_onnx_runtime(gpu)) as rig:
        assert version_of(rig)["code"] == "engine.unverified"
        assert await right(rig)


async def test_without_onnx_runtime_golden_outputs_are_proof_enough(repository, gpu, state):
    import numpy

    folder = add_plan_model(repository, config=PLAN + '[accept]\ngolden = "golden"\n')
    (folder / "golden").mkdir()
    numpy.savez(str(folder / "golden/inputs.npz"), x=numpy.zeros((1, 4), numpy.float32))
    numpy.savez(str(folder / "golden/outputs.npz"), y=numpy.ones((1, 4), numpy.float32))
    async with healing(repository, gpu, state_dir=state, hosts=no_onnx_runtime(gpu)) as rig:
        version = await until_on("tensorrt", rig, state="ok")
        assert (version["code"], version["verified"]) == ("", True)
        assert await right(rig)


async def test_a_plan_that_is_changed_while_it_serves_is_never_answered_from(tmp_path, repository, gpu, state):
    add_plan_model(repository)
    add_affine(tmp_path, "other", 1, offset=2.0)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig, verified=True)
        (plan,) = (state / "plans").glob("*.plan")
        make_plan(tmp_path / "other" / "1" / "model.onnx", plan, profiles=[{"x": ((1, 4), (8, 4), (8, 4))}])
        await rig.kill_host("gpu")
        end = rig.clock.monotonic() + 40
        while told(rig, "engine.built") < 2:
            assert rig.clock.monotonic() < end, rig.serving.status()
            with contextlib.suppress(errors.UnavailableError):
                assert await right(rig)
            await asyncio.sleep(0.01)
        assert await right(rig)
