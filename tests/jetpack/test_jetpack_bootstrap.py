"""jetpack/bootstrap.sh for real: offline with packages made here, and once with real ones as a machine that is no Jetson."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import pytest

from edge_agent.config.load import load_config
from tests.jetson_roots import NANO, ORIN_NANO, Jetson

REPO = Path(__file__).resolve().parents[2]

_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["edge_agent"]
"""
#: builds a wheel without setuptools, which this test could not take from an index
_BACKEND = """
import zipfile

NAME = "edge_agent-1.0-py3-none-any.whl"
FILES = {
    "edge_agent/__init__.py": "",
    "edge_agent/main.py": "def main():\\n    import numpy\\n    print('agent with numpy', numpy.__version__)\\n",
    "edge_agent-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: edge-agent\\nVersion: 1.0\\n"
    "Provides-Extra: jetson\\nRequires-Dist: numpy\\n",
    "edge_agent-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "edge_agent-1.0.dist-info/entry_points.txt": "[console_scripts]\\nedge-agent = edge_agent.main:main\\n",
    "edge_agent-1.0.dist-info/RECORD": "",
}


def build_wheel(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(folder + "/" + NAME, "w") as wheel:
        for path, text in FILES.items():
            wheel.writestr(path, text)
    return NAME
"""


def _base_python() -> str:
    """What this venv was made of: an interpreter that itself makes venvs."""
    return os.path.realpath(sys.executable)


