"""Which Linux for Tegra this is, from the cheap sources first: the release file, then what dpkg has written down."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO, Dict, Optional

from edge_agent.telemetry.procfs import read_text

_RELEASE = re.compile(
    r"^#\s*R(?P<major>[0-9]{1,4})\s*\(release\),\s*REVISION:\s*(?P<revision>[0-9]{1,4}(?:\.[0-9]{1,4}){0,2})(?![0-9.])"
)
_VERSION = re.compile(r"^[0-9]{1,4}(?:\.[0-9]{1,4}){1,3}(?![0-9.])")

_PACKAGE = "nvidia-l4t-core"
_FIELDS = ("Package", "Status", "Version")
_MAX_LINE = 4096
_MAX_STATUS_BYTES = 64 * 1024 * 1024


def read_l4t(root: Path = Path("/"), tegra: bool = True) -> Optional[str]:
    """As in 36.4.3; None where it is no Jetson's Linux or nothing tells (Yocto, a container without these files). Never raises.

    Args:
        root: where etc/ and var/ are.
        tegra: whether the chip is NVIDIA's; without it dpkg's file, which is large, is left alone.
    """
    return _of_release_file(root / "etc/nv_tegra_release") or (_of_dpkg(root / "var/lib/dpkg/status") if tegra else None)


def _of_release_file(path: Path) -> Optional[str]:
    """`# R36 (release), REVISION: 4.3, ...` is 36.4.3."""
    found = _RELEASE.match(read_text(path) or "")
    return f"{found.group('major')}.{found.group('revision')}" if found else None


def _of_dpkg(path: Path) -> Optional[str]:
    """Of an installed nvidia-l4t-core 36.4.3-20250107174145: without starting dpkg-query, which can wait for a lock."""
    try:
        with open(path, "rb") as file:
            version = _installed(file)
    except (OSError, ValueError):
        return None
    found = _VERSION.match(version)
    return found.group(0) if found else None


def _installed(file: BinaryIO) -> str:
    """The package's version; empty when it is not there or only its configuration is left."""
    fields: Dict[str, str] = {}
    left = _MAX_STATUS_BYTES
    while left > 0:
        line = file.readline(_MAX_LINE)
        left -= len(line)
        if line.strip():
            name, _, value = line.decode("utf-8", "replace").partition(":")
            if name in _FIELDS:
                fields[name] = value.strip()
            continue
        if fields.get("Package") == _PACKAGE:
            return fields.get("Version", "") if fields.get("Status", "").endswith(" installed") else ""
        if not line:
            return ""
        fields = {}
    return ""
