"""Processor, memory and own size from /proc: small reads, None where it does not say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Optional, Tuple


def read_text(path: Path) -> Optional[str]:
    """The file's text without the NULs that device-tree files end with; None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(65536).decode("utf-8", "replace").replace("\0", "").strip()
    except (OSError, ValueError):
        return None


def read_int(path: Path) -> Optional[int]:
    """The file's whole number; None when it cannot be read or is none."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


class CpuLoad:
    """Share of busy processor time since the last call."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._path = root / "proc/stat"
        self._last: Optional[Tuple[int, int]] = None

    def read(self) -> Optional[float]:
        """0 to 1 over all cores; since boot at the first call."""
        now = self._busy_and_total()
        if now is None:
            return None
        busy, total = now
        last_busy, last_total = self._last or (0, 0)
        self._last = now
        if total <= last_total:
            return None
        return min(max((busy - last_busy) / (total - last_total), 0.0), 1.0)

    def _busy_and_total(self) -> Optional[Tuple[int, int]]:
        first = (read_text(self._path) or "").partition("\n")[0].split()
        try:
            ticks = [int(word) for word in first[1:9]]  # guest time is counted within user time
        except ValueError:
            return None
        if first[:1] != ["cpu"] or len(ticks) < 4:
            return None
        idle = ticks[3] + (ticks[4] if len(ticks) > 4 else 0)
        return sum(ticks) - idle, sum(ticks)


def memory_bytes(root: Path = Path("/")) -> Dict[str, Optional[int]]:
    """`{total, available}` of the machine."""
    kib: Dict[str, int] = {}
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            kib[name] = int(words[0])
    total, available = kib.get("MemTotal"), kib.get("MemAvailable")
    return {
        "total": None if total is None else total * 1024,
        "available": None if available is None else available * 1024,
    }


def rss_bytes() -> Optional[int]:
    """Resident bytes of this process; shared memory (the tensor arena's pages) is not counted."""
    words = (read_text(Path("/proc/self/statm")) or "").split()
    if len(words) < 3:
        return None
    return (int(words[1]) - _shared_memory_pages()) * os.sysconf("SC_PAGE_SIZE")


def _shared_memory_pages() -> int:
    """Resident pages of shared memory (kernel 4.5); 0 where the kernel does not tell."""
    for line in (read_text(Path("/proc/self/status")) or "").splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) * 1024 // os.sysconf("SC_PAGE_SIZE")
    return 0
