from __future__ import annotations

import asyncio
import gc
import os
import signal
from pathlib import Path

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import State
from edge_agent.processes.arena import Arena
from edge_agent.serving.loading import Loader, _tensorrt
from edge_agent.serving.repository import scan
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.metrics import Metrics
from tests.doubles.engine_host import until
from tests.fake_gpu import gpu_python, make_plan
from tests.serving_rig import MODELS, Rig, add_model, running


def state(rig, name):
    return next((model["state"], model["code"], model["reason"]) for model in rig.serving.status() if model["name"] == name)


def hosts(rig):
    return {host["name"]: host["models"] for host in rig.serving.host_status()}


def children():
    found = []
    for listing in Path("/proc/self/task").glob("*/children"):
        found += listing.read_text().split()
    return found


async def test_a_plan_alone_fails_with_its_reason_where_there_is_no_gpu_and_leaves_no_host(tmp_path):
    (tmp_path / "plan/1").mkdir(parents=True)
    (tmp_path / "plan/1/model.plan").write_bytes(b"plan")
    async with running(tmp_path, hosts={"gpu": HostSection(python=gpu_python(tmp_path / "python", driver=False))}) as rig:
        version = rig.serving.status()[0]["versions"][0]
        assert (version["state"], version["code"]) == ("failed", "engine.no_driver")
        assert version["args"]["text"]
        assert hosts(rig) == {}
        assert rig.serving.ready()
        assert rig.journal.versions == {("plan", "1"): "failed"}


async def test_a_model_whose_config_does_not_fit_its_file_is_not_kept_in_its_host(tmp_path):
    add_model(
        tmp_path, "bad", "mean_colour.onnx", 'max_batch_size = 4\n[image]\nwidth = 99\n[decode]\nkind = "classification"\n'
    )
    add_model(tmp_path, "good", "add_one.onnx")
    async with running(tmp_path) as rig:
        assert state(rig, "bad")[:2] == ("failed", "model.config_rejected")
        assert hosts(rig) == {"cpu": ["good/1"]}
        os.kill(rig.host_pid(), signal.SIGKILL)
        await until(lambda: not rig.serving.is_ready("good"))
        await rig.until_ready("good")
        assert state(rig, "bad")[:2] == ("failed", "model.config_rejected")
        assert hosts(rig) == {"cpu": ["good/1"]}


async def test_models_name_their_hosts_and_each_host_is_a_process(tmp_path):
    add_model(tmp_path, "one", "add_one.onnx", 'host = "own"\n')
    add_model(tmp_path, "two", "add_one.onnx", "[[instance_group]]\ncount = 2\n")
    add_model(tmp_path, "three", "add_one.onnx")
    async with running(tmp_path, hosts={"own": HostSection(threads=1)}) as rig:
        assert hosts(rig) == {"own": ["one/1"], "cpu": ["three/1", "two/1"]}
        assert rig.host_pid("own") != rig.host_pid("cpu")


async def test_a_host_whose_interpreter_is_not_there_fails_its_models_and_no_others(tmp_path):
    add_model(tmp_path, "one", "add_one.onnx", 'host = "odd"\n')
    add_model(tmp_path, "two", "add_one.onnx")
    odd = HostSection(python=str(tmp_path / "no-python"))
    async with running(tmp_path, hosts={"odd": odd}) as rig:
        assert state(rig, "one")[:2] == ("failed", "engine_host.cannot_start")
        assert rig.serving.is_ready("two")
        assert rig.serving.ready()


async def test_a_file_that_went_away_is_a_failure(tmp_path):
    add_model(tmp_path, "gone", "add_one.onnx")
    rig = Rig(tmp_path)
    await rig.serving._loader.start()
    (entry,) = scan([tmp_path])
    version = ServedVersion("gone", entry.versions[0], entry.config, rig.clock)
    entry.versions[0].path.unlink()
    await rig.serving._loader.load(version)
    assert version.sha256 == ""
    assert (version.part.state, version.part.code) == (State.FAILED, "model.load_failed")
    await rig.serving.stop()


def test_the_profiles_of_all_instance_groups_go_to_the_engine(tmp_path):
    groups = '[[instance_group]]\nprofile = ["2", "0"]\n[[instance_group]]\nprofile = ["2"]\n'
    add_model(tmp_path, "one", "add_one.onnx", 'platform = "tensorrt_plan"\n' + groups)
    (entry,) = scan([tmp_path])
    assert _tensorrt(entry.config)["profiles"] == [0, 2]


