"""Whether a build may go on: memory of the machine, its signs of life, the work that its processor time shows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Tuple

from edge_agent.telemetry.procfs import memory_bytes, read_text

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20
_LITTLE_BYTES = 6000 * MIB  # boards of 4 GB; those of 8 show over 7000 MB


@dataclass(frozen=True)
class BuildLimits:
    """How patient the agent is with its builder.

    A build of half an hour answers pings all the while (TensorRT builds without the GIL) and uses its processor; parsing a
    large model may hold the GIL for minutes, but not without work.
    """

    look_s: float = 1.0
    memory_share_bytes: int = 256 * MIB  #: what a build needs above the floor, beside its model
    still_s: float = 120.0  #: neither an answer nor work
    silent_s: float = 900.0  #: no answer, though it works
    idle_s: float = 900.0  #: answers, but no work
    working_share: float = 0.01  #: of one core; below it counts as no work
    start_timeout_s: float = 60.0  #: until its first answer
    reap_timeout_s: float = 5.0


@dataclass(frozen=True)
class Sign:
    """What is seen of a build at one look."""

    at: float  #: monotonic seconds
    pongs: int  #: pings it has answered
    cpu_s: Optional[float]  #: processor time it has used; None where the kernel does not tell
    available: Optional[int]  #: bytes that the machine can give


Verdict = Optional[Tuple[str, str]]  #: (code, reason) that ends the build


class BuildWatch:
    """Judges one build look by look; a look that came late (the agent itself did not run) counts as two at most."""

    def __init__(self, limits: BuildLimits, floor_bytes: int) -> None:
        self._limits = limits
        self._floor_bytes = floor_bytes
        self._last: Optional[Sign] = None
        self._silent_s = 0.0
        self._still = _Stretch()
        self._idle = _Stretch()

    def look(self, sign: Sign) -> Verdict:
        """Why the build must end; None lets it go on."""
        short = below_floor(sign.available, self._floor_bytes)
        if short:
            return "build.out_of_memory", short
        last, self._last = self._last, sign
        if last is None:
            return None
        elapsed = min(sign.at - last.at, 2 * self._limits.look_s)
        # Where the kernel does not tell the processor time, its lack is never held against the build.
        worked = elapsed if sign.cpu_s is None or last.cpu_s is None else sign.cpu_s - last.cpu_s
        self._silent_s = self._silent_s + elapsed if sign.pongs == last.pongs else 0.0
        self._idle = self._idle.longer(elapsed, worked, self._limits.working_share)
        self._still = self._still.longer(elapsed, worked, self._limits.working_share) if self._silent_s else _Stretch()
        return self._hang()

    def _hang(self) -> Verdict:
        limits = self._limits
        if self._still.seconds >= limits.still_s:
            return "build.killed", "it gave no sign of life and did no work for %g s" % limits.still_s
        if self._silent_s >= limits.silent_s:
            return "build.killed", "it gave no sign of life for %g s" % limits.silent_s
        if self._idle.seconds >= limits.idle_s:
            return "build.killed", "it did no work for %g s" % limits.idle_s
        return None


@dataclass(frozen=True)
class _Stretch:
    """A time without work to speak of, with the processor time used in it."""

    seconds: float = 0.0
    worked: float = 0.0

    def longer(self, elapsed: float, worked: float, working_share: float) -> _Stretch:
        """With one more look; a new one when it shows work. One tick of the clock in a long stretch shows none."""
        seconds, worked = self.seconds + elapsed, self.worked + worked
        return _Stretch() if worked >= working_share * seconds else _Stretch(seconds, worked)


def has_little(root: Path) -> bool:
    """Whether the machine as a whole has so little memory that builds go without what costs much of it."""
    total = memory_bytes(root)["total"]
    return total is not None and total < _LITTLE_BYTES


def available_bytes(root: Path) -> Optional[int]:
    """What the machine can give without swapping: MemAvailable, not what is free, as the page cache gives way."""
    return memory_bytes(root)["available"]


def below_floor(available: Optional[int], floor: int) -> str:
    """Says so when less than the floor is available; empty otherwise, and where the kernel does not tell."""
    if available is None or available >= floor:
        return ""
    return "the machine has %d MB left, under the %d MB that builds must leave" % (available // MIB, floor // MIB)


def shortage(available: Optional[int], floor: int, share: int) -> str:
    """Why a build does not begin yet; empty when it may."""
    if available is None or available >= floor + share:
        return ""
    text = "%d MB of memory are available; the build begins at %d MB (%d for itself, %d left for the rest)"
    return text % (available // MIB, (floor + share) // MIB, share // MIB, floor // MIB)


def cpu_seconds(pid: int) -> Optional[float]:
    """Processor time that a process has used; None when it is gone."""
    fields = (read_text(Path("/proc/%d/stat" % pid)) or "").rpartition(")")[2].split()
    try:
        return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
    except (IndexError, ValueError):
        return None
