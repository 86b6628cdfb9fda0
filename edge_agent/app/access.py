"""Who is let in at this start: other machines only when there is a token to ask them for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from edge_agent import errors
from edge_agent.access.gate import is_loopback
from edge_agent.access.tokens import TokenFile
from edge_agent.config.http import HttpSection
from edge_agent.config.last_good import last_good_value
from edge_agent.domain.status import PartStatus, State

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Admission:
    """`[http]` as it is served, whether this machine's callers need no token, and what the status says of it."""

    http: HttpSection
    open_to_loopback: bool
    status: PartStatus


def admit(http: HttpSection, tokens: TokenFile, state_dir: Path, since: str) -> Admission:
    """How to serve. ConfigError: other machines are meant to be let in and there has never been a token.

    An agent that had tokens and lost them serves this machine only; with a damaged token file nobody without a token.
    """
    try:
        tokens.load()
    except errors.ConfigError as error:
        _log.error("nobody is let in without a token: %s", error, extra={"code": "access.tokens_damaged"})
        status = PartStatus(State.DEGRADED, since, "access.tokens_damaged", {"path": str(tokens.path)})
        return Admission(_loopback_only(http), False, status)
    if is_loopback(http.host) or not tokens.empty():
        return Admission(http, is_loopback(http.host), PartStatus(State.OK, since))
    if not _had_tokens(tokens, state_dir):
        what = "%s can be reached from other machines, and there is no token yet" % http.host
        cure = "make one: edge-agent token add NAME --role admin; or set http.host to 127.0.0.1"
        raise errors.ConfigError([("http.host", what, cure)])
    _log.error("the access tokens are gone: only this machine is served", extra={"code": "access.no_tokens"})
    return Admission(_loopback_only(http), True, PartStatus(State.DEGRADED, since, "access.no_tokens", {"host": http.host}))


def _had_tokens(tokens: TokenFile, state_dir: Path) -> bool:
    """The file is there, if empty; or the last good start let other machines in, which takes a token."""
    return tokens.path.exists() or not is_loopback(str(last_good_value(state_dir, ("http", "host")) or "localhost"))


def _loopback_only(http: HttpSection) -> HttpSection:
    return http if is_loopback(http.host) else http.model_copy(update={"host": "127.0.0.1"})
