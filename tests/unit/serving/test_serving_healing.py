"""From ONNX Runtime to TensorRT and back: with real hosts, the real ONNX Runtime, and the fake TensorRT."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from edge_agent.serving.healing import proof
from tests.healing_rig import (
    PLAN,
    WRONG,
    Gpu,
    add_plan_model,
    healing,
    right,
    surroundings,
    told,
    until,
    until_on,
    version_of,
)
from tests.serving_rig import MODELS


def plans(state):
    return sorted(path.name.partition(".")[2] for path in (state / "plans").glob("[0-9a-f]*.*"))


def sidecar(state):
    (path,) = (state / "plans").glob("[0-9a-f]*.json")
    return json.loads(path.read_text())


def builders():
    return [child for child in children() if "engine_host.build.main" in child]


def children():
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == os.getpid() and stat[0] != "Z":
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (OSError, IndexError):
            continue
    return found


async def test_onnx_runtime_serves_until_the_plan_is_built_and_checked_and_then_tensorrt(repository, gpu, state):
    add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig)
        assert (version["engine"], version["state"], version["code"]) == ("onnxruntime", "degraded", "engine.building")
        assert version["verified"] is False
        assert rig.serving.is_ready("one")
        assert rig.serving.ready()
        assert await right(rig)
        await until(lambda: version_of(rig)["build"]["state"] == "building", rig)
        assert version_of(rig)["build"]["tries"] == 1
        gpu.let_go()
        version = await until_on("tensorrt", rig, state="ok")
        assert (version["code"], version["verified"]) == ("", True)
        assert await right(rig)
        await until(lambda: version_of(rig)["build"]["state"] == "done", rig)
        assert rig.serving.lookup("one").platform == "tensorrt_plan"
        await until(lambda: told(rig, "engine.built") == 1, rig)
        assert told(rig, "model.failed") == 0
        figures = sidecar(state)["figures"]
        assert figures["compared"] == 3  # 1 row, 5 and 8
        assert 0 < figures["p50_ms"] <= figures["p95_ms"]
        assert rig.journal.metrics[("one", "1")]["compared"] == 3
        assert {host["name"] for host in rig.serving.host_status()} == {"gpu"}


async def test_a_checked_plan_serves_at_once_after_a_restart(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
    gpu.faults(build="crash")
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig)
        assert (version["engine"], version["state"], version["verified"]) == ("tensorrt", "ok", True)
        assert "build" not in version
        assert await right(rig)
        assert told(rig, "engine.building") == 0


async def test_two_models_of_one_file_have_one_build(repository, gpu, state):
    add_plan_model(repository, "one")
    add_plan_model(repository, "two")
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig, "one")
        await until_on("tensorrt", rig, "two")
        assert await right(rig, "one")
        assert await right(rig, "two")
        assert plans(state) == ["json", "plan"]


async def test_builds_run_one_after_another(repository, gpu, state):
    for rows in (2, 4, 6):
        add_plan_model(repository, "m%d" % rows, PLAN.replace("8", str(rows)))
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        await until(builders, rig)
        assert len(builders()) == 1
        states = [version_of(rig, name)["build"]["state"] for name in ("m2", "m4", "m6")]
        assert sorted(states) == ["building", "queued", "queued"]
        gpu.let_go()
        for name in ("m2", "m4", "m6"):
            await until_on("tensorrt", rig, name)
        assert len(plans(state)) == 6


async def test_a_model_that_is_unloaded_ends_its_build(repository, gpu, state):
    add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        await until(builders, rig)
        await rig.serving.hold("one")
        await until(lambda: not builders(), rig)
        assert plans(state) == []
        gpu.let_go()
        await rig.serving.release("one")
        assert (await until_on("tensorrt", rig))["verified"]


async def test_a_file_that_changes_while_it_is_built_gets_a_plan_of_its_own(repository, gpu, state):
    folder = add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state, poll_interval_s=0.1) as rig:
        await until(builders, rig)
        shutil.copy(MODELS / "mean_colour.onnx", folder / "1/model.onnx")
        await until(lambda: [event for event in rig.journal.events if event[0] == "model.loaded"][1:], rig)
        gpu.let_go()
        await until_on("tensorrt", rig)
        colours = await rig.ask("one", numpy.full((1, 3, 8, 8), 2, numpy.float32), names=("image",))
        assert colours.tolist() == [[2, 2, 2]]
        assert plans(state) == ["json", "plan"]


async def test_onnx_runtime_runs_under_the_agents_own_python_where_the_host_cpu_has_another_one(repository, gpu, state):
    add_plan_model(repository)
    gpu.hold_builds()
    hosts = {**gpu.hosts, "cpu": HostSection(python=gpu.python)}
    async with healing(repository, gpu, state_dir=state, hosts=hosts) as rig:
        assert version_of(rig)["engine"] == "onnxruntime"
        assert [host["name"] for host in rig.serving.host_status() if host["models"]] == ["onnxruntime"]
        gpu.let_go()
        await until_on("tensorrt", rig)


async def test_a_build_may_be_asked_for_anew_while_the_old_plan_serves(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
        await until(lambda: told(rig, "engine.built") == 1, rig)
        before = sidecar(state)["serial"]
        gpu.hold_builds()
        await rig.serving.build_plan("one")
        await until(builders, rig)
        version = version_of(rig)
        assert (version["engine"], version["state"], version["build"]["state"]) == ("tensorrt", "ok", "building")
        assert await right(rig)
        gpu.let_go()
        await until(lambda: told(rig, "engine.built") == 2, rig)
        assert await right(rig)
        assert sidecar(state)["serial"] > before
        assert sidecar(state)["verified"]


async def test_a_new_plan_that_is_wrong_leaves_the_old_one_in_its_place(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
        await until(lambda: told(rig, "engine.built") == 1, rig)
        before = sidecar(state)
        gpu.faults(build="none")
        await rig.serving.build_plan("one")
        await until(lambda: version_of(rig)["build"]["state"] == "failed", rig)
        assert version_of(rig)["build"]["code"] == "build.failed"
        assert await right(rig)
        gpu.faults(compute_ms=1, wrong_outputs=WRONG)
        await rig.serving.build_plan("one")
        await until(lambda: version_of(rig)["build"]["code"] == "engine.verify_failed", rig)
        gpu.faults()
        await until(lambda: version_of(rig)["build"]["state"] == "failed", rig)
        assert told(rig, "engine.built") == 1
        version = version_of(rig)
        assert (version["engine"], version["state"], version["verified"]) == ("tensorrt", "ok", True)
        assert sidecar(state)["sha256"] == before["sha256"]


async def test_the_plan_that_serves_can_be_compared_at_any_time(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
        answer = await rig.serving.verify_plan("one")
        assert (answer["good"], answer["compared"]) == (True, 3)
        gpu.faults(wrong_outputs=WRONG, build="none")
        answer = await rig.serving.verify_plan("one", "1")
        assert (answer["good"], answer["code"]) == (False, "engine.verify_failed")
        assert "output 'y' is off by" in answer["reason"]
        version = await until_on("onnxruntime", rig, code="engine.verify_failed")
        assert "is off by" in version["reason"]
        assert await right(rig)


async def test_what_cannot_be_built_or_compared_says_so(repository, gpu, state):
    add_plan_model(repository, "plain", "")
    add_plan_model(repository, "one")
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        with pytest.raises(errors.ModelNotFound):
            await rig.serving.build_plan("none")
        with pytest.raises(errors.ModelNotFound):
            await rig.serving.verify_plan("one", "7")
        with pytest.raises(errors.Unsupported, match="platform is onnxruntime_onnx"):
            await rig.serving.build_plan("plain")
        with pytest.raises(errors.Unsupported, match="not served from a TensorRT plan"):
            await rig.serving.verify_plan("one")


async def test_golden_outputs_rule_where_there_are_some(repository, gpu, state):
    folder = add_plan_model(repository, config=PLAN + '[accept]\ngolden = "golden"\n')
    (folder / "golden").mkdir()
    array = numpy.arange(8, dtype=numpy.float32).reshape(2, 4)
    numpy.savez(str(folder / "golden/inputs.npz"), x=array)
    numpy.savez(str(folder / "golden/outputs.npz"), y=array + 1)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("tensorrt", rig)
        assert version["verified"]
        assert sidecar(state)["figures"]["compared"] == 1


async def test_golden_outputs_that_the_plan_does_not_give_keep_it_out(repository, gpu, state):
    folder = add_plan_model(repository, config=PLAN + '[accept]\ngolden = "golden"\n')
    (folder / "golden").mkdir()
    numpy.savez(str(folder / "golden/a.inputs.npz"), x=numpy.zeros((1, 4), numpy.float32))
    numpy.savez(str(folder / "golden/a.outputs.npz"), y=numpy.full((1, 4), 2, numpy.float32))
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.verify_failed")
        assert "golden a.inputs.npz: output 'y' is off by 1" in version["reason"]
        assert await right(rig)


async def test_a_plan_that_is_slower_than_allowed_is_not_taken(repository, gpu, state):
    add_plan_model(repository, config=PLAN + "[accept]\nmax_p95_ms = 5\n")
    gpu.faults(compute_ms=20)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.verify_failed")
        assert "more than the 5 of max_p95_ms" in version["reason"]


async def test_a_good_plan_that_cannot_be_swapped_in_is_told_and_waited_for_no_longer(repository, gpu, state):
    add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:

        async def again(name, version):
            raise errors.EngineLoadError("no memory for it now")

        rig.serving._healer._workshop.again = again
        gpu.let_go()
        build = await until(lambda: version_of(rig)["build"]["state"] == "failed" and version_of(rig)["build"], rig)
        assert build["reason"] == "no memory for it now"
        assert told(rig, "engine.built") == 0
        assert await right(rig)


async def test_without_a_word_tensorrt_11_builds_the_model_as_it_is(tmp_path, repository, state):
    newest = Gpu(tmp_path / "gpu", version="11.4.0", compute_capability=(11, 0))
    add_plan_model(repository)
    async with healing(repository, newest, state_dir=state) as rig:
        await until_on("tensorrt", rig, verified=True)
        assert await right(rig)


async def test_a_precision_falls_where_that_is_allowed_and_says_so(tmp_path, repository, state):
    nano = Gpu(tmp_path / "gpu", compute_capability=(5, 3))
    add_plan_model(repository, config=PLAN + '[build]\nprecision = "int8"\nprecision_fallback = true\n')
    async with healing(repository, nano, state_dir=state) as rig:
        version = await until_on("tensorrt", rig, code="engine.precision_fell")
        assert (version["state"], version["verified"]) == ("ok", True)
        assert version["reason"].startswith("The plan was built as fp16, as int8 could not be had")
        assert told(rig, "engine.precision_fell") == 1
        assert await right(rig)


async def test_a_precision_that_may_not_fall_is_told_and_tried_once(tmp_path, repository, state):
    nano = Gpu(tmp_path / "gpu", compute_capability=(5, 3))
    add_plan_model(repository, config=PLAN + '[build]\nprecision = "int8"\n')
    async with healing(repository, nano, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.build_failed")
        build = version["build"]
        assert (build["state"], build["code"]) == ("failed", "build.precision_unsupported")
        assert await right(rig)
        assert told(rig, "engine.precision_fell") == 0


async def test_without_a_gpu_onnx_runtime_serves_and_the_status_says_why(tmp_path, repository, state):
    gpu = Gpu(tmp_path / "gpu", driver=False)
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = version_of(rig)
        assert (version["engine"], version["state"], version["code"]) == ("onnxruntime", "degraded", "engine.unavailable")
        assert "build" not in version
        assert await right(rig)
        assert [host["name"] for host in rig.serving.host_status()] == ["cpu"]
        with pytest.raises(errors.Unsupported, match="no plan can be built here"):
            await rig.serving.build_plan("one")


async def test_a_gpu_that_comes_late_is_found(tmp_path, repository, gpu, state):
    add_plan_model(repository)
    gpu.faults(cuda_init=100)
    async with healing(repository, gpu, state_dir=state, surroundings=surroundings(late_s=(0.2, 0.2, 5.0))) as rig:
        version = version_of(rig)
        assert (version["engine"], version["code"]) == ("onnxruntime", "engine.unavailable")
        gpu.faults()
        assert (await until_on("tensorrt", rig))["verified"]
        assert await right(rig)


async def test_a_check_that_cannot_be_made_is_made_again_and_then_told(repository, gpu, state, monkeypatch):
    asked = []

    async def no_room(*args):
        asked.append(args)
        raise errors.ArenaFull("no room for tensors now")

    add_plan_model(repository)
    with monkeypatch.context() as patched:
        patched.setattr(proof, "ask", no_room)
        async with healing(repository, gpu, state_dir=state, surroundings=surroundings(unable_s=0.05)) as rig:
            version = await until_on("onnxruntime", rig, code="engine.build_failed")
            assert "could not be checked: no room for tensors now" in version["reason"]
            assert len(asked) == 3
            assert await right(rig)
            patched.undo()
            await rig.serving.release("one")
            assert (await until_on("tensorrt", rig))["verified"]


async def test_a_dead_host_of_tensorrt_comes_back_as_it_was(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
        await rig.kill_host("gpu")
        await rig.until_ready("one")
        assert version_of(rig)["state"] == "ok"
        assert await right(rig)


async def test_a_dead_host_of_onnx_runtime_comes_back_degraded(repository, gpu, state):
    add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        await rig.kill_host("cpu")
        await rig.until_ready("one")
        version = version_of(rig)
        assert (version["state"], version["code"]) == ("degraded", "engine.building")
        assert await right(rig)
        gpu.let_go()
        await until_on("tensorrt", rig)


async def test_plans_without_a_state_directory_end_with_the_agent(repository, gpu):
    add_plan_model(repository)
    async with healing(repository, gpu) as rig:
        await until_on("tensorrt", rig)
        path = rig.serving.lookup("one").plan.path
        assert path.exists()
    assert not path.exists()


async def test_the_start_asks_the_service_manager_for_time_while_models_are_loaded(repository, gpu, state):
    asked = []
    add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state, surroundings=surroundings(extend_start=asked.append)):
        assert asked
        assert min(asked) >= 30
