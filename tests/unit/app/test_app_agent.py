from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sqlite3
import time
from pathlib import Path

import pytest

from edge_agent import errors
from edge_agent.app.agent import Agent
from tests.doubles.engine_host import until
from tests.doubles.house import BASE, config, living
from tests.serving_rig import add_model

CAMERA = '[[cameras]]\nname = "clip"\nsource = "%s"\nmodel = "colour"\n' % (Path(__file__).parents[2] / "data/demo-clip.mp4")
PICTURES = '[image]\n[decode]\nkind = "%s"\n'
#: hangs once the file is there
HANGS = """
import os, time

class Decoder:
    def __init__(self, config):
        pass

    def decode(self, outputs):
        while os.path.exists(%r):
            time.sleep(0.01)
        return [[] for _ in outputs["scores"]]
"""
ASTRONAUT = (Path(__file__).parents[2] / "data/astronaut.jpg").read_bytes()


@pytest.fixture(autouse=True)
def _the_root_logger_is_as_before():
    root = logging.getLogger()
    before = list(root.handlers), root.level
    yield
    assert (list(root.handlers), root.level) == before


def children():
    found = []
    for listing in Path("/proc/self/task").glob("*/children"):
        found += listing.read_text().split()
    return found


def events(folder):
    with contextlib.closing(sqlite3.connect(str(folder / "state/edge-agent.db"))) as database:
        return [kind for (kind,) in database.execute("SELECT kind FROM event ORDER BY seq")]


async def test_it_serves_until_a_signal_and_leaves_nothing_behind(tmp_path):
    before = set(children())
    settings = config(tmp_path, CAMERA)
    add_model(tmp_path / "models", "colour", "mean_colour.onnx", PICTURES % "classification")
    agent = Agent(settings, {})
    async with living(agent) as parts:
        await until(lambda: agent.status()["agent"]["state"] == "ok", 20)
        body = agent.status()
        assert [model["name"] for model in body["models"]] == ["colour"]
        assert body["cameras"][0]["state"] == "ok"
        assert len((await parts.detector.detect("colour", ASTRONAUT)).objects) > 0
        assert set(children()) > before
    assert set(children()) <= before
    assert agent.status()["agent"]["code"] == "agent.draining"
    kinds = events(tmp_path)
    assert [kinds[0], kinds[-1]] == ["agent.started", "agent.stopping"]
    assert {"engine_host.up", "model.loaded", "camera.up"} <= set(kinds)
    assert (tmp_path / "state/last-good.toml").exists()


