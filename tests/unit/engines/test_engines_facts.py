from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from edge_agent.domain.clock import Clock
from edge_agent.domain.gpu import GpuFacts
from edge_agent.engines.facts import HostFacts
from edge_agent.processes.child import Child, ChildSpec
from edge_agent.processes.supervisor import Supervisor
from tests.doubles.engine_host import until

WAIT_S = 20.0


def test_facts_that_a_host_does_not_tell_are_none():
    assert GpuFacts.from_reply({}) == GpuFacts()
    assert not GpuFacts.from_reply({"available": True}).usable


def test_facts_are_read_as_the_host_tells_them():
    facts = GpuFacts.from_reply({"available": True, "tensorrt": "8.2.1", "compute_capability": [5, 3], "device": "Nano"})
    assert (facts.usable, facts.compute_capability, facts.device) == (True, (5, 3), "Nano")


@pytest.fixture
def child(tmp_path):
    """A child whose module says what it does at `facts`."""

    def spec(body: str) -> ChildSpec:
        text = (
            "import os\n"
            "from edge_agent.engine_host import wire\n"
            "from edge_agent.engine_host.control import Control\n"
            "def facts(message, descriptors):\n    %s\n"
            "def main(sock, args):\n"
            "    control = Control(sock, wire.SegmentViews())\n"
            "    control.handler('facts', control.defer(facts))\n"
            "    control.run()\n"
        )
        (tmp_path / "asked.py").write_text(text % body)
        return ChildSpec("asked", "asked", python=sys.executable, path=(str(tmp_path),))

    return spec


async def _nothing(child: Child) -> None:
    """What a supervisor does when its child is up."""


async def ask(spec: ChildSpec, timeout_s: float) -> GpuFacts:
    supervisor = Supervisor(spec, on_up=_nothing, on_down=lambda reason, reaped: None, clock=Clock())
    await supervisor.start()
    try:
        return await HostFacts(supervisor, Clock()).ask(asyncio.Lock(), timeout_s)
    finally:
        await supervisor.stop()


async def test_a_host_that_ends_of_the_question_has_no_tensorrt(child):
    facts = await ask(child("os._exit(3)"), WAIT_S)
    assert (facts.usable, facts.code) == (False, "engine.broken")
    assert "while it looked for TensorRT" in facts.text


async def test_a_host_that_hangs_of_the_question_has_no_tensorrt(child):
    facts = await ask(child("import time; time.sleep(60)"), 2.0)
    assert (facts.usable, facts.code) == (False, "engine.broken")


async def test_the_second_answer_counts_when_the_first_life_ended(child, tmp_path):
    mark = str(tmp_path / "mark")
    body = "return {'available': True, 'tensorrt': '10'} if os.path.exists(%r) else (open(%r, 'w').close(), os._exit(3))"
    assert (await ask(child(body % (mark, mark)), WAIT_S)).usable


COUNTS = "open(os.path.join(%r, 'asked'), 'a').write('x') and None; return {'available': True, 'tensorrt': '10'}"


async def test_a_process_is_asked_once_and_the_next_one_again(child, tmp_path):
    supervisor = Supervisor(child(COUNTS % str(tmp_path)), on_up=_nothing, on_down=lambda reason, reaped: None, clock=Clock())
    facts, lock = HostFacts(supervisor, Clock()), asyncio.Lock()
    await supervisor.start()
    try:
        for _ in range(3):
            assert (await facts.ask(lock, WAIT_S)).usable
        assert (tmp_path / "asked").read_text() == "x"
        gone = supervisor.child
        os.kill(supervisor.pid, signal.SIGKILL)
        await until(lambda: supervisor.child not in (None, gone), WAIT_S)
        assert (await facts.ask(lock, WAIT_S)).usable
        assert (tmp_path / "asked").read_text() == "xx"
    finally:
        await supervisor.stop()


async def test_a_host_that_loads_is_asked_afterwards(child):
    supervisor = Supervisor(
        child("return {'available': True, 'tensorrt': '10'}"),
        on_up=_nothing,
        on_down=lambda reason, reaped: None,
        clock=Clock(),
    )
    lock = asyncio.Lock()
    await supervisor.start()
    try:
        async with lock:
            asked = asyncio.ensure_future(HostFacts(supervisor, Clock()).ask(lock, 0.5))
            assert not (await asyncio.wait([asked], timeout=1.0))[0]
        assert (await asked).usable
    finally:
        await supervisor.stop()
