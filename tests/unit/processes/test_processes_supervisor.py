from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, List, Optional

import pytest

from edge_agent.errors import ChildGone, ChildRefused, ChildTimeout, ModelNotReady
from edge_agent.processes.arena import Arena
from edge_agent.processes.child import Child
from edge_agent.processes.supervisor import SupervisorState

TRACER = str(Path(__file__).with_name("children") / "tracer.py")


def gone(pid: int) -> bool:
    """No such process, not even a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_child_is_up_after_its_set_up_and_not_before(family: Any) -> None:
    states = []

    async def on_up(child: Child) -> None:
        states.append((supervisor.state, supervisor.child))
        assert (await child.call("echo", {"text": "set up"}))["text"] == "set up"

    supervisor = family.supervisor(on_up=on_up)
    await supervisor.start()
    child = await supervisor.wait_up(30.0)
    assert states == [(SupervisorState.STARTING, None)]
    assert (supervisor.state, supervisor.child, supervisor.pid) == (SupervisorState.UP, child, child.pid)
    assert supervisor.since.endswith("Z")


async def test_a_killed_child_comes_back(family: Any) -> None:
    child = await family.child()
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildGone):
        await child.call("echo", {"text": "x"})
    supervisor = family.supervisors[0]
    again = await supervisor.wait_up(30.0)
    assert again is not child
    assert (await again.call("echo", {"text": "x"}))["text"] == "x"
    assert family.downs == [("ended by SIGKILL", True)]
    assert supervisor.restarts == 1


async def test_a_child_hung_with_the_interpreter_lock_held_is_killed_and_comes_back(family: Any) -> None:
    child = await family.child()
    started = time.monotonic()
    with pytest.raises(ChildGone, match="no sign of life"):
        await child.call("hold_slowly", timeout_s=1000)
    assert time.monotonic() - started < 10
    again = await family.supervisors[0].wait_up(30.0)
    assert (await again.call("echo", {"text": "x"}))["text"] == "x"
    assert family.downs == [("gave no sign of life for 0.5 s", True)]


async def test_a_stopped_child_is_killed_and_comes_back(family: Any) -> None:
    child = await family.child()
    os.kill(child.pid, signal.SIGSTOP)
    await asyncio.wait_for(asyncio.shield(child.ended), 10.0)
    again = await family.supervisors[0].wait_up(30.0)
    assert gone(child.pid)
    assert (await again.call("echo", {"text": "x"}))["text"] == "x"


async def test_a_child_stopped_before_its_first_answer_is_killed_too(family: Any, until: Callable[..., Any]) -> None:
    supervisor = family.supervisor(start_timeout_s=0.4)
    await supervisor.start()
    pid = supervisor.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: family.downs)
    assert "did not answer ping" in family.downs[0][0]
    assert gone(pid)


async def test_a_child_that_holds_the_lock_within_its_budget_is_left_alone(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child(ping_interval_s=0.05, silence_s=0.2)
    supervisor = family.supervisors[0]
    supervisor.busy(time.monotonic() + 1.5, "load")
    call = asyncio.ensure_future(child.call("hold", timeout_s=1000))
    await asyncio.sleep(1.0)
    assert not call.done()
    supervisor.idle("load")
    with pytest.raises(ChildGone, match="no sign of life"):
        await call


async def test_an_operation_over_its_budget_ends_the_life_with_its_reason(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child()
    supervisor = family.supervisors[0]
    codes: List[str] = []
    family.supervisors[0]._on_down = lambda reason, reaped: codes.append("%s: %s" % (supervisor.code, reason))
    supervisor.restart("engine_host.hung", "a batch ran for more than 10 s")
    assert supervisor.child is None or child.gone
    again = await supervisor.wait_up(30.0)
    assert again is not child
    assert codes == ["engine_host.hung: a batch ran for more than 10 s"]


async def test_who_hears_of_a_death_and_asks_again_gets_the_next_life(family: Any) -> None:
    child = await family.child()
    supervisor = family.supervisors[0]
    with pytest.raises(ChildGone):
        await child.call("die", {"code": 3})
    assert supervisor.child is None
    assert supervisor.state is SupervisorState.BACKOFF
    assert await supervisor.wait_up(30.0) is not child


async def test_a_death_first_noticed_by_a_call_counts_from_there(family: Any) -> None:
    child = await family.child()
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 (dead before the loop can read of it)
    with pytest.raises(ChildGone):
        await child.call("echo", {"text": "x"})
    assert family.supervisors[0].child is None
    assert await family.supervisors[0].wait_up(30.0) is not child


async def test_the_reason_of_an_end_says_how_and_what_it_said_last(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child()
    with pytest.raises(ChildGone):
        await child.call("die", {"code": 3})
    await until(lambda: family.downs)
    assert family.downs == [("ended with exit code 3: last words", True)]


async def test_a_death_that_an_heir_of_its_channel_hides_is_noticed(
    family: Any, until: Callable[..., Any], processes_with: Callable[[str], List[int]]
) -> None:
    marker = "--mark-%d" % os.getpid()
    child = await family.child(silence_s=1000.0, args=(marker,))
    try:
        with pytest.raises(ChildGone):
            await child.call("die_with_heir", timeout_s=20.0)
        await until(lambda: family.downs)
        assert family.downs == [("ended with exit code 3", True)]
    finally:
        await family.supervisors[0].stop()
        for pid in processes_with(marker):
            os.kill(pid, signal.SIGKILL)
    await until(lambda: not processes_with(marker))


async def test_the_code_of_an_end_stays_until_the_next(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child()
    supervisor = family.supervisors[0]
    supervisor.restart("engine_host.hung", "a batch took too long")
    child = await supervisor.wait_up(30.0)
    assert (supervisor.code, supervisor.reason) == ("engine_host.hung", "a batch took too long")
    os.kill(child.pid, signal.SIGSTOP)
    await until(lambda: supervisor.code == "child.silent")
    child = await supervisor.wait_up(30.0)
    os.kill(child.pid, signal.SIGKILL)
    await until(lambda: supervisor.code == "child.died")
    await supervisor.stop()
    assert supervisor.code in ("", "child.died")  # stopped in a life, or between two


async def test_a_child_that_closes_its_channel_but_stays_is_ended(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child()
    with pytest.raises(ChildGone):
        await child.call("close_channel")
    await until(lambda: family.downs)
    assert gone(child.pid)


async def test_one_that_cannot_be_set_up_is_tried_again_and_says_why(family: Any, until: Callable[..., Any]) -> None:
    async def on_up(child: Child) -> None:
        raise ModelNotReady("no engine file")

    supervisor = family.supervisor(on_up=on_up)
    await supervisor.start()
    await until(lambda: len(family.downs) >= 3)
    assert set(family.downs) == {("could not be set up: no engine file", True)}
    assert supervisor.child is None
    with pytest.raises(ChildTimeout, match="no engine file"):
        await supervisor.wait_up(0.01)


async def test_a_refusal_during_set_up_is_the_reason(family: Any, until: Callable[..., Any]) -> None:
    async def on_up(child: Child) -> None:
        with pytest.raises(ChildRefused):
            await child.call("crash")
        await child.call("refuse")

    supervisor = family.supervisor(on_up=on_up)
    await supervisor.start()
    await until(lambda: family.downs)
    assert family.downs[0] == ("not today", True)


async def test_a_bug_in_the_set_up_ends_a_life_and_not_the_supervision(
    family: Any, until: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def on_up(child: Child) -> None:
        if len(family.downs) < 2:
            raise ZeroDivisionError("a bug")

    def on_down(reason: str, reaped: bool) -> None:
        raise ZeroDivisionError("another")

    supervisor = family.supervisor(on_up=on_up, on_down=on_down)
    await supervisor.start()
    await supervisor.wait_up(30.0)
    assert "ZeroDivisionError: a bug" in family.downs[0][0]
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR] * 4


async def test_a_death_in_the_middle_of_the_set_up_ends_it(family: Any, until: Callable[..., Any]) -> None:
    cancelled = []

    async def on_up(child: Child) -> None:
        if family.downs:
            return
        os.kill(child.pid, signal.SIGKILL)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    supervisor = family.supervisor(on_up=on_up)
    await supervisor.start()
    await supervisor.wait_up(30.0)
    assert cancelled == [True]
    assert family.downs == [("ended by SIGKILL", True)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"python": "/nonexistent/python"}, "cannot be started"),
        ({"args": ("--die-at-start",)}, "no engine here"),
        ({"module": "no_such_module"}, "no_such_module"),
    ],
)
async def test_one_that_never_starts_is_tried_again_and_says_why(
    family: Any, until: Callable[..., Any], fields: Any, reason: str
) -> None:
    supervisor = family.supervisor(**fields)
    await supervisor.start()
    await until(lambda: len(family.downs) >= 2)
    assert all(reason in down[0] for down in family.downs)
    assert supervisor.restarts >= 1


async def test_a_lease_held_by_a_child_ends_only_when_it_has_been_reaped(family: Any) -> None:
    arena = Arena(1 << 20)
    segment = arena.segment("host")
    (held,) = await arena.acquire([(segment, 1 << 20)], 1.0)
    pid: List[int] = []
    seen: List[bool] = []

    async def on_up(child: Child) -> None:
        await child.attach(segment)
        pid.append(child.pid)

    def on_down(reason: str, reaped: bool) -> None:
        seen.append(reaped and gone(pid[0]))
        if len(seen) == 1:
            held.release()

    supervisor = family.supervisor(on_up=on_up, on_down=on_down)
    await supervisor.start()
    child = await supervisor.wait_up(30.0)
    waiting = asyncio.ensure_future(arena.acquire([(segment, 1)], 30.0))
    await asyncio.sleep(0)
    supervisor.restart("engine_host.hung", "test")
    assert child.gone
    assert not waiting.done()
    (lease,) = await waiting
    assert seen == [True]
    lease.release()
    arena.close()


async def held_by_a_driver(pid: int) -> subprocess.Popen:
    """Makes a process one that even SIGKILL does not let its parent reap, until `let_go`."""
    tracer = subprocess.Popen(  # noqa: ASYNC220 (waited for by its first line)
        [sys.executable, TRACER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert tracer.stdout is not None
    if await asyncio.get_running_loop().run_in_executor(None, tracer.stdout.readline) != b"holds\n":
        tracer.communicate()
        pytest.skip("ptrace is not allowed here")
    return tracer


async def test_one_that_cannot_be_reaped_is_given_up_and_replaced_and_its_late_end_told(
    family: Any, until: Callable[..., Any], zombies: Callable[[], List[int]]
) -> None:
    child = await family.child(kill_timeout_s=0.2)
    supervisor = family.supervisors[0]
    tracer = await held_by_a_driver(child.pid)
    try:
        supervisor.restart("engine_host.hung", "stuck in a driver")
        again = await supervisor.wait_up(30.0)
        assert family.downs == [("stuck in a driver", False)]
        assert again.pid != child.pid
        assert not gone(child.pid)
        assert family.late == []
    finally:
        tracer.communicate(timeout=30)
    await until(lambda: family.late == [child.pid])
    assert gone(child.pid)
    assert zombies() == []


async def test_no_more_are_started_while_four_cannot_be_reaped(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child(kill_timeout_s=0.1)
    supervisor = family.supervisors[0]
    tracers = []
    try:
        for number in range(4):
            tracers.append(await held_by_a_driver(child.pid))
            supervisor.restart("engine_host.hung", "stuck in a driver")
            if number < 3:
                child = await supervisor.wait_up(30.0)
        await until(lambda: "the machine needs a restart" in supervisor.reason)
        assert supervisor.pid is None
    finally:
        for tracer in tracers:
            tracer.communicate(timeout=30)
    await supervisor.wait_up(30.0)
    assert len(family.late) >= 1


async def test_stop_asks_first(family: Any) -> None:
    child = await family.child()
    supervisor = family.supervisors[0]
    started = time.monotonic()
    await supervisor.stop(timeout_s=20.0)
    assert time.monotonic() - started < 10
    assert child._process.returncode == 0
    assert gone(child.pid)
    assert (supervisor.state, family.downs) == (SupervisorState.STOPPED, [("stopped", True)])


async def test_stop_insists_with_sigterm(family: Any) -> None:
    child = await family.child(args=("--slow-stop",))
    await family.supervisors[0].stop(timeout_s=0.4)
    assert child._process.returncode == -signal.SIGTERM
    assert gone(child.pid)


async def test_stop_ends_one_that_listens_to_nothing(family: Any) -> None:
    child = await family.child(args=("--slow-stop",))
    await child.call("ignore_sigterm")
    started = time.monotonic()
    await family.supervisors[0].stop(timeout_s=0.4)
    assert time.monotonic() - started < 10
    assert child._process.returncode == -signal.SIGKILL


async def test_stop_in_the_middle_of_a_start_is_not_lost(family: Any, processes_with: Callable[[str], List[int]]) -> None:
    marker = "--mark-%d" % os.getpid()
    supervisor = family.supervisor(args=(marker,))
    await supervisor.start()
    assert supervisor.pid is not None
    await supervisor.stop(timeout_s=2.0)
    assert supervisor.state is SupervisorState.STOPPED
    assert processes_with(marker) == []


async def test_stop_in_the_middle_of_a_set_up_or_a_pause_is_not_lost(family: Any, until: Callable[..., Any]) -> None:
    async def on_up(child: Child) -> None:
        setting_up.set_result(None)
        await asyncio.sleep(1000)

    setting_up = asyncio.get_running_loop().create_future()
    supervisor = family.supervisor(on_up=on_up)
    await supervisor.start()
    await setting_up
    await supervisor.stop(timeout_s=2.0)
    assert supervisor.state is SupervisorState.STOPPED
    paused = family.supervisor(python="/nonexistent/python", backoff_first_s=1000.0, backoff_cap_s=1000.0)
    await paused.start()
    await until(lambda: paused.state is SupervisorState.BACKOFF)
    await asyncio.wait_for(paused.stop(), 5.0)
    assert paused.state is SupervisorState.STOPPED


async def test_a_stopped_one_can_be_stopped_and_started_again(family: Any) -> None:
    supervisor = family.supervisor()
    await supervisor.stop()
    await supervisor.start()
    await supervisor.start()
    await supervisor.wait_up(30.0)
    await supervisor.stop()
    await supervisor.stop()
    with pytest.raises(ChildGone, match="stopped"):
        await supervisor.wait_up(1.0)
    await supervisor.start()
    child = await supervisor.wait_up(30.0)
    assert (await child.call("echo", {"text": "again"}))["text"] == "again"


async def test_who_waits_for_a_child_hears_of_the_stop(family: Any) -> None:
    supervisor = family.supervisor(module="no_such_module")
    await supervisor.start()
    waiting = asyncio.ensure_future(supervisor.wait_up(1000.0))
    await asyncio.sleep(0)
    await supervisor.stop()
    with pytest.raises(ChildGone, match="stopped"):
        await waiting


async def test_children_are_started_from_the_main_thread_only(family: Any) -> None:
    """The death signal follows the thread: a child started from another would die with that."""
    reasons: List[str] = []

    def elsewhere() -> None:
        async def start() -> None:
            supervisor = family.supervisor(backoff_first_s=1000.0, backoff_cap_s=1000.0)
            family.supervisors.remove(supervisor)
            await supervisor.start()
            reasons.append(supervisor.reason)
            await supervisor.stop()

        asyncio.run(start())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    await asyncio.get_running_loop().run_in_executor(None, thread.join)
    assert "main thread only" in reasons[0]


@pytest.mark.timeout(300)
async def test_200_restarts_leave_no_descriptor_thread_or_zombie(family: Any, zombies: Callable[[], List[int]]) -> None:
    arena = Arena(1 << 20)
    segment = arena.segment("restarts")

    async def on_up(child: Child) -> None:
        await child.attach(segment)

    supervisor = family.supervisor(on_up=on_up, backoff_first_s=0.0, backoff_cap_s=0.0)
    await supervisor.start()
    counts: Optional[List[int]] = None
    for number in range(201):
        child = await supervisor.wait_up(60.0)
        now = [len(os.listdir("/proc/self/fd")), threading.active_count(), len(os.listdir("/proc/self/task")), len(zombies())]
        counts = counts or now
        # fewer is no leak: what an earlier test left to the garbage collector may go meanwhile
        assert all(have <= had for have, had in zip(now, counts)), "after %d restarts: %s, not %s" % (number, now, counts)
        if number % 2:
            os.kill(child.pid, signal.SIGKILL)
            await child.ended
        else:
            supervisor.restart("test", "again")
    assert supervisor.restarts == 200
    assert counts is not None
    assert counts[-1] == 0
    arena.close()
