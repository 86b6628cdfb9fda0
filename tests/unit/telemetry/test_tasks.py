from __future__ import annotations

import asyncio
import logging
from typing import List

import pytest

from edge_agent.telemetry.tasks import Tasks


async def test_a_task_that_fails_is_logged_once_and_told(caplog: pytest.LogCaptureFixture) -> None:
    heard: List[BaseException] = []
    tasks = Tasks(heard.append)

    async def fail() -> None:
        raise ValueError("odd")

    with caplog.at_level(logging.ERROR):
        task = tasks.spawn(fail(), "camera:dock")
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert [str(error) for error in heard] == ["odd"]
    assert [record.getMessage() for record in caplog.records] == ["task camera:dock failed"]


async def test_stop_cancels_what_runs_and_waits_for_it() -> None:
    tasks = Tasks()
    cleaned: List[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.append("yes")

    tasks.spawn(work(), "work")
    await asyncio.sleep(0)
    await tasks.stop()
    assert cleaned == ["yes"]
    await tasks.stop()


async def test_a_task_that_ends_or_is_cancelled_is_no_failure() -> None:
    heard: List[BaseException] = []
    tasks = Tasks(heard.append)
    done = tasks.spawn(asyncio.sleep(0), "short")
    await done
    long = tasks.spawn(asyncio.sleep(3600), "long")
    long.cancel()
    await asyncio.wait([long])
    await asyncio.sleep(0)
    assert heard == []
