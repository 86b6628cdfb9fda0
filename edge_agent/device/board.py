"""Which machine this is: model, serial, L4T release, and the id that follows from them."""

from __future__ import annotations

import hashlib
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from edge_agent.device.l4t import read_l4t
from edge_agent.telemetry.procfs import read_text

_SOC = re.compile(r"nvidia,(?P<soc>tegra[0-9]{3})(?![0-9])")
_PART = re.compile(r"p[0-9]{4}-[0-9]{4}")
#: part numbers of modules, as against those of the boards that carry them
_MODULES = re.compile(r"p(2180|2888|3310|3448|3489|3636|3668|3701|3767|3834)-")
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
    module: Optional[str] = None  #: NVIDIA's part number of the module, as in p3767-0005


def root_of(environ: Mapping[str, str]) -> Path:
    """Where /proc, /sys and /etc are looked for: EDGE_AGENT_ROOT, else the real ones."""
    return Path(environ.get("EDGE_AGENT_ROOT") or "/")


def read_board(root: Path = Path("/")) -> Board:
    """The identity as device-tree (Jetson) or DMI (PC) gives it; never raises."""
    tree = root / "proc/device-tree"
    compatible = read_text(tree / "compatible") or ""
    soc = _SOC.search(compatible)
    return Board(
        model=read_text(tree / "model") or read_text(root / "sys/class/dmi/id/product_name") or None,
        soc=soc.group("soc") if soc else None,
        serial=_serial(tree / "serial-number") or _serial(root / "sys/class/dmi/id/product_serial"),
        l4t=read_l4t(root, tegra=soc is not None),
        machine_id=read_text(root / "etc/machine-id") or read_text(root / "var/lib/dbus/machine-id") or None,
        module=_module(compatible, read_text(tree / "nvidia,dtsfilename") or "") if soc else None,
    )


def agent_id(root: Path = Path("/")) -> str:
    """12 hex digits that stay the same for this machine: of its serial, else its machine-id, else its name."""
    board = read_board(root)
    said = board.serial or board.machine_id or read_text(root / "etc/hostname") or socket.gethostname()
    return hashlib.sha256(said.encode("utf-8")).hexdigest()[:12]


def _serial(path: Path) -> Optional[str]:
    text = read_text(path) or ""
    return None if _NO_SERIAL.match(text) else text


def _module(*texts: str) -> Optional[str]:
    """The first part number of a known module, as carriers are named in the same breath: p3768-0000+p3767-0005."""
    return next((part for text in texts for part in _PART.findall(text) if _MODULES.match(part)), None)
