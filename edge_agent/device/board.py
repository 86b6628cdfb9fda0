"""Which machine this is: model, serial, L4T release, and the id that follows from them."""

from __future__ import annotations

import hashlib
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from edge_agent.telemetry.procfs import read_text

_L4T = re.compile(r"^#\s*R(?P<major>\d+)\s*\(release\),\s*REVISION:\s*(?P<revision>[0-9.]+)")
_SOC = re.compile(r"nvidia,(?P<soc>tegra\d+)")
#: what firmware says when nobody wrote a serial
_NO_SERIAL = re.compile(
    r"^(0+|f+|none|unknown|to be filled.*|default string|not specified|system serial number)?$", re.IGNORECASE
)


@dataclass(frozen=True)
class Board:
    """Identity of the machine; None where it does not tell."""

    model: Optional[str]
    soc: Optional[str]  #: tegra210, tegra194, tegra234, ...
    serial: Optional[str]
    l4t: Optional[str]  #: as in 36.4.3
    machine_id: Optional[str]


def root_of(environ: Mapping[str, str]) -> Path:
    """Where /proc, /sys and /etc are looked for: EDGE_AGENT_ROOT, else the real ones."""
    return Path(environ.get("EDGE_AGENT_ROOT") or "/")


def read_board(root: Path = Path("/")) -> Board:
    """The identity as device-tree (Jetson) or DMI (PC) gives it; never raises."""
    tree = root / "proc/device-tree"
    soc = _SOC.search(read_text(tree / "compatible") or "")
    return Board(
        model=read_text(tree / "model") or read_text(root / "sys/class/dmi/id/product_name") or None,
        soc=soc.group("soc") if soc else None,
        serial=_serial(tree / "serial-number") or _serial(root / "sys/class/dmi/id/product_serial"),
        l4t=_l4t(root / "etc/nv_tegra_release"),
        machine_id=read_text(root / "etc/machine-id") or read_text(root / "var/lib/dbus/machine-id") or None,
    )


def agent_id(root: Path = Path("/")) -> str:
    """12 hex digits that stay the same for this machine: of its serial, else its machine-id, else its name."""
    board = read_board(root)
    said = board.serial or board.machine_id or read_text(root / "etc/hostname") or socket.gethostname()
    return hashlib.sha256(said.encode("utf-8")).hexdigest()[:12]


def _serial(path: Path) -> Optional[str]:
    text = read_text(path) or ""
    return None if _NO_SERIAL.match(text) else text


def _l4t(path: Path) -> Optional[str]:
    """`# R36 (release), REVISION: 4.3, ...` is 36.4.3."""
    found = _L4T.match(read_text(path) or "")
    return f"{found.group('major')}.{found.group('revision')}" if found else None
