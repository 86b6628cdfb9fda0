"""Asks the running agent: over its control socket, or another machine's with --url and --token-file."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import ssl
from pathlib import Path
from typing import Any, List, Optional, Tuple
from urllib.parse import urlsplit

from edge_agent.config.load import load_config
from edge_agent.config.secret import read_secret
from edge_agent.errors import EdgeAgentError, UnavailableError

_SERVICE_SOCKET = Path("/run/edge-agent/control.sock")
_TIMEOUT_S = 60.0
#: for what ends with a model: longer than a load may take (`hosts.*.load_timeout_s`, as it is when silent)
LONG_S = 400.0


class NotRunning(UnavailableError):
    """The agent does not run."""

    code = "agent.not_running"


class StillUnderWay(UnavailableError):
    """The agent took the request and has not answered yet; what it was asked for goes on."""


class Refused(EdgeAgentError):
    """The agent answered with an error."""

    code = "agent.refused"


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        """Opens the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout_s)
        self.sock.connect(str(self._path))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the agent is."""
    parser.add_argument("--url", metavar="URL", help="another machine's agent, as in https://box.local:8443")
    parser.add_argument("--token-file", type=Path, metavar="PATH", help="file with the token for --url")


def ask(
    args: argparse.Namespace, method: str, path: str, body: Optional[Any] = None, answer_within_s: float = _TIMEOUT_S
) -> Any:
    """The answer's JSON.

    NotRunning when nobody listens, StillUnderWay when no answer came in time, Refused with the agent's own words otherwise.
    """
    connection, where = _connection(args)
    headers = {"Content-Type": "application/json"}
    if args.token_file is not None:
        headers["Authorization"] = "Bearer " + read_secret(args.token_file)
    try:
        _connect(connection, answer_within_s, where)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
    except socket.timeout as error:
        raise StillUnderWay(
            "still under way at %s after %g s: its state tells how it ends" % (where, answer_within_s)
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise NotRunning("no agent answers at %s: %s" % (where, error)) from error
    finally:
        connection.close()
    return _parsed(answer.status, text, where)


def _connect(connection: http.client.HTTPConnection, answer_within_s: float, where: str) -> None:
    try:
        connection.connect()
    except socket.timeout as error:
        raise NotRunning("no agent answers at %s: %s" % (where, error)) from error
    assert connection.sock is not None
    connection.sock.settimeout(answer_within_s)


def _parsed(status: int, text: bytes, where: str) -> Any:
    try:
        parsed = json.loads(text) if text else None
    except ValueError:
        raise Refused("what answers at %s is no agent (status %d)" % (where, status)) from None
    if status >= 400:
        said = parsed.get("error") if isinstance(parsed, dict) else None
        raise Refused(str(said or "status %d" % status))
    return parsed


def _connection(args: argparse.Namespace) -> Tuple[http.client.HTTPConnection, str]:
    if args.url:
        parts = urlsplit(args.url)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.netloc, timeout=_TIMEOUT_S, context=context), args.url
        return http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT_S), args.url
    path = _socket_path(args.config)
    return _UnixConnection(path, _TIMEOUT_S), str(path)


def _socket_path(config: Path) -> Path:
    """The running service's runtime directory, where systemd says one, else its state directory."""
    runtime = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    places: List[Path] = [Path(runtime) / "control.sock"] if runtime else []
    beside = load_config(config, os.environ).agent.state_dir / "control.sock"
    places += [beside, _SERVICE_SOCKET]
    return next((place for place in places if place.exists()), beside)
