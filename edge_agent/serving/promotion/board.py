"""What promotion asks of the machine: how hot it is and how much memory it has; and what an engine needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from edge_agent.serving.servable import Servable
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry import procfs

_FLOOR_BYTES = 128 * 1024 * 1024  #: stays free for everything else


def _nobody_tells() -> Optional[float]:
    return None


def _available() -> Optional[int]:
    return procfs.memory_bytes()["available"]


@dataclass(frozen=True)
class Board:
    """The machine. None is an answer that nobody knows."""

    temperature_c: Callable[[], Optional[float]] = _nobody_tells  #: of its hottest part; called often, answers at once
    memory_available: Callable[[], Optional[int]] = _available  #: bytes; reads a file
    hot_c: float = 85.0  #: from this on only what serves is run


def no_room_beside(board: Board, serving: Servable) -> str:
    """Why a second engine like this one does not fit into memory now; empty where it does. It reads files."""
    available, need = board.memory_available(), _resident(serving)
    if available is None or need is None or available >= need + _FLOOR_BYTES:
        return ""
    return "no memory for a second engine: the first one's host takes %d MB, %d MB are free" % (need >> 20, available >> 20)


def _resident(serving: Servable) -> Optional[int]:
    """Memory of the engine host, of all its models; None where there is none or it cannot be read."""
    host = serving.host if isinstance(serving, ServedVersion) else None
    pid = None if host is None else host.supervisor.pid
    for line in (procfs.read_text(Path("/proc/%d/status" % pid)) or "").splitlines() if pid else ():
        name, _, rest = line.partition(":")
        if name == "RssAnon" and rest.split()[:1] and rest.split()[0].isdigit():
            return int(rest.split()[0]) * 1024
    return None
