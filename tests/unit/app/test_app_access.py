from __future__ import annotations

import pytest

from edge_agent import errors
from edge_agent.access.roles import Role
from edge_agent.access.tokens import TokenFile
from edge_agent.app.access import admit
from edge_agent.config.http import HttpSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import State

OPEN = HttpSection(host="0.0.0.0")


def tokens_in(folder):
    return TokenFile(folder / "tokens.json", Clock())


def last_good(folder, host):
    (folder / "last-good.toml").write_text('[http]\nhost = "%s"\n' % host)


def test_loopback_needs_no_token(tmp_path):
    admission = admit(HttpSection(), tokens_in(tmp_path), tmp_path, "")
    assert admission.open_to_loopback
    assert admission.status.state is State.OK


def test_other_machines_are_let_in_once_there_is_a_token(tmp_path):
    tokens_in(tmp_path).add("boss", Role.ADMIN)
    admission = admit(OPEN, tokens_in(tmp_path), tmp_path, "")
    assert (admission.http.host, admission.open_to_loopback) == ("0.0.0.0", False)


@pytest.mark.parametrize("ran_before", [False, True])
def test_other_machines_without_a_token_are_a_fault_until_there_has_been_one(tmp_path, ran_before):
    if ran_before:
        last_good(tmp_path, "127.0.0.1")
    with pytest.raises(errors.ConfigError, match="edge-agent token add"):
        admit(OPEN, tokens_in(tmp_path), tmp_path, "")


def test_an_agent_that_lost_its_tokens_serves_this_machine_only(tmp_path):
    last_good(tmp_path, "0.0.0.0")
    admission = admit(OPEN, tokens_in(tmp_path), tmp_path, "")
    assert (admission.http.host, admission.open_to_loopback) == ("127.0.0.1", True)
    assert (admission.status.state, admission.status.code) == (State.DEGRADED, "access.no_tokens")


def test_revoking_the_last_token_is_losing_them(tmp_path):
    tokens = tokens_in(tmp_path)
    tokens.add("boss", Role.ADMIN)
    tokens.revoke("boss")
    assert admit(OPEN, tokens_in(tmp_path), tmp_path, "").status.code == "access.no_tokens"


@pytest.mark.parametrize("content", [b"", b'{"tok', b"\xff\xfe"])
@pytest.mark.parametrize("http", [OPEN, HttpSection()], ids=["open", "loopback"])
def test_a_damaged_token_file_lets_nobody_in_without_a_token(tmp_path, content, http, caplog):
    (tmp_path / "tokens.json").write_bytes(content)
    admission = admit(http, tokens_in(tmp_path), tmp_path, "")
    assert (admission.http.host, admission.open_to_loopback) == ("127.0.0.1", False)
    assert admission.status.code == "access.tokens_damaged"
    assert "tokens.json" in caplog.text
