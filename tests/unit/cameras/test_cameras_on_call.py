"""A child on call with a worker that takes as long as it is told, or dies."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable

import pytest

from edge_agent.cameras.on_call import ChildOnCall, Job, Subject
from edge_agent.domain.clock import Clock
from edge_agent.errors import DeadlineExceeded, Draining, InvalidRequest
from edge_agent.processes.arena import Arena
from edge_agent.processes.child import ChildSpec

WORKER = """
import os, time
from edge_agent.engine_host import wire
from edge_agent.engine_host.control import Control

def work(message, descriptors):
    time.sleep(message["seconds"])
    if message.get("dies"):
        os._exit(9)
    return {"number": message["number"]}

def main(sock, args):
    control = Control(sock, wire.SegmentViews())
    control.handler("work", control.defer(work))
    control.run()
"""


@pytest.fixture
async def worker(arena: Arena, tmp_path: Path) -> AsyncIterator[ChildOnCall]:
    (tmp_path / "working_child.py").write_text(WORKER)
    spec = ChildSpec("worker", "working_child", path=(str(tmp_path),), backoff_first_s=0.05, backoff_cap_s=0.2)
    child = ChildOnCall(spec, arena, Clock(), Subject("load", "worker", "request.invalid"))
    await work(child, 0)
    yield child
    await child.stop()


async def work(
    child: ChildOnCall, number: int, seconds: float = 0.0, budget_s: float = 5.0, timeout_s: float = 20.0, **more: Any
) -> int:
    fields = {"seconds": seconds, "number": number, **more}
    lease, reply = await child.run(Job("work", [b"bytes"], 10, budget_s, fields), timeout_s)
    lease.release()
    assert reply["number"] == number
    return number


async def test_the_budget_runs_from_when_the_child_begins(worker: ChildOnCall) -> None:
    slow = [asyncio.ensure_future(work(worker, number, 0.7, 1.0)) for number in range(4)]
    assert await asyncio.gather(*slow) == [0, 1, 2, 3]
    assert worker.restarts == 0


async def test_what_hangs_the_child_is_refused_and_what_waited_behind_it_is_done(worker: ChildOnCall) -> None:
    hangs = asyncio.ensure_future(work(worker, 1, 60.0, 0.5))
    innocent = asyncio.ensure_future(work(worker, 2, 0.3, 0.5))
    with pytest.raises(InvalidRequest, match="the load hangs the worker"):
        await hangs
    assert await innocent == 2
    assert worker.restarts == 1


async def test_what_ends_the_child_does_so_alone_and_is_refused(worker: ChildOnCall) -> None:
    dies = asyncio.ensure_future(work(worker, 1, 0.1, dies=True))
    others = [asyncio.ensure_future(work(worker, number)) for number in range(2, 8)]
    with pytest.raises(InvalidRequest, match="the load ended the worker"):
        await dies
    assert await asyncio.gather(*others) == list(range(2, 8))


async def test_what_a_caller_left_behind_is_not_blamed_on_the_next(worker: ChildOnCall) -> None:
    with pytest.raises(DeadlineExceeded):
        await work(worker, 1, 0.6, timeout_s=0.1, dies=True)
    with pytest.raises(DeadlineExceeded):
        await work(worker, 2, 0.6, timeout_s=0.1, dies=True)
    assert await work(worker, 3) == 3  # it had its turn when the two were over


async def test_a_child_that_ended_with_nothing_to_do_is_nobodys_fault(worker: ChildOnCall) -> None:
    for number in range(3):
        os.kill(worker.pid, signal.SIGKILL)
        assert await work(worker, number) == number


async def test_a_stop_is_said_to_be_a_stop_and_not_the_bytes_fault(worker: ChildOnCall) -> None:
    asked = [asyncio.ensure_future(work(worker, number, 60.0)) for number in range(5)]
    await asyncio.sleep(0.2)
    await worker.stop()
    for end in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(end, Draining)
        assert str(end) == "the agent is stopping"


async def test_a_stop_in_the_moment_of_a_hang_is_a_stop(worker: ChildOnCall) -> None:
    os.kill(worker.pid, signal.SIGSTOP)
    asked = asyncio.ensure_future(work(worker, 1, 0.0, 0.3))
    await asyncio.sleep(0.1)
    stopping = asyncio.ensure_future(worker.stop())
    with pytest.raises(Draining):
        await asked
    await stopping


async def test_status_tells_process_and_counters(
    worker: ChildOnCall, arena: Arena, until: Callable[..., Awaitable[float]]
) -> None:
    unused = ChildOnCall(ChildSpec("idle", "x"), arena, Clock(), Subject("load", "worker", "request.invalid"))
    assert (unused.status()["state"], unused.status()["pid"]) == ("off", 0)
    status = worker.status()
    assert (status["state"], status["pid"], status["restarts"], status["refused"]) == ("ok", worker.pid, 0, 0)
    assert status["since"]
    os.kill(worker.pid, signal.SIGKILL)
    await until(lambda: worker.status()["state"] == "degraded")
    assert (worker.status()["code"], worker.status()["pid"]) == ("child.died", 0)
    await work(worker, 1)
    assert (worker.status()["state"], worker.status()["restarts"]) == ("ok", 1)
    await worker.stop()
    assert (worker.status()["state"], worker.status()["pid"]) == ("off", 0)
