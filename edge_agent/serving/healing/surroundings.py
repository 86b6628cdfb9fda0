"""What healing knows of the world around the models; the app fills it in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, Tuple

from edge_agent.domain.clock import Clock


def _nobody(seconds: float) -> None:
    """No service manager waits."""


@dataclass(frozen=True)
class Surroundings:
    """The machine and its service manager; the defaults are this machine without one."""

    root: Path = Path("/")  #: where /proc, /etc and so on are looked for
    extend_start: Callable[[float], None] = _nobody  #: the start goes on for so many seconds more at least
    tries_clock: Optional[Clock] = None  #: for the pauses between tries; None: the agent's own
    look_s: float = 5.0  #: a build that waits for its next try is looked at this often
    unable_s: float = 10.0  #: until a check that could not be made is made again
    slow_s: float = 60.0  #: until a plan that was too slow is measured again
    late_s: Tuple[float, ...] = (30.0, 120.0, 480.0)  #: when a GPU that was not there is looked for again
