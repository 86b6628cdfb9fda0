from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.config.secret import read_secret
from edge_agent.errors import ConfigError


@pytest.mark.parametrize(
    ("data", "secret"),
    [
        (b"a", "a"),
        (b"a\n", "a"),
        (b"a\r\n", "a"),
        (b"a\n\n", "a\n"),
        (b" a b ", " a b "),
        ('p%40s:s/w#1&"é\n'.encode(), 'p%40s:s/w#1&"é'),
    ],
)
def test_only_the_last_line_end_is_no_part_of_it(tmp_path: Path, data: bytes, secret: str) -> None:
    file = tmp_path / "s"
    file.write_bytes(data)
    assert read_secret(file) == secret


@pytest.mark.parametrize("data", [b"", b"\n", b"x" * 70_000, b"hunter2\xff", None])
def test_a_secret_that_is_none_says_why_and_never_what(tmp_path: Path, data: bytes | None) -> None:
    file = tmp_path / "s"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_secret(file)
    assert caught.value.faults[0][0] == str(file)
    assert "hunter2" not in repr(caught.value.faults)
