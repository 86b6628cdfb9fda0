"""The device's values out of /proc and /sys, as the status shows them: null where unknown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Optional

from edge_agent.device import sensors
from edge_agent.device.board import read_board
from edge_agent.device.jetpack import jetpack_of
from edge_agent.telemetry.procfs import CpuLoad, memory_bytes, read_text


class DeviceReader:
    """Reads a board; knows its identity from the start, everything else is read anew each time.

    Reading takes about a millisecond on a PC; some Jetson sensors answer over a slow bus, so a caller that must not wait
    gives it a thread.
    """

    def __init__(self, root: Path = Path("/"), state_dir: Optional[Path] = None) -> None:
        self._root = root
        self._state_dir = state_dir
        self._board = read_board(root)
        self._jetpack = jetpack_of(self._board)
        self._cpu = CpuLoad(root)

    @property
    def serial(self) -> str:
        """The board's serial; empty where it has none."""
        return self._board.serial or ""

    def read(self) -> Dict[str, Any]:
        """The values now; never raises."""
        memory = memory_bytes(self._root)
        rails = sensors.power_w(self._root)
        return {
            "board": self._board.model,
            "soc": self._board.soc,
            "serial": self._board.serial,
            "l4t": self._board.l4t,
            "jetpack": self._jetpack.name,
            "jetpack_note": self._jetpack.note or None,
            "module": self._board.module,
            "sm": self._jetpack.sm,
            "temperatures_c": sensors.temperatures_c(self._root),
            "gpu_load": sensors.gpu_load(self._root),
            "cpu_load": _rounded(self._cpu.read()),
            "load_avg": self._load_avg(),
            "memory_total_bytes": memory["total"],
            "memory_available_bytes": memory["available"],
            **self._disk(),
            "uptime_s": self._uptime_s(),
            "power_w": rails,
            "power_total_w": sensors.power_total_w(rails),
            "fan": sensors.fan(self._root),
        }

    def _disk(self) -> Dict[str, Optional[int]]:
        """Of the file system that holds the state directory; free is what the agent may use."""
        try:
            found = os.statvfs(self._state_dir if self._state_dir is not None else self._root)
        except OSError:
            return {"disk_total_bytes": None, "disk_free_bytes": None}
        return {"disk_total_bytes": found.f_blocks * found.f_frsize, "disk_free_bytes": found.f_bavail * found.f_frsize}

    def _uptime_s(self) -> Optional[float]:
        numbers = _numbers(read_text(self._root / "proc/uptime"), 1)
        return numbers[0] if numbers else None

    def _load_avg(self) -> Optional[List[float]]:
        return _numbers(read_text(self._root / "proc/loadavg"), 3)


def _numbers(text: Optional[str], count: int) -> Optional[List[float]]:
    try:
        numbers = [float(word) for word in (text or "").split()[:count]]
    except ValueError:
        return None
    return numbers if len(numbers) == count else None


def _rounded(share: Optional[float]) -> Optional[float]:
    return None if share is None else round(share, 4)
