"""What promotion asks of the machine: how hot it is and how much memory it has; and what an engine needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from edge_agent.engines.host import EngineHost
from edge_agent.engines.plans.shelf import Plan
from edge_agent.serving.servable import Servable
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry import procfs

_PLAN_TIMES = 2
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
    """Why a second engine like this one does not fit into memory now; empty where it does. It reads files.

    It is a guess from what the first one takes. Of an ONNX or Python model it does not see what lies on a GPU with memory of
    its own, and models that share a host count alike; of a plan it does not see activations, workspace and CUDA's context.
    """
    available, need = board.memory_available(), _need(serving)
    if available is None or need is None or available >= need + _FLOOR_BYTES:
        return ""
    return "no memory for a second engine: it takes %d MB like the first one, %d MB are free" % (need >> 20, available >> 20)


def _need(serving: Servable) -> Optional[int]:
    """Bytes; None where nobody knows."""
    if not isinstance(serving, ServedVersion) or serving.host is None:
        return None
    if serving.plan is not None and serving.engine == "tensorrt":
        return _of_plan(serving.plan)
    host = _resident(serving.host)
    return None if host is None else host // max(1, len(serving.host.models))


def _of_plan(plan: Plan) -> Optional[int]:
    """The file is read into memory before its weights are on the device, which is the same memory here."""
    try:
        return _PLAN_TIMES * (plan.sidecar.size or plan.path.stat().st_size)
    except OSError:
        return None


def _resident(host: EngineHost) -> Optional[int]:
    """Memory of the engine host, of all its models; None where it cannot be read."""
    pid = host.supervisor.pid
    for line in (procfs.read_text(Path("/proc/%d/status" % pid)) or "").splitlines() if pid else ():
        name, _, rest = line.partition(":")
        if name == "RssAnon" and rest.split()[:1] and rest.split()[0].isdigit():
            return int(rest.split()[0]) * 1024
    return None
