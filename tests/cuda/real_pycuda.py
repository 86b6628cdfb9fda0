"""An interpreter with the real PyCUDA on the driver of this folder, and with the fake TensorRT over both, for one test."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List

from tests import fake_gpu
from tests.cuda.driver_file import DriverFile
from tests.cuda.pycuda_venv import PycudaVenv

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
_PATIENCE_S = 60.0

#: the children's stand-in for the package, whose `__init__` needs Python 3.8; and what a script of a test begins with
_PRELUDE = """
import os, sys, types
package = types.ModuleType("edge_agent")
package.__path__ = [%r]
sys.modules["edge_agent"] = package
def done(*answers):
    if answers:
        print(*answers)
    sys.stdout.flush()
    os._exit(0)  # as children end: PyCUDA detaches the primary context in a wrong way when Python takes it down
"""


@dataclass(frozen=True)
class GpuInterpreter:
    """What a test has: the interpreter, its driver's file, where the fake TensorRT's faults are told."""

    python: Path
    driver: DriverFile
    faults: Path

    def start(self, *scripts: str) -> Running:
        """Starts scripts, one below the other, as the agent starts a child: alone with its own packages."""
        text = _PRELUDE % str(ROOT / "edge_agent") + "".join(textwrap.dedent(script) for script in scripts)
        command = [str(self.python), "-I", "-u", "-c", text]
        return Running(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def run(self, *scripts: str) -> Ended:
        """Runs them to their end."""
        return self.start(*scripts).end()

    def says(self, *scripts: str) -> List[str]:
        """The lines that they print; they must end well."""
        return self.run(*scripts).lines


@dataclass(frozen=True)
class Ended:
    """How scripts ended."""

    code: int
    output: str
    errors: str

    @property
    def lines(self) -> List[str]:
        """What was printed, unless it ended badly."""
        assert self.code == 0, "%s\n%s" % (self.output, self.errors)
        return self.output.splitlines()


class Running:
    """Scripts at work. Whoever made it waits for its end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self) -> str:
        """The first line that they print."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], _PATIENCE_S)[0]:
            self._process.kill()
            raise AssertionError("nothing was printed: %r" % (self.end(),))
        return self._process.stdout.readline().rstrip("\n")

    def end(self) -> Ended:
        """Waits for it."""
        try:
            output, errors = self._process.communicate(timeout=_PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
        return Ended(self._process.returncode, output, errors)


def interpreter(folder: Path, venv: PycudaVenv, version: str = "10.3.0", **choices: Any) -> GpuInterpreter:
    """Makes it in the folder. `choices` are words of the driver's file."""
    driver = DriverFile(folder / "driver", **choices)
    python = folder / "python" / "bin" / "python"
    packages = folder / "python" / "lib" / venv.site_packages.parent.name / "site-packages"
    for made in (python.parent, packages):
        made.mkdir(parents=True)
    base = os.path.realpath(str(venv.python))
    python.symlink_to(base)
    (folder / "python" / "pyvenv.cfg").write_text("home = %s\ninclude-system-site-packages = false\n" % os.path.dirname(base))
    _write_path(packages, venv, driver.path)
    _write_settings(packages, version, driver, folder / "faults.json")
    return GpuInterpreter(python, driver, folder / "faults.json")


def _write_path(packages: Path, venv: PycudaVenv, state: Path) -> None:
    """Our driver goes into the process first: whoever asks for a library of its name by then gets it.

    The fakes come in by links, since the fake PyCUDA that lies beside them is not wanted here.
    """
    for name in ("tensorrt", "fake_gpu"):
        (packages / name).symlink_to(Path(fake_gpu.DOUBLES) / name)
    for name in ("over_driver.py", "engine_bench.py"):
        (packages / name).symlink_to(HERE / name)
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