async def test_the_service_manager_hears_of_readiness_and_of_the_end(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        heard = []

        def hear():
            with contextlib.suppress(BlockingIOError):
                heard.append(listening.recv(4096).decode())
            return heard

        async with living(Agent(config(tmp_path), {"NOTIFY_SOCKET": str(tmp_path / "notify")})):
            await until(lambda: any("READY=1" in text for text in hear()))
        await until(lambda: any("STOPPING=1" in text for text in hear()))
        assert "STOPPING" not in heard[0]


async def test_a_taken_port_ends_the_start_and_what_had_been_started(tmp_path):
    before = set(children())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = config(tmp_path, base=BASE.replace("[http]\nport = 0", "[http]\nport = %d" % taken.getsockname()[1]))
        with pytest.raises(errors.ListenError):
            await asyncio.wait_for(Agent(settings, {}).run(), 20)
    assert set(children()) <= before
    assert len(asyncio.all_tasks()) == 1


async def test_a_store_that_cannot_be_used_is_the_error_that_is_raised(tmp_path):
    settings = config(tmp_path)
    (tmp_path / "state/edge-agent.db").mkdir(parents=True)
    with pytest.raises(errors.StoreError):
        await asyncio.wait_for(Agent(settings, {}).run(), 20)
    assert len(asyncio.all_tasks()) == 1


async def test_a_repository_that_is_not_there_is_a_failed_part_and_the_agent_runs(tmp_path):
    settings = config(tmp_path)
    (tmp_path / "models").rmdir()
    async with living(Agent(settings, {})) as parts:
        status = parts.serving.repository_status()
        assert (status["state"], status["code"]) == ("failed", "model.repository")
        assert str(tmp_path / "models") in status["reason"]


async def test_a_state_directory_that_cannot_be_made_is_a_fault_of_the_configuration(tmp_path):
    settings = config(tmp_path)
    (tmp_path / "state").write_text("a file")
    with pytest.raises(errors.ConfigError, match="agent.state_dir"):
        await Agent(settings, {}).run()


async def test_other_machines_are_let_in_only_with_a_token(tmp_path):
    settings = config(tmp_path, base=BASE.replace("[http]\n", '[http]\nhost = "0.0.0.0"\n'))
    with pytest.raises(errors.ConfigError, match="edge-agent token add"):
        await Agent(settings, {}).run()


async def test_a_broken_configuration_that_a_good_one_stands_in_for_shows(tmp_path):
    broken = errors.ConfigError([("http.port", "is a word", "")])
    agent = Agent(config(tmp_path), {}, broken)
    async with living(agent):
        body = agent.status()["agent"]
        assert (body["state"], body["code"], body["safe_mode"]) == ("degraded", "config.safe_mode", True)
        assert "is a word" in json.dumps(body["args"])
    assert "config.rejected" in events(tmp_path)


async def test_requests_that_hang_do_not_hold_up_the_end_for_ever(tmp_path):
    settings = config(tmp_path)
    folder = add_model(tmp_path / "models", "stuck", "mean_colour.onnx", PICTURES % "python:hangs:Decoder")
    (folder / "hangs.py").write_text(HANGS % str(tmp_path / "hang"))
    agent = Agent(settings, {})
    async with living(agent) as parts:
        (tmp_path / "hang").touch()
        asked = [asyncio.ensure_future(parts.detector.detect("stuck", ASTRONAUT)) for _ in range(3)]
        await until(lambda: parts.serving.in_flight == 3, 20)
        started = time.monotonic()
    assert time.monotonic() - started < 10
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(answer, errors.Draining) for answer in answers), answers


# -- parts that do not end in order -------------------------------------------------------------------------------------


class Part:
    """One that notes its life, and may fail at its end."""

    def __init__(self, name, told, error=None):
        self.name, self.told, self.error = name, told, error

    async def start(self):
        self.told.append("start " + self.name)

    async def stop(self):
        self.told.append("stop " + self.name)
        if self.error is not None:
            raise self.error


class OddAgent(Agent):
    """An agent with parts of the test's between its own."""

    odd = ()

    def _prepare(self):
        super()._prepare()
        own = self._parts.in_start_order()
        self._parts.in_start_order = lambda: [own[0], *self.odd, *own[1:]]


@pytest.mark.parametrize("error", [errors.StoreError("odd"), ValueError("odd"), asyncio.CancelledError()])
async def test_a_part_that_fails_at_its_end_keeps_no_other_from_its_own(tmp_path, error):
    before, told = set(children()), []
    agent = OddAgent(config(tmp_path), {})
    agent.odd = [Part("one", told), Part("bad", told, error), Part("two", told)]
    with contextlib.suppress(ValueError, asyncio.CancelledError):
        async with living(agent):
            assert told == ["start one", "start bad", "start two"]
    assert told[3:] == ["stop two", "stop bad", "stop one"]
    assert set(children()) <= before
    assert events(tmp_path)[-1] == "agent.stopping"  # the store closed in order


async def test_a_signal_while_it_starts_is_not_lost(tmp_path):
    agent = OddAgent(config(tmp_path), {})

    class Slow(Part):
        async def start(self):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.1)

    agent.odd = [Slow("slow", [])]
    await asyncio.wait_for(agent.run(), 20)
    assert events(tmp_path)[-1] == "agent.stopping"
