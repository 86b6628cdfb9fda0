from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.config.durable import write_durably


def test_the_new_content_replaces_the_old_and_leaves_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "a"
    write_durably(file, b"one")
    write_durably(file, b"two", mode=0o640)
    assert file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_a_failure_leaves_the_old_content_and_nothing_beside(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "inside").write_bytes(b"x")
    with pytest.raises(OSError, match="directory"):
        write_durably(folder, b"two")
    assert list(tmp_path.iterdir()) == [folder]
