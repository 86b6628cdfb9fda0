from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Callable, Tuple

import pytest

from edge_agent.access.roles import Role
from edge_agent.access.tokens import TokenFile
from edge_agent.cli import token
from edge_agent.domain.clock import Clock

Run = Callable[..., Tuple[int, str, str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "agent.toml"
    file.write_text('[agent]\nstate_dir = "state/deep"\n')
    return file


@pytest.fixture
def run(config: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> Tuple[int, str, str]:
        parser = argparse.ArgumentParser()
        token.add_arguments(parser)
        args = parser.parse_args(words)
        args.config = config
        code = token.run(args)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_add_prints_the_token_alone_on_a_line_before_the_first_start(run: Run, tmp_path: Path) -> None:
    code, out, err = run("add", "me", "--role", "admin")
    assert (code, err) == (0, "")
    secret = out[:-1]
    assert out == secret + "\n"
    found = TokenFile(tmp_path / "state/deep/tokens.json", Clock()).authenticate(secret)
    assert found is not None
    assert (found.name, found.role) == ("me", Role.ADMIN)


def test_list_shows_names_and_never_a_secret(run: Run) -> None:
    _, secret, _ = run("add", "me", "--role", "admin")
    run("add", "a-longer-name", "--role", "device")
    code, out, _ = run("list")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["NAME", "ROLE", "CREATED", "LAST", "USED"]
    assert lines[1].split()[:2] == ["me", "admin"]
    assert lines[2].endswith("never")
    assert secret.strip() not in out


def test_list_of_none_is_its_header(run: Run) -> None:
    assert run("list") == (0, "NAME  ROLE  CREATED  LAST USED\n", "")


def test_revoke_ends_a_token(run: Run, tmp_path: Path) -> None:
    _, secret, _ = run("add", "me", "--role", "viewer")
    assert run("revoke", "me") == (0, "", "")
    assert TokenFile(tmp_path / "state/deep/tokens.json", Clock()).authenticate(secret.strip()) is None


def test_what_cannot_be_done_is_said_and_exits_1(run: Run) -> None:
    run("add", "me", "--role", "viewer")
    assert run("revoke", "you") == (1, "", "no token is called you\n")
    code, out, err = run("add", "me", "--role", "viewer")
    assert (code, out) == (1, "")
    assert "revoke it first" in err


def test_an_unknown_role_is_a_usage_error(run: Run) -> None:
    with pytest.raises(SystemExit) as caught:
        run("add", "me", "--role", "root")
    assert caught.value.code == 2


def test_a_broken_configuration_and_a_damaged_file_exit_78(run: Run, config: Path, tmp_path: Path) -> None:
    run("add", "me", "--role", "viewer")
    (tmp_path / "state/deep/tokens.json").write_bytes(b"{")
    code, out, err = run("list")
    assert (code, out) == (78, "")
    assert "is damaged" in err
    config.write_text("[http]\nprot = 1\n")
    code, _, err = run("list")
    assert code == 78
    assert "did you mean port?" in err


@pytest.mark.parametrize(
    "order", ["-c {c} token add me --role admin", "token -c {c} add me --role admin", "token add me --role admin -c {c}"]
)
def test_the_configuration_may_stand_anywhere_on_the_line(config: Path, order: str) -> None:
    command = [sys.executable, "-m", "edge_agent", *order.format(c=config).split()]
    done = subprocess.run(command, capture_output=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.split()) == 1
