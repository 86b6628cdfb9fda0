"""An engine host whose interpreter goes, and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import State
from edge_agent.engines.host import EngineHost
from edge_agent.engines.hosted import HostOptions
from edge_agent.engines.load import LoadOrder
from edge_agent.processes.arena import Arena
from tests.doubles.engine_host import until
from tests.serving_rig import MODELS

WAIT_S = 20.0  #: against the 300 s of a load


def order(folder, name):
    path = folder / (name + ".onnx")
    path.write_bytes((MODELS / "add_one.onnx").read_bytes())
    fields = {"max_batch_size": 8, "threads": 1, "decode": None, "instances": 1}
    return LoadOrder(name, "1", "onnxruntime_onnx", str(path), str(folder), **fields)


@pytest.fixture
def python(tmp_path):
    """An interpreter that can go."""
    path = tmp_path / "python"
    path.write_text('#!/bin/sh\nexec %s "$@"\n' % sys.executable)
    path.chmod(0o755)
    return path


@pytest.fixture
async def host(python):
    arena, events = Arena(16 << 20), []
    made = EngineHost(HostOptions("own", str(python)), arena, Clock(), lambda kind, name, text: events.append(kind))
    made.told = events
    await made.start()
    yield made
    await made.stop()
    arena.close()


async def test_loads_and_pictures_hear_at_once_that_it_cannot_come_back_and_its_models_return_with_it(tmp_path, python, host):
    model = await host.load(order(tmp_path, "one"))
    away = python.rename(tmp_path / "away")
    os.kill(host.supervisor.pid, signal.SIGKILL)
    with pytest.raises(errors.ChildCannotStart, match="host:own cannot be started: .*%s" % python) as caught:
        await asyncio.wait_for(host.load(order(tmp_path, "two")), WAIT_S)
    assert caught.value.args_by_name["code"] == host.end_code == host.status()["code"] == "engine_host.cannot_start"
    assert (host.status()["state"], model.ready, model.error) == (State.FAILED.value, False, None)
    assert str(python) in host.status()["reason"]
    facts = await asyncio.wait_for(host.facts(), WAIT_S)
    assert (facts.usable, facts.code) == (False, "engine_host.cannot_start")
    assert host.told.count("engine_host.down") == 1
    away.rename(python)
    await until(lambda: model.ready, 40.0)
    await host.load(order(tmp_path, "two"))
