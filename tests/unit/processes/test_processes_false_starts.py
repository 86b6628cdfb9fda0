from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from edge_agent.errors import ChildCannotStart, ChildGone, ModelNotReady
from edge_agent.processes.child import Child
from edge_agent.processes.false_starts import FalseStarts

AT_ONCE_S = 20.0  #: against a patience of 1000 s


def module(folder: Path, text: str) -> Any:
    (folder / "made.py").write_text(text)
    return {"module": "made", "path": (str(folder),)}


OBLIGING = (
    "from edge_agent.engine_host import wire\n"
    "from edge_agent.engine_host.control import Control\n"
    "def main(sock, args):\n    Control(sock, wire.SegmentViews()).run()\n"
)


async def test_an_interpreter_that_is_not_there_is_told_at_once_with_its_path(family: Any) -> None:
    supervisor = family.supervisor(python="/nonexistent/python")
    await supervisor.start()
    with pytest.raises(ChildCannotStart, match=r"^test:child cannot be started: .*'/nonexistent/python'$"):
        await asyncio.wait_for(supervisor.wait_up(1000.0), AT_ONCE_S)
    assert supervisor.code == "child.cannot_start"


async def test_a_child_that_ends_before_its_first_word_is_told_at_once_with_its_last_line(family: Any, tmp_path: Path) -> None:
    supervisor = family.supervisor(**module(tmp_path, "import no_such_library\n"))
    await supervisor.start()
    waiting = [asyncio.ensure_future(supervisor.wait_up(1000.0)) for _ in range(3)]
    for one in waiting:
        with pytest.raises(ChildCannotStart, match="cannot be started: ended with exit code 1: .*no_such_library"):
            await asyncio.wait_for(one, AT_ONCE_S)
    assert len(family.downs) >= 2


async def test_who_asks_between_two_tries_hears_of_the_last_one(family: Any, until: Callable[..., Any]) -> None:
    supervisor = family.supervisor(python="/nonexistent/python", backoff_first_s=0.01, backoff_cap_s=1000.0)
    await supervisor.start()
    await until(lambda: len(family.downs) >= 2)
    for _ in range(2):
        with pytest.raises(ChildCannotStart):
            await asyncio.wait_for(supervisor.wait_up(1000.0), AT_ONCE_S)


async def test_an_interpreter_that_appears_later_is_found(family: Any, tmp_path: Path) -> None:
    python = tmp_path / "python"
    supervisor = family.supervisor(python=str(python))
    await supervisor.start()
    with pytest.raises(ChildCannotStart):
        await supervisor.wait_up(1000.0)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\nexec %s "$@"\n' % sys.executable)
    wrapper.chmod(0o755)
    wrapper.rename(python)
    end = time.monotonic() + 30.0
    while True:
        try:
            child = await supervisor.wait_up(1000.0)
            break
        except ChildCannotStart:
            assert time.monotonic() < end
            await asyncio.sleep(0.01)
    assert (await child.call("echo", {"text": "here"}))["text"] == "here"


async def test_one_that_is_slow_to_begin_has_its_time(family: Any, tmp_path: Path) -> None:
    supervisor = family.supervisor(**module(tmp_path, "import time\ntime.sleep(3)\n" + OBLIGING))
    await supervisor.start()
    await supervisor.wait_up(30.0)
    assert family.downs == []


async def test_who_waits_for_a_slow_life_after_false_starts_gets_it(
    family: Any, tmp_path: Path, until: Callable[..., Any]
) -> None:
    """What was true of the lives before says nothing about one that has begun."""
    marks = tmp_path / "marks"
    marks.mkdir()
    text = (
        "import os, time\nos.mkdir(os.path.join(%r, str(len(os.listdir(%r)))))\n"
        "if len(os.listdir(%r)) <= 2:\n    os._exit(3)\ntime.sleep(2)\n"
    )
    made = module(tmp_path, text % (str(marks), str(marks), str(marks)) + OBLIGING)
    supervisor = family.supervisor(**made)
    await supervisor.start()
    with pytest.raises(ChildCannotStart, match="ended with exit code 3"):
        await supervisor.wait_up(1000.0)
    await until(lambda: len(list(marks.iterdir())) >= 3)
    await supervisor.wait_up(30.0)
    assert len(family.downs) == 2


async def test_one_end_before_the_first_word_is_not_told(family: Any, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    text = "import os\nif not os.path.exists(%r):\n    open(%r, 'w').close()\n    os._exit(3)\n" % (mark, mark)
    supervisor = family.supervisor(**module(tmp_path, text + OBLIGING))
    await supervisor.start()
    await supervisor.wait_up(30.0)
    assert len(family.downs) == 1


async def test_a_set_up_that_fails_is_no_false_start(family: Any, until: Callable[..., Any]) -> None:
    async def on_up(child: Child) -> None:
        if len(family.downs) < 3:
            raise ModelNotReady("not yet")

    supervisor = family.supervisor(on_up=on_up)
    await supervisor.start()
    await supervisor.wait_up(30.0)
    assert supervisor.code == "child.died"


async def test_a_kill_from_outside_is_no_false_start(family: Any, tmp_path: Path, until: Callable[..., Any]) -> None:
    """The kernel does so for want of memory, and that passes."""
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    supervisor = family.supervisor(**module(tmp_path, text))
    await supervisor.start()
    waiting = asyncio.ensure_future(supervisor.wait_up(1000.0))
    await until(lambda: len(family.downs) >= 3)
    assert not waiting.done()
    (tmp_path / "made.py").write_text(OBLIGING)
    await waiting


async def test_an_end_behind_a_channel_that_a_grandchild_holds_is_seen(family: Any, tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nsleep 1000 &\necho $! >> %s\necho no python today\nexit 4\n" % (tmp_path / "pids"))
    script.chmod(0o755)
    supervisor = family.supervisor(python=str(script))
    await supervisor.start()
    try:
        with pytest.raises(ChildCannotStart, match="exit code 4: no python today"):
            await asyncio.wait_for(supervisor.wait_up(1000.0), AT_ONCE_S)
    finally:
        await supervisor.stop(timeout_s=2.0)
        for pid in (tmp_path / "pids").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


async def test_a_machine_that_is_short_of_something_is_no_false_start() -> None:
    for number in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE):
        starts = FalseStarts("one")
        for _ in range(3):
            starts.begin()
            error = ChildGone("one cannot be started")
            error.__cause__ = OSError(number, "short")
            assert starts.refused(error) == "one cannot be started"
        assert not starts.told.done()
    starts.begin()
    starts.refused(ChildGone("one cannot be started: no"))
    starts.refused(ChildGone("one cannot be started: no"))
    assert starts.told.done()
    assert starts.text == "one cannot be started: no"
