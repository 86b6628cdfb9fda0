from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent_process import ROOT


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(str(item.fspath)).parent.name == "acceptance":
            item.add_marker(pytest.mark.acceptance)
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def face_models(tmp_path_factory):
    """A repository with the demo's face detector, made as the demo makes it (kept in .venvs between runs)."""
    kept = ROOT / ".venvs" / "models"
    folder = kept / "face"
    kept.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = subprocess.run(
            [sys.executable, str(ROOT / "scripts/make_demo_model.py"), str(folder)],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
    assert made.returncode == 0, made.stdout + made.stderr
    return kept