def _find_python(version: str) -> Optional[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for candidate in [*sorted(str(path) for path in pyenv.glob(version + ".*/bin/python")), shutil.which("python" + version)]:
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def _bundled_pip(python: str) -> str:
    done = subprocess.run(
        [python, "-c", "import ensurepip; print(ensurepip.version())"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _wheel(folder: Path, name: str, version: str, modules: Dict[str, str]) -> None:
    with zipfile.ZipFile(str(folder / ("%s-%s-py3-none-any.whl" % (name, version))), "w") as wheel:
        info = "%s-%s.dist-info/" % (name, version)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")
        for path, text in modules.items():
            wheel.writestr(path, text)


class Rig:
    """A small repository with the real jetpack/ in it, a folder of wheels, a fake board, and places to install to."""

    def __init__(self, folder: Path, board: Jetson) -> None:
        self.folder = folder
        self.root = board.plant(folder / "root")
        self.prefix = folder / "opt"
        self.config = folder / "etc"
        self.wheels = folder / "wheels"
        self.repo = folder / "repo"
        self.wheels.mkdir()
        (self.repo / "edge_agent").mkdir(parents=True)
        (self.repo / "edge_agent/backend.py").write_text(_BACKEND)
        (self.repo / "pyproject.toml").write_text(_PROJECT)
        (self.repo / "README.md").write_text("")
        shutil.copytree(str(REPO / "jetpack"), str(self.repo / "jetpack"))  # the linked table becomes a file

    def pin(self, constraints: str, python: str, numpy: str) -> None:
        """Wheels and pins so small that nothing comes from elsewhere; the pip that the interpreter brings is taken."""
        pins = {"numpy": numpy, "setuptools": "99.0", "wheel": "99.0", "pycuda": "9.0"}
        for name in ("numpy", "setuptools", "wheel"):
            _wheel(self.wheels, name, pins[name], {name + "/__init__.py": "__version__ = %r\n" % pins[name]})
        lines = ["%s==%s" % pin for pin in pins.items()] + ["pip==" + _bundled_pip(python), "opencv-python<0"]
        (self.repo / "jetpack" / constraints).write_text("\n".join(lines) + "\n")

    def add_pycuda(self) -> None:
        _wheel(self.wheels, "pycuda", "9.0", {"pycuda/__init__.py": "", "pycuda/driver.py": ""})

    def run(self, *options: str) -> Tuple[int, str]:
        places = ["--root", str(self.root), "--prefix", str(self.prefix), "--config", str(self.config)]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "OPENBLAS_"))}
        done = subprocess.run(
            [str(self.repo / "jetpack/bootstrap.sh"), *places, "--offline", str(self.wheels), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
            env={**environ, "PIP_CONFIG_FILE": os.devnull},
        )
        return done.returncode, done.stdout

    def bring(self, venv: Path, module: str, text: str) -> None:
        """A module as JetPack would have it, where the interpreter sees it."""
        (next(venv.glob("lib/python*/site-packages")) / (module + ".py")).write_text(text)

    def listing(self) -> List[Tuple[str, int]]:
        return sorted(
            (str(path), path.stat().st_mtime_ns)
            for folder in (self.prefix, Path(str(self.prefix) + "-host"), self.config)
            for path in folder.rglob("*")
            if "__pycache__" not in str(path)
        )


@pytest.mark.timeout(300)
def test_an_orin_gets_its_venv_is_told_what_is_missing_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    rig, python = Rig(tmp_path, ORIN_NANO), _base_python()
    rig.pin("constraints-jp6.txt", python, "1.26.4")

    code, said = rig.run("--python", python)
    assert code == 3, said
    assert "agent with numpy 1.26.4" in said
    assert "PyCUDA could not be installed; the rest goes on" in said  # there is none in the folder
    assert "MISSING tensorrt: ModuleNotFoundError" in said
    assert "apt-get install python3-libnvinfer" in said
    assert "MISSING pycuda.driver: ModuleNotFoundError" in said
    assert not (rig.prefix / ".bootstrap").exists()  # so that the next run tries again
    assert not Path(str(rig.prefix) + "-source").exists()
    assert "include-system-site-packages = true" in (rig.prefix / "pyvenv.cfg").read_text()

    rig.add_pycuda()
    for module in ("tensorrt", "cv2"):
        rig.bring(rig.prefix, module, "__version__ = '10.3.0'\n")
    code, said = rig.run("--python", python)
    assert code == 0, said
    assert "-m venv" not in said  # the venv was as it should be
    assert "found   tensorrt 10.3.0 " in said
    assert "found   pycuda.driver " in said

    before = rig.listing()
    code, said = rig.run("--python", python)
    assert code == 0, said
    assert "%s is up to date" % rig.prefix in said
    assert "pip" not in said
    assert rig.listing() == before

    rig.bring(rig.prefix, "tensorrt", "import os\nos.abort()\n")
    code, said = rig.run("--python", python)
    assert (code, "MISSING tensorrt: the import ended its process" in said) == (3, True)

    config = rig.config / "edge-agent.toml"
    config.write_text("config_version = 1\n")
    loaded = load_config(config, {})
    assert loaded.hosts["gpu"].python == loaded.vision.python == str(rig.prefix / "bin/python")


@pytest.mark.timeout(300)
def test_changed_sources_are_installed_anew_and_a_broken_venv_is_made_anew(tmp_path: Path) -> None:
    rig, python = Rig(tmp_path, ORIN_NANO), _base_python()
    rig.pin("constraints-jp6.txt", python, "1.26.4")
    rig.add_pycuda()
    assert rig.run("--python", python)[0] == 3

    (rig.repo / "edge_agent/backend.py").write_text(_BACKEND.replace("agent with", "another agent with"))
    said = rig.run("--python", python)[1]
    assert "another agent with numpy 1.26.4" in said
    assert "-m venv" not in said

    (rig.prefix / "bin/python").unlink()
    said = rig.run("--python", python)[1]
    assert "-m venv --clear --system-site-packages" in said
    assert "another agent with numpy 1.26.4" in said


@pytest.mark.timeout(300)
def test_a_nano_gets_two_venvs_of_two_interpreters(tmp_path: Path) -> None:
    host_python = _find_python("3.6")
    if host_python is None:
        pytest.skip("Python 3.6 is not installed here")
    rig, python = Rig(tmp_path, NANO), _base_python()
    host = Path(str(rig.prefix) + "-host")
    rig.pin("constraints-jp4-agent.txt", python, "1.24.4")
    rig.pin("constraints-jp4-host.txt", host_python, "1.19.5")
    rig.add_pycuda()
    options = ("--python", python, "--host-python", host_python)

    code, said = rig.run(*options)
    assert code == 3, said
    assert "agent with numpy 1.24.4" in said
    for module in ("tensorrt", "cv2"):
        rig.bring(host, module, "import os\n__version__ = os.environ['OPENBLAS_CORETYPE']\n")
    code, said = rig.run(*options)
    assert code == 0, said
    assert "found   tensorrt ARMV8 " in said  # set before anything is imported
    assert "numpy 1.19.5" in said
    assert "include-system-site-packages = false" in (rig.prefix / "pyvenv.cfg").read_text()
    assert "include-system-site-packages = true" in (host / "pyvenv.cfg").read_text()
    assert '"%s/bin/python"' % host in (rig.config / "conf.d/10-jetpack.toml").read_text()

    before = rig.listing()
    assert rig.run(*options)[0] == 0
    assert rig.listing() == before


def test_a_folder_that_is_no_venv_is_not_touched(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ORIN_NANO)
    rig.prefix.mkdir()
    (rig.prefix / "precious").write_text("x")
    code, said = rig.run("--python", _base_python(), "--fresh")
    assert code == 1
    assert "is no venv" in said
    assert [path.name for path in rig.prefix.iterdir()] == ["precious"]


def test_an_interpreter_that_is_not_there_is_named_with_the_cure(tmp_path: Path) -> None:
    code, said = Rig(tmp_path, ORIN_NANO).run("--python", "/not/there/python3.10")
    assert code == 1
    assert "apt-get install python3.10 python3.10-venv" in said


@pytest.mark.acceptance
@pytest.mark.timeout(900)
def test_a_machine_that_is_no_jetson_gets_an_agent_that_works(tmp_path: Path) -> None:
    prefix = tmp_path / "opt"
    command = [
        str(REPO / "jetpack/bootstrap.sh"),
        "--root",
        str(tmp_path / "none"),
        "--prefix",
        str(prefix),
        "--python",
        _base_python(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    if done.returncode != 0 and "No matching distribution found" in done.stdout + done.stderr:
        pytest.skip("no package index is reached")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "onnxruntime" in done.stdout
    code = "from edge_agent.device.matrix import matrix; import cv2, onnxruntime; print(len(matrix().releases))"
    looked = subprocess.run(
        [str(prefix / "bin/python"), "-I", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (looked.returncode, int(looked.stdout or 0) > 20) == (0, True), looked.stderr

    again = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (again.returncode, "is up to date" in again.stdout, "pip" in again.stdout) == (0, True, False)
