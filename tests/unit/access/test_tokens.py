from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from edge_agent.access.roles import Role
from edge_agent.access.tokens import TokenFile
from edge_agent.domain.clock import Clock
from edge_agent.errors import ConfigError, InvalidRequest

ADD = """
import sys
from pathlib import Path
from edge_agent.access.roles import Role
from edge_agent.access.tokens import TokenFile
from edge_agent.domain.clock import Clock
tokens = TokenFile(Path(sys.argv[1]), Clock())
for n in range(10):
    tokens.add("%s-%d" % (sys.argv[2], n), Role.DEVICE)
"""


class SetClock(Clock):
    """A clock that stands where it is put."""

    at = 100.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tokens.json"


@pytest.fixture
def tokens(path: Path) -> TokenFile:
    return TokenFile(path, Clock())


def test_an_added_token_authenticates_and_is_stored_as_a_hash(tokens: TokenFile, path: Path) -> None:
    secret = tokens.add("press-1", Role.DEVICE)
    token = tokens.authenticate(secret)
    assert token is not None
    assert (token.name, token.role) == ("press-1", Role.DEVICE)
    assert len(secret) >= 43
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert tokens.authenticate(secret[:-1]) is None


def test_the_state_directory_is_made(tokens: TokenFile, path: Path) -> None:
    assert tokens.empty()
    assert tokens.list() == []
    assert not path.parent.exists()
    tokens.add("a", Role.ADMIN)
    assert not tokens.empty()


def test_a_running_agent_sees_what_a_command_does(tokens: TokenFile, path: Path) -> None:
    assert tokens.authenticate("x") is None
    command = TokenFile(path, Clock())
    secret = command.add("a", Role.VIEWER)
    assert tokens.authenticate(secret) is not None
    command.revoke("a")
    assert tokens.authenticate(secret) is None
    assert tokens.empty()


def test_a_removed_file_ends_every_token(tokens: TokenFile, path: Path) -> None:
    secret = tokens.add("a", Role.VIEWER)
    path.unlink()
    assert tokens.authenticate(secret) is None


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "a\n", "x" * 65, "anonymous", "loopback", "self", "\u4e2d"])
def test_a_bad_name_is_refused(tokens: TokenFile, path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be a token's name"):
        tokens.add(name, Role.VIEWER)
    assert not path.exists()


def test_a_name_is_given_once(tokens: TokenFile) -> None:
    secret = tokens.add("a", Role.VIEWER)
    with pytest.raises(InvalidRequest, match="revoke it first"):
        tokens.add("a", Role.ADMIN)
    assert tokens.authenticate(secret) is not None


def test_revoking_what_is_not_there_is_refused(tokens: TokenFile) -> None:
    tokens.add("a", Role.VIEWER)
    with pytest.raises(InvalidRequest, match="no token is called b"):
        tokens.revoke("b")
    assert len(tokens.list()) == 1


def test_the_number_of_tokens_is_bounded(tokens: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_agent.access.tokens._MAX_TOKENS", 2)
    tokens.add("a", Role.VIEWER)
    tokens.add("b", Role.VIEWER)
    with pytest.raises(InvalidRequest, match="2 tokens already"):
        tokens.add("c", Role.VIEWER)


@pytest.mark.parametrize("damage", [b"", b"\0" * 100, b'{"version": 1, "tok'])
def test_a_damaged_file_is_said_and_never_written_over(tokens: TokenFile, path: Path, damage: bytes) -> None:
    secret = tokens.add("a", Role.VIEWER)
    path.write_bytes(damage)
    command = TokenFile(path, Clock())
    for act in (command.load, command.list, lambda: command.add("b", Role.ADMIN), lambda: command.revoke("a")):
        with pytest.raises(ConfigError, match=r"tokens\.json: is damaged: .* \(put a good copy back"):
            act()
    assert path.read_bytes() == damage
    assert command.authenticate(secret) is None


def test_damage_under_a_running_agent_ends_no_token(path: Path) -> None:
    clock = SetClock()
    tokens = TokenFile(path, clock)
    secret = tokens.add("a", Role.VIEWER)
    good = path.read_bytes()
    path.write_bytes(b"{")
    assert tokens.authenticate(secret) is not None
    assert "is damaged" in str(tokens.fault)
    path.write_bytes(good)
    clock.at += 2
    assert tokens.authenticate(secret) is not None
    assert tokens.fault is None


def test_a_damaged_file_is_not_read_for_each_request(path: Path) -> None:
    clock = SetClock()
    tokens = TokenFile(path, clock)
    tokens.add("a", Role.VIEWER)
    path.write_bytes(b"{")
    tokens.authenticate("x")
    first = tokens.fault
    tokens.authenticate("x")
    assert tokens.fault is first
    clock.at += 2
    tokens.authenticate("x")
    assert tokens.fault is not first


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_said(tokens: TokenFile, path: Path) -> None:
    tokens.add("a", Role.VIEWER)
    path.chmod(0)
    with pytest.raises(ConfigError, match="cannot be read"):
        TokenFile(path, Clock()).load()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be (written|read)"):
        TokenFile(tmp_path / "state" / "tokens.json", Clock()).add("a", Role.VIEWER)


def test_uses_are_written_only_when_asked_and_only_once(tokens: TokenFile, path: Path) -> None:
    secret = tokens.add("a", Role.VIEWER)
    assert not tokens.save_uses()
    before = path.read_bytes()
    tokens.authenticate(secret)
    assert path.read_bytes() == before
    assert tokens.save_uses()
    assert TokenFile(path, Clock()).list()[0].last_used.endswith("Z")
    assert not tokens.save_uses()


def test_a_token_revoked_meanwhile_does_not_come_back_with_its_use(tokens: TokenFile, path: Path) -> None:
    secret = tokens.add("a", Role.VIEWER)
    tokens.add("b", Role.VIEWER)
    tokens.authenticate(secret)
    TokenFile(path, Clock()).revoke("a")
    tokens.save_uses()
    assert [token.name for token in tokens.list()] == ["b"]


def test_processes_that_add_at_once_lose_nothing(tokens: TokenFile, path: Path) -> None:
    children = [subprocess.Popen([sys.executable, "-c", ADD, str(path), name]) for name in ("a", "b", "c")]
    assert [child.wait(timeout=50) for child in children] == [0, 0, 0]
    assert len(tokens.list()) == 30
    assert sorted(file.name for file in path.parent.iterdir()) == ["tokens.json", "tokens.json.lock"]


def test_a_lock_that_is_never_given_back_ends_the_wait(path: Path) -> None:
    class Hasty(Clock):
        """Ten seconds pass with each look."""

        times: List[float] = [0.0]

        def monotonic(self) -> float:
            self.times.append(self.times[-1] + 10)
            return self.times[-1]

    path.parent.mkdir()
    with open(str(path) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="changed by another process"):
            TokenFile(path, Hasty()).add("a", Role.VIEWER)
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_root_writes_belongs_to_the_agents_user(tokens: TokenFile, path: Path) -> None:
    path.parent.mkdir()
    os.chown(path.parent, 12345, 12346)
    tokens.add("a", Role.VIEWER)
    for file in path.parent.iterdir():
        assert (file.stat().st_uid, file.stat().st_gid) == (12345, 12346)
