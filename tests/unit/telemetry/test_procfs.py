from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.telemetry import procfs


def _stat(root: Path, line: str) -> None:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text(line + "\ncpu0 1 1 1 1\n")


def test_load_is_the_busy_share_since_the_last_read(tmp_path: Path) -> None:
    load = procfs.CpuLoad(tmp_path)
    _stat(tmp_path, "cpu  100 0 100 700 100 0 0 0 0 0")
    assert load.read() == pytest.approx(0.2)
    _stat(tmp_path, "cpu  150 0 130 710 110 0 0 0 0 0")
    assert load.read() == pytest.approx(0.8)


def test_no_time_passed_is_unknown(tmp_path: Path) -> None:
    load = procfs.CpuLoad(tmp_path)
    _stat(tmp_path, "cpu  100 0 100 700 100 0 0 0 0 0")
    load.read()
    assert load.read() is None


@pytest.mark.parametrize("line", ["", "intr 1 2 3 4", "cpu a b c d", "cpu 1 2"])
def test_an_odd_stat_file_is_unknown(tmp_path: Path, line: str) -> None:
    _stat(tmp_path, line)
    assert procfs.CpuLoad(tmp_path).read() is None


def test_memory_comes_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:        4059712 kB\nMemFree: 1 kB\nMemAvailable:    2048 kB\n")
    assert procfs.memory_bytes(tmp_path) == {"total": 4059712 * 1024, "available": 2048 * 1024}


def test_a_machine_without_proc_is_unknown(tmp_path: Path) -> None:
    assert procfs.memory_bytes(tmp_path) == {"total": None, "available": None}
    assert procfs.CpuLoad(tmp_path).read() is None
    assert procfs.read_int(tmp_path / "nothing") is None


def test_text_of_a_device_tree_file_loses_its_nul(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"NVIDIA Orin\0")
    (tmp_path / "number").write_text(" 42\n")
    (tmp_path / "word").write_text("many")
    assert procfs.read_text(tmp_path / "model") == "NVIDIA Orin"
    assert procfs.read_int(tmp_path / "number") == 42
    assert procfs.read_int(tmp_path / "word") is None


def test_this_process_has_a_size() -> None:
    size = procfs.rss_bytes()
    assert size is not None
    assert size > 1_000_000
