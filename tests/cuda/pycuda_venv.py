"""Makes an interpreter with the real PyCUDA, built against headers out of a wheel and libcuda.so.1 out of this folder.

Kept as .venvs/pycuda-VERSION while nothing it is made from changes. What JetPack 4, 5 and 7 have; JetPack 6 has 7's PyCUDA.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = Path(__file__).resolve().parent / "libcuda"
VENVS = ROOT / ".venvs"
_STEP_S = 420


@dataclass(frozen=True)
class Recipe:
    """Which PyCUDA belongs to a Python, and what it is built with and runs beside."""

    python: str
    pycuda: str
    headers: str
    tools: Tuple[str, ...]
    beside: Tuple[str, ...]


RECIPES = {
    recipe.python: recipe
    for recipe in (
        Recipe(
            "3.6",
            "2022.1",
            "nvidia-cuda-runtime-cu11==11.8.89",  # of CUDA 10.2, JetPack 4's own, there is no wheel
            ("pip==21.3.1", "setuptools==59.6.0", "wheel", "numpy==1.19.5"),
            ("onnxruntime==1.10.0", "pytools==2022.1.2", "appdirs", "mako"),
        ),
        Recipe(
            "3.8",
            "2022.2.2",
            "nvidia-cuda-runtime-cu11==11.8.89",
            ("setuptools<70", "wheel", "numpy<1.25"),
            ("onnxruntime>=1.16", "pytools", "appdirs", "mako"),
        ),
        Recipe(
            "3.12",
            "2026.1",
            "nvidia-cuda-runtime==13.0.96",
            ("setuptools", "wheel", "numpy>=1.26"),
            ("onnxruntime>=1.16", "pytools", "platformdirs", "mako"),
        ),
    )
}

#: the one header that PyCUDA includes and the wheels lack
_PROFILER_H = """#pragma once
#include <cuda.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;
CUresult cuProfilerInitialize(const char *, const char *, CUoutput_mode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
#ifdef __cplusplus
}
#endif
"""


class CannotMake(Exception):
    """There is no such interpreter here, and the text says why."""


@dataclass(frozen=True)
class PycudaVenv:
    """An interpreter that has the real PyCUDA, and the driver that it finds."""

    python: Path
    site_packages: Path
    libcuda: Path


def make(version: str) -> PycudaVenv:
    """The venv for a Python version, made now (a minute or two) or before. CannotMake says why not."""
    recipe = RECIPES[version]
    folder = VENVS / ("pycuda-" + version)
    for tool in ("gcc", "g++", "nm"):
        if shutil.which(tool) is None:
            raise CannotMake("%s is not installed here" % tool)
    python = _find_python(version)
    VENVS.mkdir(exist_ok=True)
    with open(str(folder) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers want it at once
        stamp = _stamp(recipe, python)
        if _read(folder / "stamp") != stamp:
            shutil.rmtree(folder, ignore_errors=True)
            _build(recipe, python, folder)
            (folder / "stamp").write_text(stamp)
        (site_packages,) = folder.glob("lib/python*/site-packages")
        return PycudaVenv(folder / "bin" / "python", site_packages, _libcuda(folder, site_packages))


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _stamp(recipe: Recipe, python: Path) -> str:
    return repr((recipe, _PROFILER_H, str(python), str(ROOT)))


def _find_python(version: str) -> Path:
    """By pyenv or on the PATH, as scripts/test looks for it."""
    for candidate in _candidates(version):
        try:
            asked = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            found = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if found.stdout.strip() == version:
            return candidate
    raise CannotMake("Python %s is not installed here" % version)


def _candidates(version: str) -> Iterator[Path]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in sorted(pyenv.glob("versions/%s.*" % version)):
        yield folder / "bin" / "python"
    for name in ("python" + version, "python3"):
        if shutil.which(name):
            yield Path(str(shutil.which(name)))


def _run(what: str, command: List[str], folder: Optional[Path] = None) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV_"))}
    environment["CFLAGS"] = "-O0 -g0"  # a minute less
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_STEP_S,
        env=environment,
        check=False,
        cwd=folder,
    )
    if done.returncode:
        last = [line for line in done.stdout.splitlines() if line.strip() and "WARNING" not in line][-3:]
        raise CannotMake("%s failed: %s" % (what, " | ".join(last)))


def _build(recipe: Recipe, python: Path, folder: Path) -> None:
    venv = str(folder / "bin" / "python")
    pip = [venv, "-m", "pip"]
    work = folder / "build"
    _run("python -m venv", [str(python), "-m", "venv", str(folder)])
    for tool in recipe.tools:  # one by one: the first of them may be pip
        _run("pip install " + tool, [*pip, "install", "-q", "-U", tool])
    _run("pip install " + " ".join(recipe.beside), [*pip, "install", "-q", *recipe.beside])
    pycuda = "pycuda==" + recipe.pycuda
    _run(
        "pip download " + pycuda,
        [*pip, "download", "-q", "--no-deps", "--no-binary", "pycuda", "--no-build-isolation", "-d", str(work), pycuda],
    )
    _run("pip download " + recipe.headers, [sys.executable, "-m", "pip", *_HEADERS, "-d", str(work), recipe.headers])
    source = _unpacked(work)
    _lay_out_cuda(work)
    cuda = str(work / "cuda")
    settings = ["--no-cuda-enable-curand", "--cuda-root=" + cuda, "--cuda-inc-dir=" + cuda + "/include"]
    _run("configure.py", [venv, "configure.py", *settings], source)
    _run("building " + pycuda, [*pip, "install", "-q", "--no-build-isolation", "--no-deps", "."], source)
    shutil.rmtree(work)


_HEADERS = ["download", "-q", "--no-deps", "--only-binary=:all:"]


def _unpacked(work: Path) -> Path:
    (archive,) = work.glob("pycuda-*.tar.gz")
    checked: Dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as file:
        file.extractall(work, **checked)
    return work / archive.name[: -len(".tar.gz")]


def _lay_out_cuda(work: Path) -> None:
    """A CUDA folder as PyCUDA's setup wants it: headers, and an empty library to link with."""
    include, library = work / "cuda" / "include", work / "cuda" / "lib64"
    include.mkdir(parents=True)
    library.mkdir()
    (wheel,) = work.glob("nvidia_cuda_runtime*.whl")
    with zipfile.ZipFile(wheel) as file:
        for name in file.namelist():
            if "/include/" in name and not name.endswith("/"):
                target = include / name.split("/include/", 1)[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read(name))
    (include / "cudaProfiler.h").write_text(_PROFILER_H)
    empty = work / "empty.c"
    empty.write_text("")
    _compile([empty], library / "libcuda.so")
    _compile([empty], library / "libcudart.so")


