"""When the agent dies, however it dies, no child survives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

import edge_agent

HERE = Path(__file__).parent
ROOT = str(Path(edge_agent.__file__).parent.parent)


class StandIn:
    """The agent's part, played by a process that may be killed."""

    def __init__(self, marker: str) -> None:
        self.marker = marker
        self.running: List[subprocess.Popen] = []

    def start(self, mode: str, count: int = 2) -> subprocess.Popen:
        children = str(HERE / "children")
        process = subprocess.Popen(
            [sys.executable, children + "/agent_stand_in.py", self.marker, children, mode, str(count)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": ROOT},
        )
        self.running.append(process)
        return process


@pytest.fixture
def stand_in(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    made = StandIn("--mark-%d-%d" % (os.getpid(), time.monotonic_ns()))
    yield made
    for process in made.running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("mode", ["idle", "hold", "hold_slowly", "sleep_slowly"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
async def test_no_child_survives_the_agent_whatever_it_is_in(
    stand_in: StandIn, until: Callable[..., Any], processes_with: Callable[[str], List[int]], mode: str, number: int
) -> None:
    agent = stand_in.start(mode)
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"up 2\n"
    assert len(processes_with(stand_in.marker)) == 3
    agent.send_signal(number)
    agent.wait()
    await until(lambda: not processes_with(stand_in.marker), timeout_s=2.0)


async def test_no_stopped_child_survives_the_agent(
    stand_in: StandIn, until: Callable[..., Any], processes_with: Callable[[str], List[int]]
) -> None:
    agent = stand_in.start("idle")
    assert agent.stdout is not None
    agent.stdout.readline()
    for pid in processes_with(stand_in.marker):
        if pid != agent.pid:
            os.kill(pid, signal.SIGSTOP)
    agent.kill()
    agent.wait()
    await until(lambda: not processes_with(stand_in.marker), timeout_s=2.0)


@pytest.mark.timeout(180)
async def test_no_child_survives_an_agent_killed_in_mid_spawn(
    stand_in: StandIn, until: Callable[..., Any], processes_with: Callable[[str], List[int]]
) -> None:
    caught = 0
    for step in range(40):
        agent = stand_in.start("idle", count=4)
        await until(lambda: len(processes_with(stand_in.marker)) > 1)
        deadline = time.monotonic() + 0.002 * step  # from the first fork to after the last child is up
        while time.monotonic() < deadline:
            pass
        agent.kill()
        agent.wait()
        caught += bool(processes_with(stand_in.marker))
        await until(lambda: not processes_with(stand_in.marker), timeout_s=10.0)
    assert caught > 0, "no kill came between a child's fork and its end: the test showed nothing"
