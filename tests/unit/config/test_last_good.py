from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge_agent.config.last_good import FILE_NAME, load_with_fallback, save_last_good
from edge_agent.config.load import load_config
from edge_agent.errors import ConfigError

GOOD = '[agent]\nstate_dir = "state"\n[http]\nport = 4\n'


def start_well(file: Path) -> None:
    config, error = load_with_fallback(file, {})
    assert error is None
    save_last_good(config)


@pytest.mark.parametrize(
    "broken",
    ["", "\0\0\0", "[http", GOOD.replace("port = 4", 'port = "x"'), GOOD + "prot = 3\n", GOOD.replace('"state"', "5")],
)
def test_a_broken_file_runs_the_last_good_copy(write: Any, tmp_path: Path, broken: str) -> None:
    start_well(write(GOOD + "[mqtt]\nusername = 'u'\npassword_file = 'secret'\n"))
    file = write(broken)
    config, error = load_with_fallback(file, {"STATE_DIRECTORY": str(tmp_path / "state")})
    assert isinstance(error, ConfigError)
    assert config.http.port == 4
    assert config.agent.state_dir == tmp_path / "state"
    assert config.mqtt is not None
    assert config.mqtt.password_file == tmp_path / "secret"


def test_a_lost_file_runs_the_last_good_copy(write: Any) -> None:
    file = write(GOOD)
    start_well(file)
    file.unlink()
    config, error = load_with_fallback(file, {"STATE_DIRECTORY": str(file.parent / "state") + ":/other"})
    assert error is not None
    assert config.http.port == 4


def test_the_broken_file_itself_says_where_the_copy_is(write: Any) -> None:
    start_well(write(GOOD))
    config, error = load_with_fallback(write(GOOD + "prot = 3\n"), {})
    assert error is not None
    assert "did you mean port?" in str(error)
    assert config.http.port == 4


def test_a_broken_file_in_conf_d_counts_as_well(write: Any) -> None:
    file = write(GOOD)
    write("[http]\nport = 6\n", "conf.d/a.toml")
    start_well(file)
    write("[http\n", "conf.d/a.toml")
    config, error = load_with_fallback(file, {})
    assert error is not None
    assert config.http.port == 6


def test_the_environment_holds_in_safe_mode_unless_it_is_the_fault(write: Any) -> None:
    file = write(GOOD)
    start_well(file)
    config, error = load_with_fallback(file, {"EDGE_AGENT__HTTP__PORT": "many"})
    assert error is not None
    assert config.http.port == 4
    file = write(GOOD + "prot = 3\n")
    config, error = load_with_fallback(file, {"EDGE_AGENT__HTTP__PORT": "9"})
    assert error is not None
    assert config.http.port == 9


def test_a_first_start_with_a_broken_file_raises(write: Any) -> None:
    with pytest.raises(ConfigError, match="prot"):
        load_with_fallback(write(GOOD + "prot = 3\n"), {})


def test_the_copy_of_another_file_is_not_run(write: Any) -> None:
    start_well(write(GOOD, "one.toml"))
    with pytest.raises(ConfigError):
        load_with_fallback(write(GOOD + "prot = 3\n", "two.toml"), {})


@pytest.mark.parametrize("damage", [b"", b"\0" * 64, b"[http"])
def test_a_damaged_copy_is_not_run(write: Any, tmp_path: Path, damage: bytes) -> None:
    start_well(write(GOOD))
    (tmp_path / "state" / FILE_NAME).write_bytes(damage)
    with pytest.raises(ConfigError, match="prot"):
        load_with_fallback(write(GOOD + "prot = 3\n"), {})


def test_the_copy_is_written_once_and_for_its_owner_only(write: Any, tmp_path: Path) -> None:
    config = load_config(write(GOOD), {"EDGE_AGENT__HTTP__PORT": "7"})
    assert save_last_good(config)
    copy = tmp_path / "state" / FILE_NAME
    assert copy.stat().st_mode & 0o777 == 0o600
    assert 'port" = 4' in copy.read_text()
    assert not save_last_good(config)
    assert [file.name for file in copy.parent.iterdir()] == [FILE_NAME]


def test_a_state_directory_that_cannot_be_written_is_a_fault(write: Any, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written"):
        save_last_good(load_config(write(GOOD), {}))
