"""An interpreter with the real PyCUDA on the driver of this folder, and with the fake TensorRT over both, for one test."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict

from tests import fake_gpu
from tests.cuda.driver_file import DriverFile
from tests.cuda.pycuda_venv import PycudaVenv

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

#: the children's stand-in for the package, whose `__init__` needs Python 3.8; and what a script of a test begins with
_PRELUDE = """
import os, sys, types
package = types.ModuleType("edge_agent")
package.__path__ = [%r]
sys.modules["edge_agent"] = package
"""


@dataclass(frozen=True)
class GpuInterpreter:
    """What a test has: the interpreter, its driver's file, where the fake TensorRT's faults are told."""

    python: Path
    driver: DriverFile
    faults: Path

    def run(self, script: str, timeout_s: float = 60.0) -> "subprocess.CompletedProcess[str]":
        """Runs a script there as a child of the agent runs: alone with its own packages."""
        text = _PRELUDE % str(ROOT / "edge_agent") + textwrap.dedent(script)
        command = [str(self.python), "-I", "-c", text]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)

    def says(self, script: str, timeout_s: float = 60.0) -> str:
        """What a script prints; it must end well."""
        done = self.run(script, timeout_s)
        assert done.returncode == 0, "%s\n%s" % (done.stdout, done.stderr)
        return done.stdout.strip()


def interpreter(folder: Path, venv: PycudaVenv, version: str = "10.3.0", **choices: Any) -> GpuInterpreter:
    """Makes it in the folder. `choices` are words of the driver's file."""
    driver = DriverFile(folder / "driver", **choices)
    python = folder / "python" / "bin" / "python"
    packages = folder / "python" / "lib" / venv.site_packages.parent.name / "site-packages"
    for made in (python.parent, packages):
        made.mkdir(parents=True)
    base = os.path.realpath(str(venv.python))
    python.symlink_to(base)
    (folder / "python" / "pyvenv.cfg").write_text(
        "home = %s\ninclude-system-site-packages = false\n" % os.path.dirname(base)
    )
    _write_path(packages, venv, driver.path)
    _write_settings(packages, version, driver, folder / "faults.json")
    return GpuInterpreter(python, driver, folder / "faults.json")


def _write_path(packages: Path, venv: PycudaVenv, state: Path) -> None:
    """Our driver goes into the process first: whoever asks for a library of its name by then gets it.

    The fakes come in by links, since the fake PyCUDA that lies beside them is not wanted here.
    """
    for name in ("tensorrt", "fake_gpu"):
        (packages / name).symlink_to(Path(fake_gpu.DOUBLES) / name)
    (packages / "over_driver.py").symlink_to(HERE / "over_driver.py")
    load = "import ctypes, os; os.environ['TEST_LIBCUDA_STATE'] = %r; ctypes.CDLL(%r, mode=ctypes.RTLD_GLOBAL)"
    lines = [load % (str(state), str(venv.libcuda)), str(venv.site_packages), "import over_driver"]
    (packages / "real_pycuda.pth").write_text("\n".join(lines) + "\n")


def _write_settings(packages: Path, version: str, driver: DriverFile, faults: Path) -> None:
    chosen: Dict[str, Any] = {
        "VERSION": version,
        "COMPUTE_CAPABILITY": (driver["compute_major"], driver["compute_minor"]),
        "INTEGRATED": bool(driver["integrated"]),
        "FAULTS": str(faults),
        "DRIVER": True,
        "STATS": "",
        "LIBCUDA": "",
        "NAMES": str(ROOT / "tests" / "contract" / "names"),
    }
    (packages / "fake_gpu_settings.py").write_text("".join("%s = %r\n" % pair for pair in sorted(chosen.items())))


def skip_reason(version: str, reason: object) -> str:
    """Why the tests of a Python are skipped."""
    return "no real PyCUDA for Python %s: %s (tested by Python %d.%d)" % (version, reason, *sys.version_info[:2])
