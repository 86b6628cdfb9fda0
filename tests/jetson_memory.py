"""The memory of a board on which GPU and CPU share it, as a folder."""

from __future__ import annotations

from pathlib import Path


def machine(root: Path, available: int, total: int = 3964, anonymous: int = 1000) -> None:
    """`/proc/meminfo` in MB; what it does not explain is the GPU's."""
    lines = {"MemTotal": total, "MemFree": 114, "MemAvailable": available, "AnonPages": anonymous}
    lines.update(Buffers=100, Cached=200, SwapCached=0, Slab=150, KernelStack=20, PageTables=30)
    (root / "proc").mkdir(exist_ok=True)
    beside = root / "proc/meminfo.new"
    beside.write_text("".join("%s: %d kB\n" % (name, size * 1024) for name, size in lines.items()))
    beside.replace(root / "proc/meminfo")


def process(root: Path, pid: int, size: int) -> None:
    """A process that holds so many MB alone."""
    (root / "proc" / str(pid)).mkdir(parents=True)
    (root / "proc" / str(pid) / "status").write_text("Name: x\nVmRSS: 9999999 kB\nRssAnon: %d kB\n" % (size * 1024))
