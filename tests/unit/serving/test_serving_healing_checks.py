"""What a check says holds for the demands and the box it was made on, and a bad moment condemns no plan."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal

import numpy

from edge_agent import errors
from edge_agent.engines.plans import plan_files
from edge_agent.serving.healing import checks as checks_module
from edge_agent.serving.healing import proof
from edge_agent.serving.healing.checks import Check, Checks
from edge_agent.serving.loading import Loader
from tests.healing_rig import PLAN, WRONG, add_plan_model, healing, right, surroundings, told, until, until_on, version_of
from tests.promotion_rig import add_affine
from tests.serving_rig import Rig


def test_checks_are_kept_over_a_restart_for_each_demand_and_a_damaged_file_is_none(tmp_path):
    path = tmp_path / "proofs.json"
    kept = Checks(path)
    kept.put("key", "loose", "a" * 64, Check(True, {"p95_ms": 1.0}))
    kept.put("key", "strict", "a" * 64, Check(False, {}, "off by one"))
    again = Checks(path)
    again.load()
    assert again.of("key", "loose") == {"a" * 64: Check(True, {"p95_ms": 1.0})}
    assert again.of("key", "strict")["a" * 64].reason == "off by one"
    assert again.of("other", "loose") == {}
    again.forget("key")
    assert again.of("key", "loose") == {}
    path.write_text("[]")
    damaged = Checks(path)
    damaged.load()
    assert damaged.of("key", "strict") == {}


async def test_a_plan_of_other_bytes_than_its_key_says_is_not_kept(repository, gpu, state):
    """The file is another one when the builder reads it."""
    add_affine(repository, "one", 1, PLAN, 1.0)
    file = repository / "one/1/model.onnx"
    old = file.read_bytes()
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:
        await until(lambda: version_of(rig)["build"]["state"] == "building", rig)
        first = set(json.loads((state / "plans/tries.json").read_text())["keys"])
        add_affine(repository, "one", 1, PLAN, 1.0005)  # near enough for any check
        gpu.let_go()
        await until(lambda: set(json.loads((state / "plans/tries.json").read_text())["keys"]) - first, rig)
        await until_on("tensorrt", rig)
    for key in first:
        assert not (state / ("plans/%s.plan" % key)).exists()
        assert json.loads((state / "plans/tries.json").read_text())["keys"][key]["tries"] == 0
    file.write_bytes(old)


async def test_a_plan_is_not_answered_from_unchecked_because_onnx_runtime_has_no_memory_now(
    repository, gpu, state, monkeypatch
):
    add_plan_model(repository)
    gpu.gate.write_text("")
    gpu.faults(compute_gate=gpu.gate)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until(lambda: version_of(rig)["build"]["state"] == "checking", rig)
    bring, short = Loader.bring, [True]

    async def no_memory(self, version, engine, *args, **kwargs):
        if engine == "onnxruntime" and short:
            raise errors.EngineLoadError("no memory now")
        return await bring(self, version, engine, *args, **kwargs)

    monkeypatch.setattr(Loader, "bring", no_memory)
    gpu.let_go()
    async with healing(repository, gpu, state_dir=state, surroundings=surroundings(unable_s=1.0)) as rig:
        version = version_of(rig)
        assert (version["state"], version["verified"]) == ("failed", False)
        await until(lambda: "no memory now" in version_of(rig)["build"]["reason"], rig)
        assert not rig.serving.is_ready("one")
        short.clear()
        assert (await until_on("tensorrt", rig, state="ok"))["verified"]
        assert await right(rig)


async def test_a_check_that_cannot_be_written_down_is_made_once(repository, gpu, state, monkeypatch):
    def full(*args):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(plan_files, "write_sidecar", full)
    monkeypatch.setattr(checks_module, "write_durably", full)
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig, verified=True)
        await until(lambda: told(rig, "engine.built") == 1, rig)
        assert told(rig, "model.loaded") == 2


async def test_a_plan_that_no_sample_fits_is_not_swapped_in_for_onnx_runtime(repository, gpu, state, monkeypatch):
    async def large(*args, **kwargs):
        raise errors.PayloadTooLarge("larger than the arena")

    monkeypatch.setattr(proof, "ask", large)
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.build_failed")
        assert "no sample fits" in version["reason"]
        assert told(rig, "model.loaded") == 1


async def test_what_is_slow_in_a_busy_moment_is_measured_again(repository, gpu, state, monkeypatch):
    monkeypatch.setattr(proof, "_RUNS_S", 0.5)
    add_plan_model(repository, config=PLAN + "[accept]\nmax_p95_ms = 200\n")
    gpu.faults(compute_ms=300)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.verify_failed")
        assert "more than the 200 of max_p95_ms" in version["reason"]
    gpu.faults(build="crash")
    async with healing(repository, gpu, state_dir=state) as rig:  # the plan was kept
        await until_on("tensorrt", rig, verified=True)
        gpu.faults(compute_ms=300)
        answer = await rig.serving.verify_plan("one")
        assert (answer["good"], answer["code"]) == (False, "engine.verify_failed")
        assert version_of(rig)["engine"] == "tensorrt"


async def test_golden_outputs_that_were_mended_and_tightened_are_asked_anew(repository, gpu, state):
    folder = add_plan_model(repository, config=PLAN + '[accept]\ngolden = "golden"\n')
    (folder / "golden").mkdir()
    numpy.savez(str(folder / "golden/inputs.npz"), x=numpy.ones((1, 4), numpy.float32))
    numpy.savez(str(folder / "golden/outputs.npz"), y=numpy.ones((1, 4), numpy.float32))  # a slip
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("onnxruntime", rig, code="engine.verify_failed")
        numpy.savez(str(folder / "golden/outputs.npz"), y=numpy.full((1, 4), 2.001, numpy.float32))
        gpu.faults(build="crash")
        await rig.serving._control.again("one", "1")
        await until_on("tensorrt", rig, verified=True)
        (folder / "config.toml").write_text(PLAN + '[accept]\ngolden = "golden"\nmax_abs_error = 0.0001\n')
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.verify_failed")
        assert "more than the 0.0001 of max_abs_error" in version["reason"]


async def test_golden_inputs_of_another_kind_end_the_check_with_a_reason(repository, gpu, state):
    folder = add_plan_model(repository, config=PLAN + '[accept]\ngolden = "golden"\n')
    (folder / "golden").mkdir()
    numpy.savez(str(folder / "golden/inputs.npz"), x=numpy.array([["a", "b", "c", "d"]]))
    numpy.savez(str(folder / "golden/outputs.npz"), y=numpy.ones((1, 4), numpy.float32))
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.golden_unreadable")
        assert "input 'x' is FP32" in version["reason"]
        assert await right(rig)


async def test_a_check_that_breaks_unforeseen_ends_the_job_and_the_version_says_so(repository, gpu, state, monkeypatch):
    def broken(*args):
        raise ZeroDivisionError("what nobody foresaw")

    monkeypatch.setattr(proof, "compare", broken)
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        version = await until_on("onnxruntime", rig, code="engine.build_failed")
        assert "what nobody foresaw" in version["reason"]
        assert version["build"]["state"] == "failed"
        assert await right(rig)


async def test_a_swap_that_fails_leaves_no_word_of_a_build(repository, gpu, state):
    add_plan_model(repository)
    gpu.hold_builds()
    async with healing(repository, gpu, state_dir=state) as rig:

        async def again(name, version):
            raise errors.EngineLoadError("no memory for it now")

        rig.serving._healer._workshop.again = again
        gpu.let_go()
        version = await until_on("onnxruntime", rig, code="engine.build_failed")
        assert "no memory for it now" in version["reason"]


async def test_the_queue_goes_on_after_a_host_that_was_killed_in_a_check_and_cannot_load_again(repository, gpu, state):
    add_plan_model(repository)
    add_plan_model(repository, "two", PLAN + "[build]\nworkspace_mb = 64\n")
    gpu.faults(compute_ms=1500)
    async with healing(repository, gpu, state_dir=state) as rig:

        def prover():
            hosts = rig.serving.host_status()
            return next((one for one in hosts if "proof" in one["name"] and one["state"] == "ok" and one["pid"]), None)

        await until(lambda: (version_of(rig).get("build") or {}).get("phase") == "compare", rig)
        gpu.faults(compute_ms=1500, deserialize="oom")
        os.kill((await until(prover, rig))["pid"], signal.SIGKILL)
        await until(lambda: told(rig, "engine_host.down"), rig)
        await until(lambda: version_of(rig)["build"]["reason"], rig)
        gpu.faults()
        await until_on("tensorrt", rig, verified=True)
        await until_on("tensorrt", rig, "two", verified=True)


async def test_a_plan_whose_host_the_kernel_kills_is_not_condemned(repository, gpu, state):
    add_plan_model(repository)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
    gpu.faults(deserialize="hang")
    rig = Rig(repository, hosts=gpu.hosts, surroundings=surroundings(), state_dir=state)
    await rig.serving.start()
    try:
        hosts = rig.serving.host_status
        for _ in range(3):
            loading = await until(
                lambda: next((one["pid"] for one in hosts() if one["name"] == "gpu" and one["state"] == "ok"), None), rig
            )
            await asyncio.sleep(0.5)
            with contextlib.suppress(ProcessLookupError):
                os.kill(loading, signal.SIGKILL)
            await until(lambda pid=loading: all(one["pid"] != pid or one["state"] != "ok" for one in hosts()), rig)
        version = await until_on("onnxruntime", rig, code="engine.unavailable")
        assert "was killed" in version["reason"]
        assert told(rig, "engine.plan_refused") == 0
    finally:
        await rig.serving.stop()
    gpu.faults(build="crash")
    async with healing(repository, gpu, state_dir=state) as rig:
        assert version_of(rig)["engine"] == "tensorrt"


async def test_a_plan_that_was_loaded_while_others_ran_in_its_host_is_checked_anew_alone(repository, gpu, state):
    add_plan_model(repository)
    add_plan_model(repository, "two", PLAN + "[build]\nworkspace_mb = 64\n")
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("tensorrt", rig)
        await until_on("tensorrt", rig, "two")
        await until(lambda: told(rig, "engine.built") == 2, rig)
        bring, deaths = Loader.bring, [1]

        async def died(self, version, engine, path, like, once=False, sha256=""):
            if engine == "tensorrt" and deaths and version.name == "two" and not version.aside:
                deaths.pop()
                raise errors.EngineLoadError("two/1 ended its engine host 3 times", code="model.stopped", deaths=3)
            await bring(self, version, engine, path, like, once, sha256=sha256)

        Loader.bring = died
        try:
            gpu.faults(build="crash")
            await rig.serving._control.again("two", "1")
            await until_on("tensorrt", rig, "two", verified=True)
            assert not deaths
            assert told(rig, "engine.plan_refused") == 0
        finally:
            Loader.bring = bring


async def test_no_host_stays_that_was_only_asked_for_its_gpu(repository, gpu, state):
    add_plan_model(repository)
    gpu.faults(parse="this is no model of mine")
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("onnxruntime", rig, code="engine.build_failed")
        await until(lambda: [host["name"] for host in rig.serving.host_status()] == ["cpu"], rig)
        gpu.hold_builds()
        await rig.serving.build_plan("one")
        await until(lambda: [host["name"] for host in rig.serving.host_status()] == ["cpu"], rig)
        gpu.let_go()
        await until_on("tensorrt", rig)


async def test_a_wrong_plan_is_never_answered_from_though_it_is_kept(repository, gpu, state):
    add_plan_model(repository)
    gpu.faults(wrong_outputs=WRONG)
    async with healing(repository, gpu, state_dir=state) as rig:
        await until_on("onnxruntime", rig, code="engine.verify_failed")
    (state / "plans/proofs.json").unlink()
    async with healing(repository, gpu, state_dir=state) as rig:
        assert await right(rig)
        await until_on("onnxruntime", rig, code="engine.verify_failed")
        assert await right(rig)
