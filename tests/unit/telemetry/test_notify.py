from __future__ import annotations

import contextlib
import os
import socket
import time
import uuid
from pathlib import Path
from typing import Dict, Iterator, Optional, Tuple

import pytest

from edge_agent.telemetry.notify import ServiceManager


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tuple[socket.socket, str]]:
    """What systemd does: a datagram socket, and its name for NOTIFY_SOCKET."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@edge-agent-test-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(5)
        listening.bind(name.replace("@", "\0", 1))
        yield listening, name


def test_each_call_is_one_datagram(manager: Tuple[socket.socket, str]) -> None:
    listening, name = manager
    service = ServiceManager({"NOTIFY_SOCKET": name})
    service.ready("serving 2 models")
    service.status("line one\nline two")
    service.watchdog()
    service.extend_timeout(30_000_000)
    service.stopping()
    heard = [listening.recv(4096).decode() for _ in range(5)]
    assert heard == [
        "READY=1\nSTATUS=serving 2 models",
        "STATUS=line one line two",
        "WATCHDOG=1",
        "EXTEND_TIMEOUT_USEC=30000000",
        "STOPPING=1",
    ]


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "relative/path", "@nobody-listens-here", "/a\0b"])
def test_no_manager_is_no_error(address: str) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": address} if address else {})
    open_before = len(os.listdir("/proc/self/fd"))
    service.ready("x")
    service.watchdog()
    service.stopping()
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_manager_that_does_not_read_does_not_block_the_agent(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name)
        service = ServiceManager({"NOTIFY_SOCKET": name})
        started = time.monotonic()
        for _ in range(2000):
            service.watchdog()
        assert time.monotonic() - started < 5
        listening.setblocking(False)
        assert listening.recv(4096) == b"WATCHDOG=1"
        service.ready()
        heard = []
        with contextlib.suppress(BlockingIOError):
            while True:
                heard.append(listening.recv(4096))
        assert set(heard) <= {b"WATCHDOG=1", b"READY=1"}
        assert len(heard) < 2000  # the rest was dropped, not kept for later
        service.stopping()
        assert listening.recv(4096) == b"STOPPING=1"  # who reads again is told again


@pytest.mark.parametrize(
    ("environ", "interval_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_interval_is_half_of_what_the_manager_waits(environ: Dict[str, str], interval_s: Optional[float]) -> None:
    assert ServiceManager(environ).watchdog_interval_s == interval_s
