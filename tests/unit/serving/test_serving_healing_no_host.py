"""A host whose interpreter cannot start: ONNX Runtime serves at once, and TensorRT when the interpreter is there."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from edge_agent.domain.status import State
from tests.fake_gpu import make_plan
from tests.healing_rig import add_plan_model, healing, right, surroundings, until, until_on, version_of
from tests.serving_rig import MODELS, add_model

PATIENCE_S = 20.0  #: the host itself is given 30 s to start, twice, and 300 s for a load


class Broken:
    """Hosts whose interpreter is a path that a test fills."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "python"
        self.hosts = {name: HostSection(python=str(self.python)) for name in ("gpu", "other")}

    def be(self, text: str) -> None:
        new = self.python.with_name("python.new")
        new.write_text("#!/bin/sh\n%s\n" % text)
        new.chmod(0o755)
        os.replace(new, self.python)


@pytest.fixture
def broken(tmp_path):
    return Broken(tmp_path)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "No such file or directory"),
        ('exec %s -S "$@"' % sys.executable, "No module named 'numpy'"),
    ],
    ids=["absent", "numpy"],
)
async def test_onnx_runtime_serves_at_once_where_the_gpus_host_cannot_start(repository, broken, state, script, reason):
    if script is not None:
        broken.be(script)
    add_plan_model(repository)
    began = time.monotonic()
    async with healing(repository, broken, state_dir=state) as rig:
        version = version_of(rig)
        assert (version["engine"], version["code"]) == ("onnxruntime", "engine.unavailable")
        assert reason in version["reason"]
        assert "host:gpu cannot be started" in version["reason"]
        assert await right(rig)
        with pytest.raises(errors.Unsupported, match="host:gpu cannot be started.*%s" % reason):
            await asyncio.wait_for(rig.serving.build_plan("one"), PATIENCE_S)
        assert time.monotonic() - began < PATIENCE_S


async def test_an_interpreter_that_appears_later_brings_tensorrt(repository, broken, gpu, state):
    add_plan_model(repository)
    late = surroundings(late_s=(0.2, 0.2, 5.0))
    async with healing(repository, broken, state_dir=state, surroundings=late) as rig:
        await until_on("onnxruntime", rig, code="engine.unavailable")
        broken.be('exec %s "$@"' % gpu.python)
        assert (await until_on("tensorrt", rig))["verified"]
        assert await right(rig)


async def test_models_of_a_host_that_cannot_start_fail_at_once_with_its_reason(repository, broken, state):
    broken.be("echo this interpreter is broken; exit 3")
    add_model(repository, "there", "add_one.onnx", 'platform = "onnxruntime_onnx"\nhost = "other"\n')
    folder = add_plan_model(repository, "planned")
    make_plan(MODELS / "add_one.onnx", folder / "1/model.plan")
    (folder / "1/model.onnx").unlink()
    async with healing(repository, broken, state_dir=state) as rig:
        for name in ("there", "planned"):
            version = version_of(rig, name)
            assert (version["state"], version["code"]) == (State.FAILED.value, "engine_host.cannot_start")
            assert "this interpreter is broken" in version["reason"]
        broken.be('exec %s "$@"' % sys.executable)
        await asyncio.wait_for(rig.serving.release("there"), PATIENCE_S)
        await until(lambda: version_of(rig, "there")["state"] == "ok", rig)
