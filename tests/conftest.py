"""For the whole run: no process that a test started may outlive it. (Errors in threads and destructors fail by pytest.)"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Dict, Iterator

import pytest

_PATIENCE_S = 5.0


def _children() -> Dict[int, str]:
    """Pid and command line of this process's children, the ended but unreaped among them."""
    found: Dict[int, str] = {}
    for listing in Path("/proc/self/task").glob("*/children"):
        try:
            pids = [int(pid) for pid in listing.read_text().split()]
        except OSError:
            continue
        for pid in pids:
            try:
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
    return {pid: command for pid, command in found.items() if "resource_tracker" not in command}


@pytest.fixture(scope="session", autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = set(_children())
    yield
    deadline = time.monotonic() + _PATIENCE_S
    while set(_children()) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {pid: command for pid, command in _children().items() if pid not in before} == {}
