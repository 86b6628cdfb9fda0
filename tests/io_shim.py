"""Builds the library that lets reads fail and tells of connections, for processes under test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Dict

import pytest

_SOURCE = Path(__file__).parent / "doubles" / "io_shim.c"


def io_shim(folder: Path) -> Dict[str, str]:
    """`LD_PRELOAD` with the library, made in `folder`; skips the test where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = folder / "io_shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(_SOURCE), "-ldl"],
        check=True,
        timeout=60,
    )
    return {"LD_PRELOAD": str(library)}