def _compile(sources: List[Path], target: Path) -> None:
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread"]
    named = ["-Wl,-soname," + ("libcuda.so.1" if "cuda.so" in target.name else target.name)]
    _run("compiling " + target.name, ["gcc", *flags, *named, "-o", str(target), *map(str, sources)])


def _libcuda(folder: Path, site_packages: Path) -> Path:
    """The driver of this folder, with every function that this PyCUDA binds: one that is missing makes its import fail."""
    sources = sorted(SOURCES.glob("*.c"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()) if path.is_file()))
    target = folder / ("driver-" + digest.hexdigest()[:12])
    library = target / "libcuda.so.1"
    if not library.exists():
        for old in folder.glob("driver-*"):
            shutil.rmtree(old)
        target.mkdir()
        (extension,) = site_packages.glob("pycuda/_driver*.so")
        rest = target / "rest.c"
        rest.write_text(_rest(_symbols("--undefined-only", extension), sources))
        _compile([*sources, rest], target / "libcuda.so")
        os.rename(target / "libcuda.so", library)
    return library


def _symbols(which: str, library: Path) -> List[str]:
    found = subprocess.run(["nm", "-D", which, str(library)], capture_output=True, text=True, check=True, timeout=60)
    names = (line.split()[-1] for line in found.stdout.splitlines() if line.strip())
    return sorted(name for name in names if name.startswith("cu") and name[2:3].isupper())


def _rest(needed: List[str], sources: List[Path]) -> str:
    """C for what is needed and not written by hand: each answers that it is not supported."""
    written = "\n".join(path.read_text() for path in sources)
    missing = [name for name in needed if "\nCUresult %s(" % name not in written]
    lines = ["int %s(void);\nint %s(void) { return 801; }" % (name, name) for name in missing]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for wanted in sys.argv[1:] or sorted(RECIPES):
        print(make(wanted))
