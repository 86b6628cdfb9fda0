from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Iterator, List, Tuple

import pytest

from edge_agent.telemetry.notify import ServiceManager
from edge_agent.telemetry.watchdog import Watchdog

_EVERY_40_MS = "80000"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Tuple[socket.socket, ServiceManager]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.setblocking(False)
        listening.bind(str(tmp_path / "notify"))
        yield listening, ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": _EVERY_40_MS})


def _heard(listening: socket.socket) -> List[bytes]:
    messages = []
    try:
        while True:
            messages.append(listening.recv(4096))
    except BlockingIOError:
        return messages


async def test_progress_feeds_the_watchdog(manager: Tuple[socket.socket, ServiceManager]) -> None:
    listening, service = manager
    steps = iter(range(10_000))
    watchdog = Watchdog(service, lambda: next(steps))
    await watchdog.start()
    heard: List[bytes] = []
    deadline = time.monotonic() + 10
    while len(heard) < 3 and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
        heard += _heard(listening)
    await watchdog.stop()
    assert set(heard) == {b"WATCHDOG=1"}
    assert len(heard) >= 3


async def test_a_writer_that_does_not_move_starves_it(manager: Tuple[socket.socket, ServiceManager]) -> None:
    listening, service = manager
    asked: List[int] = []

    def stuck() -> int:
        asked.append(1)
        return 7

    watchdog = Watchdog(service, stuck)
    await watchdog.start()
    deadline = time.monotonic() + 10
    while len(asked) < 4 and time.monotonic() < deadline:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    await watchdog.stop()
    assert len(asked) >= 4
    assert _heard(listening) == [b"WATCHDOG=1"]


async def test_nobody_is_fed_where_nobody_watches(tmp_path: Path) -> None:
    asked: List[int] = []

    def progress() -> int:
        asked.append(1)
        return len(asked)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.setblocking(False)
        listening.bind(str(tmp_path / "notify"))
        watchdog = Watchdog(ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}), progress)  # without WATCHDOG_USEC
        await watchdog.start()
        for _ in range(10):
            await asyncio.sleep(0)
        await watchdog.stop()
        assert _heard(listening) == []
    assert asked == []
