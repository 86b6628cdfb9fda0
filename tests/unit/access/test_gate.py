from __future__ import annotations

import base64
from pathlib import Path
from typing import Dict

import pytest

from edge_agent.access.gate import Actor, Gate, is_loopback, secret_of
from edge_agent.access.roles import Permission, Role
from edge_agent.access.tokens import TokenFile
from edge_agent.domain.clock import Clock
from edge_agent.errors import Forbidden, Unauthenticated


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(("%s:%s" % (user, password)).encode()).decode()


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json", Clock())


@pytest.fixture
def secrets(tokens: TokenFile) -> Dict[Role, str]:
    return {role: tokens.add("my-" + role.value, role) for role in Role}


@pytest.mark.parametrize("form", ["Bearer %s", "bearer  %s ", "BEARER %s"])
def test_a_bearer_token_is_its_actor(tokens: TokenFile, secrets: Dict[Role, str], form: str) -> None:
    gate = Gate(tokens, loopback=False)
    actor = gate.check(form % secrets[Role.VIEWER], Permission.STATUS)
    assert actor == Actor("my-viewer", Role.VIEWER)


@pytest.mark.parametrize("user", ["", "anybody", "my-admin", "\u4e2d"])
def test_a_basic_password_is_the_token_and_the_user_does_not_matter(
    tokens: TokenFile, secrets: Dict[Role, str], user: str
) -> None:
    gate = Gate(tokens, loopback=False)
    assert gate.check(basic(user, secrets[Role.DEVICE]), Permission.INFER).name == "my-device"


def test_a_role_that_does_not_allow_it_is_forbidden(tokens: TokenFile, secrets: Dict[Role, str]) -> None:
    gate = Gate(tokens, loopback=False)
    with pytest.raises(Forbidden, match="my-device has the role device, which does not allow results"):
        gate.check("Bearer " + secrets[Role.DEVICE], Permission.RESULTS)


def test_what_is_open_to_everybody_is_open_to_a_weak_token(tokens: TokenFile, secrets: Dict[Role, str]) -> None:
    gate = Gate(tokens, "read", loopback=False)
    assert gate.check("Bearer " + secrets[Role.DEVICE], Permission.RESULTS).name == "my-device"


@pytest.mark.parametrize("header", [None, "", "  "])
def test_no_token_is_unauthenticated_or_anonymous(tokens: TokenFile, header: str | None) -> None:
    gate = Gate(tokens, ["metrics"], loopback=False)
    assert gate.check(header, Permission.METRICS) == Actor("anonymous", None)
    with pytest.raises(Unauthenticated, match="a token is needed"):
        gate.check(header, Permission.STATUS)


def test_a_loopback_bind_needs_no_token(tokens: TokenFile, secrets: Dict[Role, str]) -> None:
    gate = Gate(tokens, loopback=True)
    assert gate.check(None, Permission.ERASE) == Actor("loopback", Role.ADMIN)
    with pytest.raises(Forbidden):
        gate.check("Bearer " + secrets[Role.VIEWER], Permission.ERASE)


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize(
    "header",
    [
        "Bearer wrong",
        "Bearer",
        "Bearer ",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"user:").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic \u4e2d",
        "Digest x",
        "wrong",
        "Bearer \udcff",
        "Bearer " + "x" * 100_000,
    ],
    ids=range(13),
)
def test_a_wrong_token_is_never_taken_for_none(
    tokens: TokenFile, secrets: Dict[Role, str], header: str, loopback: bool
) -> None:
    gate = Gate(tokens, "all", loopback=loopback)
    with pytest.raises(Unauthenticated):
        gate.check(header, Permission.STATUS)


def test_the_hash_in_the_file_is_no_token(tokens: TokenFile, secrets: Dict[Role, str]) -> None:
    gate = Gate(tokens, loopback=False)
    for line in tokens.path.read_text().split('"'):
        for text in (line, line.partition(":")[2]):
            with pytest.raises(Unauthenticated):
                gate.check("Bearer " + text, Permission.INFER)


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.5", False),
        ("box.local", False),
        ("localhost.example", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


def test_a_device_keeps_under_its_own_name_only() -> None:
    assert Actor("press-1", Role.DEVICE).may_keep_as("press-1")
    assert not Actor("press-1", Role.DEVICE).may_keep_as("press-2")
    assert Actor("me", Role.ADMIN).may_keep_as("press-2")


def test_a_secret_with_a_colon_is_whole() -> None:
    assert secret_of(basic("u", "a:b")) == "a:b"
