"""The pins: releases only, nothing that JetPack brings, and pip keeps to it. That they exist: jetpack/fetch-wheels."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Dict

import pytest

PACK = Path(__file__).resolve().parents[2] / "jetpack"
FILES = sorted(path.name for path in PACK.glob("constraints-*.txt"))
NEVER = {
    "opencv-python",
    "opencv-python-headless",
    "opencv-contrib-python",
    "opencv-contrib-python-headless",
    "tensorrt",
    "onnxruntime-gpu",
}


def _lines(name: str) -> Dict[str, str]:
    found = {}
    for line in (PACK / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"([a-z0-9-]+)(==[0-9][0-9.]*|<0)", line)
            assert match, line
            assert match.group(1) not in found
            found[match.group(1)] = match.group(2)
    return found


@pytest.mark.parametrize("name", FILES)
def test_each_line_is_a_release_or_a_never(name: str) -> None:
    assert {package for package, what in _lines(name).items() if what == "<0"} == NEVER


@pytest.mark.parametrize(
    ("name", "pins"),
    [
        ("constraints-jp4-agent.txt", {"numpy": "1.24.4", "onnxruntime": "1.19.2", "aiohttp": "3.10.11", "paho-mqtt": "2.1.0"}),
        ("constraints-jp4-host.txt", {"numpy": "1.19.5", "pycuda": "2022.1", "pip": "21.3.1"}),
        ("constraints-jp5.txt", {"numpy": "1.23.5", "onnxruntime": "1.19.2", "pycuda": "2022.2.2"}),
        ("constraints-jp6.txt", {"numpy": "1.26.4", "onnxruntime": "1.23.2", "pycuda": "2026.1"}),
        ("constraints-jp7.txt", {"numpy": "1.26.4", "onnxruntime": "1.32.0", "pycuda": "2026.1"}),
    ],
)
def test_what_matters_is_pinned(name: str, pins: Dict[str, str]) -> None:
    lines = _lines(name)
    assert {package: lines[package] for package in pins} == {package: "==" + version for package, version in pins.items()}


@pytest.mark.parametrize("package", ["opencv-python-headless", "tensorrt"])
def test_pip_refuses_what_jetpack_brings(tmp_path: Path, package: str) -> None:
    module = package.replace("-", "_")
    with zipfile.ZipFile(str(tmp_path / ("%s-9.0-py3-none-any.whl" % module)), "w") as wheel:
        info = "%s-9.0.dist-info/" % module
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: 9.0\n" % package)
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")
    command = [sys.executable, "-m", "pip", "--isolated", "download", "--no-index", "--find-links", str(tmp_path), "-q", "-d"]
    asked = [*command, str(tmp_path / "out"), package]
    assert subprocess.run(asked, capture_output=True, timeout=120, check=False).returncode == 0
    refused = subprocess.run([*asked, "-c", str(PACK / FILES[0])], capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 1
    assert package in refused.stderr
