"""scripts/gpu_check: for real where EDGE_AGENT_GPU_PYTHON names an interpreter with TensorRT, else on the fake library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import pytest

from tests.cuda import pycuda_venv
from tests.cuda.real_pycuda import interpreter, skip_reason
from tests.fake_gpu import gpu_python, set_faults

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--size", "32", "--width", "0.125", "--seconds", "0.2", "--clients", "4")
GPU_PYTHON = os.environ.get("EDGE_AGENT_GPU_PYTHON", "")

# a machine that is busy, and the first of them may build PyCUDA
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]


class Checked(NamedTuple):
    """How a run of it ended."""

    code: int
    output: str
    report: Dict[str, Any]


def check(folder: Path, *arguments: str, python: str = sys.executable) -> Checked:
    """Runs it as a user does."""
    target = folder / "figures.json"
    command = [str(ROOT / "scripts" / "gpu_check"), "--json", str(target), *arguments]
    environ = {**os.environ, "PYTHON": python}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, env=environ, check=False
    )
    return Checked(done.returncode, done.stdout, json.loads(target.read_text()) if target.exists() else {})


def script(folder: Path, text: str) -> str:
    """A program of that text."""
    path = folder / "trtexec"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def names(rows: List[Dict[str, Any]]) -> List[str]:
    """Of models."""
    return [row["model"] for row in rows]


@pytest.mark.gpu
@pytest.mark.skipif(not GPU_PYTHON, reason="EDGE_AGENT_GPU_PYTHON does not name an interpreter with TensorRT")
def test_the_agent_works_with_this_machines_gpu(tmp_path):
    done = check(tmp_path, "--python", GPU_PYTHON)
    print(done.output)
    assert done.code == 0, done.output


def test_it_builds_compares_times_and_kills_and_writes_down_what_came_of_it(tmp_path):
    trtexec = script(tmp_path, 'case "$*" in *--loadEngine=/*.plan*8x3x32x32*) echo "[I] Throughput: 100 qps";; esac\n')
    done = check(tmp_path, "--python", gpu_python(tmp_path), "--trtexec", trtexec, *SMALL)
    assert done.code == 0, done.output
    report = done.report
    assert report["faults"] == []
    tiny, mobile = ["add_one", "sum_and_difference", "mean_colour"], ["mobile-fp32", "mobile-fp16", "mobile-int8"]
    assert names(report["models"]) == tiny + mobile
    for row in report["models"]:
        assert row["before"]["compared"] == row["tensorrt"]["compared"] == 4
        assert row["plan"]["precision"] == row["precision"]
        assert row["model"] in done.output
    for row in report["models"][len(tiny) :]:
        assert row["clients_one"]["requests"] > 0
        assert row["trtexec_rows_per_s"] == 800.0
        assert row["ratio"] == pytest.approx(row["clients_many"]["per_s"] / 800.0, abs=0.01)
    ways = [(row["rows"], row["zero_copy"], row["cuda_graphs"]) for row in report["engine"]]
    assert ways == [(rows, zero, graphs) for rows in (1, 8) for zero in (False, True) for graphs in (False, True)]
    assert report["kill"]["wrong"] == 0
    assert report["kill"]["right_after"] >= 40
    assert done.output.endswith("gpu_check: all well\n\nwritten to %s\n" % (tmp_path / "figures.json"))


@pytest.mark.parametrize("version", ["3.6", "3.8"])
def test_it_runs_on_the_real_pycuda_of_another_interpreter(tmp_path, version):
    try:
        venv = pycuda_venv.make(version)
    except pycuda_venv.CannotMake as reason:
        pytest.skip(skip_reason(version, reason))
    one = interpreter(tmp_path, venv, integrated=0, asynchronous=1)
    try:
        done = check(tmp_path, "--python", str(one.python), *SMALL)
        assert done.code == 0, done.output
        assert done.report["machine"]["facts"]["device"] == "Test device"
    finally:
        one.driver.close()


def test_a_device_that_cannot_do_everything_is_checked_with_what_it_can(tmp_path):
    python = gpu_python(tmp_path, version="8.2", compute_capability=(5, 3), name="Tegra X1")
    done = check(tmp_path, "--python", python, *SMALL)
    assert done.code == 0, done.output
    assert "mobile-int8" not in names(done.report["models"])
    assert "left out: int8: not on this device" in done.output
    assert "trtexec   not here" in done.output or done.report["machine"]["trtexec"]


def test_a_tensorrt_that_knows_only_the_models_own_types_gets_no_fp16(tmp_path):
    done = check(tmp_path, "--python", gpu_python(tmp_path, version="11.4.0"), *SMALL)
    assert done.code == 0, done.output
    assert names(done.report["models"])[3:] == ["mobile-fp32", "mobile-int8"]
    assert "left out: fp16" in done.output


def test_wrong_numbers_are_found_and_no_plan_that_gives_them_serves(tmp_path):
    faults = tmp_path / "faults.json"
    set_faults(faults, wrong_outputs=1000.0)
    done = check(tmp_path, "--python", gpu_python(tmp_path, faults=faults), *SMALL)
    assert done.code == 1
    assert len([text for text in done.report["faults"] if text.startswith("mobile-")]) >= 3
    assert "WRONG: mobile-fp16" in done.output
    assert done.output.count("gpu_check: failed") == 1


def test_a_build_that_does_not_end_is_given_up_in_time(tmp_path):
    faults, gate = tmp_path / "faults.json", tmp_path / "gate"
    gate.write_text("")
    set_faults(faults, gate=gate)
    done = check(tmp_path, "--python", gpu_python(tmp_path, faults=faults), "--limit-s", "15", *SMALL)
    assert done.code == 1
    assert done.output.count("no plan in time") == 6
    assert "TensorRT serves none of the large models" in done.output


def test_a_trtexec_that_fails_is_told(tmp_path):
    trtexec = script(tmp_path, 'echo "[E] it cannot be loaded"\nexit 3\n')
    done = check(tmp_path, "--python", gpu_python(tmp_path), "--trtexec", trtexec, *SMALL)
    assert done.code == 1
    assert "WRONG: trtexec on mobile-fp32: ended with 3: [E] it cannot be loaded" in done.output


def test_a_machine_without_a_driver_says_so(tmp_path):
    done = check(tmp_path, "--python", gpu_python(tmp_path, driver=False))
    assert done.code == 1
    assert "MISSING   engine.no_driver" in done.output
    assert "libcuda.so.1" in done.output
    assert done.report["machine"]["facts"]["available"] is False


def test_an_interpreter_that_is_none_says_so(tmp_path):
    done = check(tmp_path, "--python", str(tmp_path / "nothing"))
    assert done.code == 1
    assert "cannot be run" in done.output


def test_an_interpreter_without_what_the_agent_needs_is_told_what_it_lacks(tmp_path):
    bare = tmp_path / "bare"
    (bare / "bin").mkdir(parents=True)
    (bare / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    home = os.path.dirname(os.path.realpath(sys.executable))
    (bare / "pyvenv.cfg").write_text("home = %s\ninclude-system-site-packages = false\n" % home)
    command = [str(bare / "bin" / "python"), str(ROOT / "scripts" / "gpu_check_parts" / "gpu_check.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "lacks aiohttp, numpy, onnxruntime, paho-mqtt" in done.stdout
    assert "pip install" in done.stdout
