"""NVIDIA's perf_analyzer measures the agent as it measures Triton."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent_process import AgentProcess

NEEDS_GLIBC = (2, 38)


@pytest.fixture(name="perf_analyzer")
def perf_analyzer_fixture() -> str:
    """The program, or what EDGE_AGENT_PERF_ANALYZER names instead; a skip with the reason where it cannot run."""
    named = os.environ.get("EDGE_AGENT_PERF_ANALYZER")
    if named:
        return named
    beside = Path(sys.executable).with_name("perf_analyzer")
    found = str(beside) if beside.exists() else shutil.which("perf_analyzer")
    if found is None:
        pytest.skip("perf_analyzer is not installed (PyPI perf-analyzer)")
    name, version = platform.libc_ver()
    if name == "glibc" and tuple(int(part) for part in version.split(".")[:2]) < NEEDS_GLIBC:
        pytest.skip("perf_analyzer needs glibc %d.%d, this is %s" % (*NEEDS_GLIBC, version))
    return found


@pytest.mark.parametrize("form", ["binary", "json"])
def test_it_measures_a_model(perf_analyzer: str, agent: AgentProcess, form: str) -> None:
    command = [
        perf_analyzer, "-m", "add_one", "-u", agent.base.partition("//")[2], "--concurrency-range", "1:2",
        "-p", "500", "-s", "60", "--input-tensor-format", form, "--output-tensor-format", form,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"Concurrency: \d+, throughput: ([0-9.]+) infer/sec", done.stdout)
    assert len(found) == 2, done.stdout
    assert all(float(throughput) > 10 for throughput in found)


def test_it_reads_every_metric_that_it_wants_and_that_is_there(perf_analyzer: str, agent: AgentProcess) -> None:
    command = [
        perf_analyzer, "-m", "add_one", "-u", agent.base.partition("//")[2], "-p", "500", "-s", "60",
        "--collect-metrics", "--metrics-url", agent.base.partition("//")[2] + "/metrics",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "Unable to connect" not in said
    there = agent.get("/metrics")[1].decode()
    unread = re.findall(r"Unable to parse '(\w+)'", said)
    assert [name for name in unread if name in there] == []  # what it looks for is about GPUs; a box without one has none
