from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from edge_agent.cli import check_hosts
from edge_agent.cli.check_hosts import host_faults
from edge_agent.config.hosts import HostSection


def script(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n%s\n" % text)
    path.chmod(0o755)
    return str(path)


def faults(*pythons: str) -> list:
    return list(host_faults({"h%d" % number: HostSection(python=python) for number, python in enumerate(pythons)}))


def test_interpreters_that_have_numpy_or_are_the_agents_own_are_good() -> None:
    assert faults("", sys.executable) == []


def test_an_interpreter_without_numpy_is_a_fault_with_what_it_says(tmp_path: Path) -> None:
    python = script(tmp_path / "python", 'exec %s -S "$@"' % sys.executable)
    ((path, what, cure),) = faults(python)
    assert (path, what) == ("hosts.h0.python", "%s cannot import numpy: ModuleNotFoundError: No module named 'numpy'" % python)
    assert "install numpy" in cure


def test_an_interpreter_that_is_not_there_is_one_fault() -> None:
    assert [what for _, what, _ in faults("/no/python")] == ["/no/python cannot be run"]


def test_what_is_no_program_and_what_ends_without_a_word_are_faults(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF no program")
    broken.chmod(0o755)
    silent = script(tmp_path / "silent", "exit 7")
    whats = [what for _, what, _ in faults(str(broken), silent)]
    assert whats == ["%s cannot be run: Exec format error" % broken, "%s cannot import numpy: it ended with 7" % silent]


def test_an_interpreter_of_several_hosts_is_asked_once_and_told_for_each(tmp_path: Path) -> None:
    python = script(tmp_path / "python", "echo x >> %s; exit 1" % (tmp_path / "asked"))
    assert [path for path, _, _ in faults(python, python)] == ["hosts.h0.python", "hosts.h1.python"]
    assert (tmp_path / "asked").read_text() == "x\n"


def test_one_that_hangs_is_left_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_hosts, "_IMPORT_S", 0.5)
    began = time.monotonic()
    ((_, what, _),) = faults(script(tmp_path / "python", "exec sleep 50"))
    assert "did not import numpy within 0.5 s" in what
    assert time.monotonic() - began < 20
