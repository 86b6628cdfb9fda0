"""Memory that a GPU takes of the machine's own, as on a Jetson: no process shows it, only the machine does."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

from edge_agent.telemetry.procfs import read_text

_FLOOR_SHARE = 0.05
_FLOOR_MAX = 200 << 20  # under what builds must leave (256 MB): they give way first

#: of /proc/meminfo: all that is known to be in use for something else than a driver's buffers
_EXPLAINED = ("MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "Slab", "KernelStack", "PageTables")


def shared_shortage(root: Path, max_bytes: int, pid: int, used: int) -> str:
    """Says so when the machine has too little left and no process has more of it than this one with the GPU's buffers.

    `used`: what the process itself takes. Empty where there is enough, and where the kernel does not tell.
    """
    machine = kib_lines(root / "proc/meminfo")
    if "MemTotal" not in machine or "MemAvailable" not in machine:
        return ""
    total, available = machine["MemTotal"] << 10, machine["MemAvailable"] << 10
    floor = min(max_bytes, int(_FLOOR_SHARE * total), _FLOOR_MAX)
    if available >= floor:
        return ""
    mine = used + max(device_bytes(machine) - zram_bytes(root), 0)
    if mine <= largest_other(root / "proc", pid):
        return ""
    text = "the machine has %d MB left, under %d MB, and it takes about %d MB with its GPU's buffers"
    return text % (available >> 20, floor >> 20, mine >> 20)


def device_bytes(machine: Dict[str, int]) -> int:
    """What nothing else explains (meminfo's lines, in kB): the GPU's buffers, whoever asked for them."""
    return max(machine["MemTotal"] - sum(machine.get(name, 0) for name in _EXPLAINED), 0) << 10


def zram_bytes(root: Path) -> int:
    """What swap within memory takes, which no line of meminfo has."""
    stats = [(read_text(path) or "").split() for path in root.glob("sys/block/zram*/mm_stat")]
    return sum(int(words[2]) for words in stats if len(words) > 2 and words[2].isdigit())


def largest_other(proc: Path, pid: int) -> int:
    """The most that any other process holds alone, in bytes. Looks at each; call it off the loop."""
    most = 0
    for entry in proc.glob("[0-9]*"):
        if entry.name != str(pid):
            status = kib_lines(entry / "status")
            most = max(most, status.get("RssAnon", status.get("VmRSS", 0)))
    return most << 10


def kib_lines(path: Path) -> Dict[str, int]:
    """The lines `Name: number kB` of a file of /proc; none where it cannot be read."""
    found: Dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
            found[name] = int(words[0])
    return found
