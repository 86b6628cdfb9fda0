from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any, AsyncIterator, Callable, Dict, List, Optional, Tuple

import pytest

from edge_agent.processes.child import Child, ChildSpec
from edge_agent.processes.supervisor import Supervisor

CHILDREN = str(Path(__file__).with_name("children"))


async def _until(condition: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, "waited %g s in vain" % timeout_s
        await asyncio.sleep(0.005)


@pytest.fixture
def until() -> Callable[..., Any]:
    """Polls a condition with a deadline."""
    return _until


class Family:
    """Supervisors of a test, with what they told; all stopped at its end."""

    def __init__(self) -> None:
        self.supervisors: List[Supervisor] = []
        self.downs: List[Tuple[str, bool]] = []
        self.events: List[Tuple[str, Dict[str, Any]]] = []
        self.late: List[int] = []

    def spec(self, **fields: Any) -> ChildSpec:
        defaults: Dict[str, Any] = {
            "name": "test:child",
            "module": "obliging_child",
            "path": (CHILDREN,),
            "ping_interval_s": 0.1,
            "silence_s": 0.5,
            "backoff_first_s": 0.01,
            "backoff_cap_s": 0.05,
        }
        return ChildSpec(**{**defaults, **fields})

    def supervisor(
        self,
        on_up: Optional[Callable[[Child], Any]] = None,
        on_down: Optional[Callable[[str, bool], None]] = None,
        **fields: Any,
    ) -> Supervisor:
        async def nothing(child: Child) -> None:
            """No set-up."""

        def down(reason: str, reaped: bool) -> None:
            self.downs.append((reason, reaped))
            if on_down is not None:
                on_down(reason, reaped)

        supervisor = Supervisor(
            self.spec(**fields),
            on_up or nothing,
            down,
            lambda name, told: self.events.append((name, told)),
            self.late.append,
        )
        self.supervisors.append(supervisor)
        return supervisor

    async def child(self, **fields: Any) -> Child:
        """A child that is up."""
        supervisor = self.supervisor(**fields)
        await supervisor.start()
        return await supervisor.wait_up(30.0)


@pytest.fixture
async def family() -> AsyncIterator[Family]:
    members = Family()
    yield members
    for supervisor in members.supervisors:
        await supervisor.stop(timeout_s=2.0)


def zombies() -> List[int]:
    """Children of this process that ended and were not reaped."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                state, parent = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state == "Z" and int(parent) == os.getpid():
                found.append(int(entry))
    return found


@pytest.fixture(name="zombies")
def _zombies() -> Callable[[], List[int]]:
    return zombies


def processes_with(marker: str) -> List[int]:
    """Processes, this one and zombies excepted, with `marker` on their command line."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                command = Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command:
                found.append(int(entry))
    return found


@pytest.fixture(name="processes_with")
def _processes_with() -> Callable[[str], List[int]]:
    return processes_with
