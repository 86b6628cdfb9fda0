"""TensorRT's real Python bindings, each version in a venv of its own, over libraries that answer nothing. Kept in .venvs.

./scripts/bindings              makes those that are missing
./scripts/bindings --write      and writes tests/contract/names/ anew out of them
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).parent))

import name_lists  # noqa: E402

HERE = Path(__file__).resolve().parent
VENVS = HERE.parent.parent / ".venvs"
_STUB = HERE / "stub_tensorrt.c"
_LIBRARIES = ("nvinfer", "nvinfer_plugin", "nvonnxparser")
_LIBRARIES_BEFORE_10 = ("nvparsers",)
_PYTHONS = ("3.8", "3.10", "3.9", "3.11")  # all wheels are there for each of them
_TIMEOUT_S = 300
_LOAD_ALL = """\
import ctypes, glob, os

for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "*.so.*"))):
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
"""


class Binding(NamedTuple):
    """A wheel, and the list of names that it stands for."""

    names: str
    package: str
    version: str


BINDINGS = (
    Binding("8.6.1", "tensorrt-bindings", "8.6.1"),
    Binding("10.3.0", "tensorrt-cu12-bindings", "10.3.0"),
    Binding("10.16.1", "tensorrt-cu12-bindings", "10.16.1.11"),
    Binding("11.4.0", "tensorrt-cu12-bindings", "11.4.0.106"),
)

#: real parser and builder, for a few tests that are run on wish: 90 MB
RTX = Binding("", "tensorrt-rtx-cu12-bindings", "1.7.1.116")
_RTX_LIBRARIES = "tensorrt-rtx-cu12-libs"


class Unavailable(Exception):
    """The bindings cannot be had here; says why."""


def python_of(binding: Binding) -> Path:
    """The interpreter that imports the bindings as `tensorrt_bindings`; made when it is not there yet."""
    venv = folder_of(binding)
    VENVS.mkdir(exist_ok=True)
    with _alone(VENVS / f".{venv.name}.lock"):
        stamp = _stamp(binding)
        if not (venv / "stamp").exists() or (venv / "stamp").read_text() != stamp:
            shutil.rmtree(venv, ignore_errors=True)
            _make(venv, binding)
            (venv / "stamp").write_text(stamp)
    return venv / "bin" / "python"


def folder_of(binding: Binding) -> Path:
    """Where its venv is, or will be."""
    return VENVS / ("rtx" if binding is RTX else f"bindings-{binding.version}")


def introspected(binding: Binding) -> Dict[str, Any]:
    """What tests/contract/introspect.py tells of the bindings."""
    command = [str(python_of(binding)), "-I", str(HERE / "introspect.py"), "tensorrt_bindings"]
    document: Dict[str, Any] = json.loads(subprocess.check_output(command, timeout=_TIMEOUT_S))
    return document


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Only one process at a time makes a venv."""
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stamp(binding: Binding) -> str:
    return f"{binding.package}=={binding.version}\n{VENVS}\n{_STUB.read_text()}{_LOAD_ALL}"


def _make(venv: Path, binding: Binding) -> None:
    compiler, python = shutil.which("gcc"), _find_python()
    if compiler is None:
        raise Unavailable("there is no gcc to compile the stub libraries")
    if python is None:
        raise Unavailable(f"the wheels need one of Python {', '.join(_PYTHONS)}, and none is here")
    _run([python, "-m", "venv", str(venv)])
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    pip += ["--retries", "1", "--timeout", "20", "--only-binary", ":all:"]
    packages = [binding.package, _RTX_LIBRARIES] if binding is RTX else [binding.package]
    _run([*pip, "--no-deps", *(f"{package}=={binding.version}" for package in packages)])
    if binding is not RTX:
        _make_stubs(venv, compiler, int(binding.version.split(".")[0]))


def _make_stubs(venv: Path, compiler: str, major: int) -> None:
    (packages,) = venv.glob("lib/python*/site-packages")
    folder = packages / "tensorrt_libs"
    folder.mkdir()
    (folder / "__init__.py").write_text(_LOAD_ALL)
    for name in _LIBRARIES + (_LIBRARIES_BEFORE_10 if major < 10 else ()):
        soname = f"lib{name}.so.{major}"
        _run([compiler, "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", str(folder / soname), str(_STUB)])


def _find_python() -> Optional[str]:
    versions = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))) / "versions"
    for version in _PYTHONS:
        found = [str(path) for path in sorted(versions.glob(f"{version}.*/bin/python"))]
        found += [path for path in (shutil.which(f"python{version}"),) if path]
        found += [sys.executable] if "%d.%d" % sys.version_info[:2] == version else []
        for candidate in found:
            tried = subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True, check=False)
            if tried.returncode == 0:
                return candidate
    return None


def _run(command: List[str]) -> None:
    try:
        subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        lines = error.output.decode("utf-8", "replace").strip().splitlines() or [f"exit {error.returncode}"]
        raise Unavailable(f"{' '.join(command[:6])} ... failed: {lines[-1]}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(command[:6])} ... took longer than {_TIMEOUT_S} s") from error


def main(arguments: List[str]) -> int:
    """Makes all of them; 1 when one cannot be had."""
    missing = 0
    for binding in BINDINGS:
        try:
            print(f"{binding.package} {binding.version}: {python_of(binding)}")
            if "--write" in arguments:
                (name_lists.FOLDER / f"{binding.names}.json").write_text(
                    name_lists.as_text(name_lists.of_document(introspected(binding)))
                )
        except Unavailable as error:
            missing += 1
            print(f"{binding.package} {binding.version}: {error}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
