"""Roots of file systems as Jetsons have them, as far as telling one from another goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional, Union

_DPKG = """Package: libc6
Status: install ok installed
Version: 2.27-3ubuntu1.6
Description: GNU C Library
 Package: nvidia-l4t-core is not what this line is about

Package: nvidia-l4t-core
Status: {status}
Priority: standard
Version: {version}
Description: NVIDIA Core Package

Package: zlib1g
Status: install ok installed
Version: 1:1.2.11
"""


@dataclass(frozen=True)
class Jetson:
    """What a board says of itself."""

    model: str
    compatible: str  #: words with a | between them
    l4t: Optional[str] = None  #: by the release file
    dpkg: Optional[str] = None  #: by nvidia-l4t-core's version
    status: str = "install ok installed"
    dts: str = ""
    serial: str = "1421123456789"

    def files(self) -> Dict[str, Union[str, bytes]]:
        """Path under the root: content."""
        tree = "proc/device-tree/"
        found: Dict[str, Union[str, bytes]] = {
            tree + "model": self.model.encode() + b"\0",
            tree + "compatible": self.compatible.replace("|", "\0").encode() + b"\0",
            tree + "serial-number": self.serial.encode() + b"\0",
        }
        if self.dts:
            found[tree + "nvidia,dtsfilename"] = self.dts.encode() + b"\0"
        if self.l4t is not None:
            found["etc/nv_tegra_release"] = release_line(self.l4t)
        if self.dpkg is not None:
            found["var/lib/dpkg/status"] = _DPKG.format(version=self.dpkg, status=self.status)
        return found

    def plant(self, root: Path) -> Path:
        """Writes them under `root`."""
        for name, content in self.files().items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root


def release_line(l4t: str) -> str:
    """The first lines of /etc/nv_tegra_release."""
    major, _, revision = l4t.partition(".")
    return "# R%s (release), REVISION: %s, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: x\n# KERNEL_VARIANT: oot\n" % (
        major,
        revision,
    )


NANO = Jetson(
    "NVIDIA Jetson Nano Developer Kit",
    "nvidia,p3449-0000-b00+p3448-0000-b00|nvidia,jetson-nano|nvidia,tegra210",
    "32.7.6",
    dts="/dvs/git/dirty/hardware/nvidia/platform/t210/porg/kernel-dts/tegra210-p3448-0000-p3449-0000-b00.dts",
)
XAVIER_NX = Jetson(
    "NVIDIA Jetson Xavier NX Developer Kit", "nvidia,p3509-0000+p3668-0000|nvidia,tegra194", "35.6.0", serial="1420921055555"
)
ORIN_NANO = Jetson(
    "NVIDIA Jetson Orin Nano Developer Kit",
    "nvidia,p3768-0000+p3767-0005-super|nvidia,p3767-0005|nvidia,tegra234",
    "36.4.3",
)
AGX_ORIN = Jetson(
    "NVIDIA Jetson AGX Orin Developer Kit", "nvidia,p3737-0000+p3701-0005|nvidia,p3701-0005|nvidia,tegra234", "36.3.0"
)
THOR = Jetson("NVIDIA Jetson AGX Thor Developer Kit", "nvidia,p4071-0000+p3834-0008|nvidia,tegra264", "38.2.1")
ORIN_ON_7 = Jetson("NVIDIA Jetson AGX Orin Developer Kit", "nvidia,p3737-0000+p3701-0005|nvidia,tegra234", "39.2.2")
