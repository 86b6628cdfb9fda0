"""What may be killed, and what must not be lost by it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import threading
import time

import pytest

from tests.agent_process import DATA, AgentProcess, alive, descendants, until

ASTRONAUT = (DATA / "astronaut.jpg").read_bytes()
CAMERA = '[[cameras]]\nname = "clip"\nsource = "%s"\nmodel = "face"\nstale_after_s = 2\n' % (DATA / "demo-clip.mp4")


class Load:
    """Clients that ask for faces until they are told to stop, and what they were answered."""

    def __init__(self, agent, clients=4):
        self.agent = agent
        self.statuses = []
        self.uids = []
        self.wrong = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number):
        while not self._stop.is_set():
            with contextlib.suppress(OSError):
                status, body = self.agent.detect("face", ASTRONAUT, query="?source=device-%d" % number)
                self.statuses.append(status)
                if status == 200:
                    self.uids.append(body["uid"])
                    if len(body["objects"]) != 1:
                        self.wrong.append(body)
                elif "error" not in body:
                    self.wrong.append(body)
            if self.statuses and self.statuses[-1] != 200:
                time.sleep(0.02)


def serves(agent):
    status, _ = agent.detect("face", ASTRONAUT)
    return status == 200


@pytest.mark.parametrize("child", ["host:cpu", "camera:clip", "image"])
def test_a_child_killed_under_load_is_back_within_five_seconds_and_the_agent_stays(tmp_path, face_models, child):
    with AgentProcess(tmp_path, face_models, CAMERA) as agent:
        until(lambda: agent.status()["cameras"][0]["state"] == "ok", 20, "the camera")
        with Load(agent) as load:
            until(lambda: load.statuses.count(200) > 3, 20, "answers under load")
            pid = agent.child_pid(child)
            assert pid
            os.kill(pid, signal.SIGKILL)
            until(lambda: agent.child_pid(child) not in (0, pid), 5, "another " + child)
            until(lambda: serves(agent), 5, "an answer")
            until(lambda: agent.status()["cameras"][0]["state"] == "ok", 5, "the camera")
        assert agent.process.poll() is None
        assert load.wrong == []
        assert set(load.statuses) <= {200, 500, 503}
        counted = agent.json("/api/results?source=camera/clip&limit=1")["results"][0]["seq"]
        until(lambda: agent.json("/api/results?source=camera/clip&limit=1")["results"][0]["seq"] > counted, 5, "camera results")


def test_a_killed_agent_leaves_no_child_and_every_acknowledged_result_is_in_the_file(tmp_path, face_models):
    agent = AgentProcess(tmp_path, face_models, CAMERA).start()
    with Load(agent) as load:
        until(lambda: len(load.uids) > 20, 30, "acknowledged results")
        below = descendants(agent.process.pid)
        assert len(below) >= 3
        agent.process.kill()
        agent.process.wait()
        until(lambda: not any(map(alive, below)), 2, "the end of the children")
    database = sqlite3.connect(str(tmp_path / "state" / "edge-agent.db"))
    try:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        kept = {uid for (uid,) in database.execute("SELECT uid FROM result")}
    finally:
        database.close()
    assert set(load.uids) <= kept
    with AgentProcess.start(agent) and contextlib.nullcontext():
        started = agent.json("/api/events?limit=20")["events"]
        assert any(event["code"] == "agent.started_after_crash" for event in started)
    assert agent.stop() == 0


def test_the_first_signal_drains_and_the_second_leaves_at_once(tmp_path, face_models):
    agent = AgentProcess(tmp_path, face_models, CAMERA).start()
    with Load(agent, clients=2) as load:
        until(lambda: load.statuses.count(200) > 2, 20, "answers")
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(30) == 0
    assert load.wrong == []
    agent.start()
    below = descendants(agent.process.pid)
    os.kill(agent.child_pid("host:cpu"), signal.SIGSTOP)  # a host that will not answer keeps the orderly stop waiting
    asked = threading.Thread(target=lambda: contextlib.suppress(OSError) and agent_detect(agent))
    asked.start()
    time.sleep(0.3)
    agent.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert agent.process.poll() is None
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(5) == 128 + signal.SIGTERM
    until(lambda: not any(map(alive, below)), 2, "the end of the children")
    asked.join()


def agent_detect(agent):
    with contextlib.suppress(OSError):
        agent.detect("face", ASTRONAUT)


def test_logs_of_what_happened_are_in_the_store(tmp_path, face_models):
    with AgentProcess(tmp_path, face_models) as agent:
        os.kill(agent.child_pid("host:cpu"), signal.SIGKILL)
        until(lambda: any(row["code"] == "engine_host.died" for row in agent.json("/api/logs")["logs"]), 10, "the log row")
        printed = agent.cli("events", "--format", "json")
        kinds = [event["kind"] for event in json.loads(printed.stdout)]
        assert "engine_host.down" in kinds
        assert "agent.started" in kinds
