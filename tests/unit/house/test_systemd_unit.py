from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest

UNIT = Path(__file__).resolve().parents[3] / "systemd" / "edge-agent.service"


def _settings() -> Dict[str, Dict[str, List[str]]]:
    sections: Dict[str, Dict[str, List[str]]] = {}
    section: Dict[str, List[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path) -> None:
    program = _settings()["Service"]["ExecStart"][0].split()[0]
    copy = tmp_path / "edge-agent.service"
    copy.write_text(UNIT.read_text(encoding="utf-8").replace(program, "/bin/true"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_is_restarted_for_ever() -> None:
    unit = _settings()
    assert unit["Unit"]["StartLimitIntervalSec"] == ["0"]
    assert unit["Service"]["Restart"] == ["always"]
    assert 1 <= float(unit["Service"]["RestartSec"][0]) <= 60


def test_a_killed_child_does_not_end_the_service() -> None:
    service = _settings()["Service"]
    assert service["OOMPolicy"] == ["continue"]
    assert service["KillMode"] == ["mixed"]


def test_the_agent_has_more_time_to_stop_than_it_takes() -> None:
    from edge_agent.config.agent import AgentSection

    assert float(_settings()["Service"]["TimeoutStopSec"][0]) > AgentSection().stop_timeout_s


@pytest.mark.parametrize(
    "hiding",
    ["PrivateDevices", "PrivateUsers", "DevicePolicy", "DeviceAllow", "ProtectClock", "PrivateTmp", "ProcSubset"],
)
def test_nothing_hides_gpu_and_cameras(hiding: str) -> None:
    assert hiding not in _settings()["Service"]


def test_it_tells_when_it_is_ready_and_is_watched() -> None:
    service = _settings()["Service"]
    assert service["Type"] == ["notify"]
    assert 0 < float(service["WatchdogSec"][0]) <= 60
