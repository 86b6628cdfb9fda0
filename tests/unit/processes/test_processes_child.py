from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from edge_agent.engine_host import wire
from edge_agent.errors import ChildGone, ChildRefused, ChildTimeout, InvalidRequest
from edge_agent.processes.arena import Arena
from edge_agent.processes.channel import Channel
from edge_agent.processes.process import ChildSpec


def _python36() -> str:
    """A Python 3.6 that runs, or nothing."""
    named = [os.environ.get("EDGE_AGENT_TEST_PYTHON36", ""), shutil.which("python3.6") or ""]
    installed = sorted(
        str(path) for path in Path(os.environ.get("PYENV_ROOT", "/nonexistent")).glob("versions/3.6.*/bin/python3.6")
    )
    for python in [*named, *installed]:
        if python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    return ""


BOOT = str(Path(wire.__file__).with_name("boot.py"))


async def test_calls_are_answered_each_with_its_own_reply(family: Any) -> None:
    child = await family.child()
    replies = await asyncio.gather(*(child.call("echo", {"text": str(number)}) for number in range(200)))
    assert [reply["text"] for reply in replies] == [str(number) for number in range(200)]


async def test_a_slow_operation_holds_up_no_other_and_a_ping_names_it(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child(ping_interval_s=0.02)
    slow = asyncio.ensure_future(child.call("sleep_slowly", {"s": 0.3}))
    assert (await child.call("echo", {"text": "now"}))["text"] == "now"
    await until(lambda: child.busy == "sleep_slowly")
    assert not slow.done()
    assert (await slow)["slept"] == 0.3
    await until(lambda: child.busy == "")


async def test_a_refusal_carries_its_code_text_and_details(family: Any) -> None:
    child = await family.child()
    with pytest.raises(ChildRefused, match="not today") as refused:
        await child.call("refuse")
    assert (refused.value.refusal, refused.value.detail) == ("test.refused", {"need": 7})


async def test_a_crash_of_an_operation_or_an_unknown_one_does_not_end_the_child(family: Any) -> None:
    child = await family.child()
    with pytest.raises(ChildRefused, match="KeyError: 'nothing there'") as crashed:
        await child.call("crash")
    assert crashed.value.refusal == "child.crashed_op"
    with pytest.raises(ChildRefused) as unknown:
        await child.call("dance")
    assert unknown.value.refusal == "child.unknown_op"
    assert (await child.call("echo", {"text": "alive"}))["text"] == "alive"


async def test_descriptors_sent_with_an_unknown_operation_do_not_pile_up(family: Any) -> None:
    child = await family.child()
    before = (await child.call("look"))["descriptors"]
    for _ in range(20):
        with pytest.raises(ChildRefused):
            await child.call("dance", descriptors=(0,))
    assert (await child.call("look"))["descriptors"] == before


async def test_a_late_answer_is_nobodys(family: Any) -> None:
    child = await family.child()
    with pytest.raises(ChildTimeout, match="did not answer sleep_slowly"):
        await child.call("sleep_slowly", {"s": 0.2}, timeout_s=0.02)
    assert (await child.call("sleep_slowly", {"s": 0.0}))["slept"] == 0.0


async def test_a_cancelled_call_leaves_the_others_alone(family: Any) -> None:
    child = await family.child()
    calls = [asyncio.ensure_future(child.call("sleep_slowly", {"s": 0.01})) for _ in range(5)]
    await asyncio.sleep(0)
    calls[2].cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in done] == [False, False, True, False, False]


async def test_calls_in_flight_end_when_the_child_dies(family: Any) -> None:
    child = await family.child()
    waiting = asyncio.ensure_future(child.call("sleep_slowly", {"s": 1000}, timeout_s=1000))
    with pytest.raises(ChildGone):
        await child.call("die", {"signal": signal.SIGKILL})
    with pytest.raises(ChildGone):
        await waiting
    with pytest.raises(ChildGone):
        await child.call("echo", {"text": "x"})