@pytest.mark.parametrize("number", ["first", "-1", "\u00b2"])
async def test_a_profile_that_is_no_number_is_told_and_not_passed_over(tmp_path, number):
    python = gpu_python(tmp_path / "python")
    config = 'platform = "tensorrt_plan"\n[[instance_group]]\nprofile = ["%s"]\n' % number
    folder = add_model(tmp_path / "models", "one", "add_one.onnx", config)
    make_plan(MODELS / "add_one.onnx", folder / "1" / "model.plan", profiles=[{"x": ((1, 4), (4, 4), (8, 4))}])
    (folder / "1" / "model.onnx").unlink()
    async with running(tmp_path / "models", hosts={"gpu": HostSection(python=python)}) as rig:
        assert state(rig, "one")[:2] == ("failed", "model.config_rejected")
        assert "%r is no number" % number in str(rig.serving.status()[0])


async def test_a_profile_that_the_plan_lacks_fails_the_load_and_says_which_there_are(tmp_path):
    config = 'platform = "tensorrt_plan"\n[[instance_group]]\nprofile = ["1"]\n'
    folder = add_model(tmp_path / "models", "one", "add_one.onnx", config)
    make_plan(MODELS / "add_one.onnx", folder / "1" / "model.plan", profiles=[{"x": ((1, 4), (4, 4), (8, 4))}])
    (folder / "1" / "model.onnx").unlink()
    hosts = {"gpu": HostSection(python=gpu_python(tmp_path / "python"))}
    async with running(tmp_path / "models", hosts=hosts) as rig:
        assert state(rig, "one")[:2] == ("failed", "model.load_failed")
        assert "names profile 1, and the plan has profiles 0 to 0" in str(rig.serving.status()[0])


class NoMemory(Arena):
    """The system gives no segment."""

    def segment(self, name, reserve_bytes=0):
        raise errors.ArenaFull("the system gives no shared memory for %s" % name)


async def test_whatever_goes_wrong_in_a_load_the_version_has_failed_and_is_not_loading_for_ever(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx")
    loader = Loader(NoMemory(1 << 20), Clock(), Metrics(), {}, lambda kind, name, text, code: None)
    await loader.start()
    (entry,) = scan([tmp_path])
    version = ServedVersion("add", entry.versions[0], entry.config, Clock())
    await loader.load(version)
    assert version.part.state is State.FAILED
    assert "no shared memory" in version.part.args["text"]
    await loader.stop()


@pytest.mark.parametrize("steps", [*range(0, 24, 2), 40, 200])
async def test_serving_may_be_stopped_at_any_moment_of_its_start(tmp_path, steps):
    before = set(children())
    add_model(tmp_path, "one", "add_one.onnx")
    add_model(tmp_path, "two", "add_one.onnx", 'host = "own"\n')
    rig = Rig(tmp_path)
    await rig.serving.start()
    for _ in range(steps):
        await asyncio.sleep(0.0005 if steps > 30 else 0)
    await rig.serving.stop()
    await rig.serving.stop()
    assert set(children()) <= before
    assert len(asyncio.all_tasks()) == 1
    assert rig.arena.status()["slots"] == 0
    gc.collect()


async def test_a_model_of_hundreds_of_small_requests_at_once_refuses_none_of_them(tmp_path):
    """A message to the host has room for some hundreds; a batch of more is made of several."""
    add_model(
        tmp_path, "add", "add_one.onnx", "max_batch_size = 2048\n[dynamic_batching]\nmax_queue_delay_microseconds = 500000\n"
    )
    async with running(tmp_path) as rig:
        asked = [rig.ask("add", numpy.full((1, 4), n, numpy.float32)) for n in range(1000)]
        answers = await asyncio.wait_for(asyncio.gather(*asked), 30)
        assert [float(answer[0, 0]) for answer in answers] == [n + 1.0 for n in range(1000)]
        assert 300 < max(record.batch_size for record in rig.journal.requests) < 1000


async def test_facts_of_a_gpu_may_take_as_long_as_a_load(tmp_path):
    """A Nano that has just booted needs half a minute and more for its first import of TensorRT."""
    python = gpu_python(tmp_path)
    (site,) = (tmp_path / "gpu-python/lib").glob("python*/site-packages")
    (site / "tensorrt.py").write_text("import time\ntime.sleep(600)\n")
    arena = Arena(1 << 20)
    sections = {"gpu": HostSection(python=python, load_timeout_s=2.0)}
    loader = Loader(arena, Clock(), Metrics(), sections, lambda kind, name, text, code: None)
    await loader.start()
    try:
        facts = await asyncio.wait_for(loader.facts("gpu"), 25.0)
        assert (facts.usable, facts.code) == (False, "engine.broken")
        assert "within 2 s" in facts.text
    finally:
        await loader.stop()
        arena.close()