async def test_too_many_unanswered_calls_are_refused(family: Any) -> None:
    child = await family.child()
    calls = [asyncio.ensure_future(child.call("sleep_slowly", {"s": 0})) for _ in range(300)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    refused = [one for one in done if isinstance(one, Exception)]
    assert any(isinstance(one, ChildGone) for one in refused)
    assert {type(one) for one in refused} <= {ChildGone, ChildRefused}  # here the queue, there the child's own bound
    assert (await child.call("echo", {"text": "alive"}))["text"] == "alive"


async def test_an_operation_over_the_message_limit_is_refused_here(family: Any) -> None:
    child = await family.child()
    with pytest.raises(InvalidRequest, match="over 60000"):
        await child.call("echo", {"text": "x" * 60000})


async def test_a_child_works_on_the_segments_it_was_given_and_no_others(family: Any) -> None:
    child = await family.child()
    arena = Arena(1 << 20)
    given, withheld = arena.segment("given"), arena.segment("withheld")
    (lease, other) = await arena.acquire([(given, 5000), (withheld, 5000)], 1.0)
    await child.attach(given)
    await child.attach(given)
    fields = {"segment": lease.segment, "offset": lease.offset, "nbytes": 5000}
    await child.call("fill", {**fields, "value": 65})
    assert bytes(lease.view()) == b"A" * 5000
    with pytest.raises(ChildRefused, match="not attached"):
        await child.call("fill", {"segment": other.segment, "offset": 0, "nbytes": 1, "value": 1})
    with pytest.raises(ChildRefused, match="outside segment"):
        await child.call("read", {"segment": given.number, "offset": given.size, "nbytes": 1})
    await child.detach(given)
    with pytest.raises(ChildRefused, match="not attached"):
        await child.call("read", fields)
    arena.close()


async def test_a_segment_attached_for_reading_cannot_be_written(family: Any) -> None:
    child = await family.child()
    arena = Arena(1 << 20)
    segment = arena.segment("read only")
    (lease,) = await arena.acquire([(segment, 5)], 1.0)
    lease.view()[:] = b"hello"
    await child.attach(segment, writable=False)
    fields = {"segment": lease.segment, "offset": lease.offset, "nbytes": 5}
    assert (await child.call("read", fields))["text"] == "hello"
    with pytest.raises(ChildRefused, match="read-only"):
        await child.call("fill", {**fields, "value": 65})
    arena.close()


async def test_an_instance_channel_reaches_the_child(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child()
    ours, theirs = child.instance_channel()
    got = []
    channel = Channel(ours, got.append, lambda: got.append(b"end"))
    await child.call("echo_channel", {"text": "by descriptor"}, (theirs.fileno(),))
    theirs.close()
    await until(lambda: b"end" in got)
    assert got == [b"by descriptor", b"end"]
    channel.close()


async def test_what_a_child_says_unasked_is_heard_in_order(family: Any, until: Callable[..., Any]) -> None:
    child = await family.child()
    await child.call("tell", {"times": 100})
    await until(lambda: len(family.events) == 100)
    assert family.events == [("told", {"number": number}) for number in range(100)]


async def test_what_it_prints_is_in_the_log_under_its_name(
    family: Any, until: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    child = await family.child(name="test:printer")
    await child.call("say", {"text": "a line"})
    await until(lambda: ("child.test:printer", logging.INFO, "a line 0") in caplog.record_tuples)


async def test_a_child_that_prints_without_end_is_cut_short_and_counted(
    family: Any, until: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    child = await family.child(name="test:chatty")
    await child.call("say", {"text": "x" * 5000, "lines": 500})
    await family.supervisors[0].stop()
    lines = [record for record in caplog.records if record.name == "child.test:chatty"]
    assert len(lines) < 200
    assert max(len(record.getMessage()) for record in lines) <= 1000
    assert any("not logged" in record.getMessage() for record in lines)


async def test_it_is_what_its_spec_says(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere")
    monkeypatch.setenv("WATCHDOG_USEC", "1")
    monkeypatch.setenv("LD_BIND_NOW", "1")
    child = await family.child(name="host:cpu", args=("--one", "two"), oom_score_adj=700, nice=3)
    seen = await child.call("look")
    assert (seen["comm"], seen["oom"], seen["nice"]) == ("host:cpu", 700, os.nice(0) + 3)
    assert seen["argv"] == ["obliging_child", "--one", "two"]
    assert seen["python"] == list(sys.version_info[:2])
    assert not seen["has_init"]
    assert "NOTIFY_SOCKET" not in seen["environment"]
    assert "WATCHDOG_USEC" not in seen["environment"]
    assert "LD_BIND_NOW" in seen["environment"]


async def test_another_interpreter_runs_it_without_this_ones_packages(family: Any) -> None:
    python = _python36()
    if not python:
        pytest.skip("no Python 3.6 here: name one in EDGE_AGENT_TEST_PYTHON36")
    child = await family.child(python=python)
    seen = await child.call("look")
    assert seen["python"] == [3, 6]
    assert not any(entry.startswith(sys.prefix) for entry in seen["path"])
    arena = Arena(1 << 20)
    segment = arena.segment("across versions")
    (lease,) = await arena.acquire([(segment, 3)], 1.0)
    await child.attach(segment)
    await child.call("fill", {"segment": lease.segment, "offset": lease.offset, "nbytes": 3, "value": 66})
    assert bytes(lease.view()) == b"BBB"
    arena.close()


async def test_a_message_that_cannot_be_read_ends_the_child(family: Any) -> None:
    child = await family.child()
    with pytest.raises(ChildGone, match="cannot be read"):
        await child.call("misbehave")


def test_a_spec_names_the_interpreter_module_and_arguments() -> None:
    spec = ChildSpec("host:gpu", "edge_agent.engine_host.main", python="/usr/bin/python3.6", args=("a",), path=("/x", "/y"))
    command = spec.command(parent=12, control=5)
    assert command[:3] == ["/usr/bin/python3.6", "-I", "-u"]
    assert command[4:7] == ["edge_agent.engine_host.main", "12", "5"]
    assert command[-4:] == ["--path=/x", "--path=/y", "--", "a"]


def test_one_whose_parent_is_not_the_agent_leaves_at_once() -> None:
    command = [sys.executable, "-I", BOOT, "obliging_child", "1", "0"]
    started = time.monotonic()
    done = subprocess.run(command, timeout=30, capture_output=True, check=False)
    assert done.returncode == 70
    assert done.stderr == b""
    assert time.monotonic() - started < 30


def test_a_target_that_fails_ends_with_its_traceback_and_code_1() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        words = ["edge_agent.engine_host.nothing_there", str(os.getpid()), str(theirs.fileno())]
        command = [sys.executable, "-I", BOOT, *words]
        done = subprocess.run(command, pass_fds=(theirs.fileno(),), timeout=30, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"No module named 'edge_agent.engine_host.nothing_there'" in done.stderr
