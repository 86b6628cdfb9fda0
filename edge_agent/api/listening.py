"""Sockets that the agent listens on: TCP, Unix, and the control socket."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
import stat
from pathlib import Path
from typing import Optional

from edge_agent.errors import ConfigError, ListenError

BACKLOG = 256
_SOCKET_MODE = 0o660


def tcp_sockets(host: str, port: int, key: str) -> list[socket.socket]:
    """Bound sockets for every address of `host`; ListenError names the configuration key."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise ListenError("cannot listen on %s: %s; set %s" % (host, exc, key)) from exc
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            # "localhost" with port 0: the second address takes the port that the first one got
            chosen = port or (sockets[0].getsockname()[1] if sockets else 0)
            sockets.append(_bind_tcp(family, kind, protocol, (address[0], chosen, *address[2:])))
    except OSError as exc:
        for one in sockets:
            one.close()
        raise ListenError(
            "cannot listen on %s:%d: %s; stop what uses it, or set %s" % (host, port, os.strerror(exc.errno or 0), key),
            host=host,
            port=port,
        ) from exc
    return sockets


def _bind_tcp(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)  # now, not later: a port that is bound twice shows up here
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def unix_socket(path: Path, key: str) -> socket.socket:
    """A bound Unix socket of mode 0660. A socket that nobody serves any more is replaced, a served one is not."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear_stale(path)
        sock.bind(str(path))
        os.chmod(path, _SOCKET_MODE)  # before listen(): until then nobody can connect
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as exc:
        sock.close()
        raise ListenError("cannot listen on the socket %s: %s; set %s" % (path, exc, key), path=str(path)) from exc
    except BaseException:
        sock.close()
        raise
    return sock


def _clear_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, "a file of that name exists and is no socket")
    except FileNotFoundError:
        return
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.settimeout(0.2)
        probe.connect(str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return
    finally:
        probe.close()
    raise OSError(errno.EADDRINUSE, "another agent serves it")


def tls_context(cert_file: Optional[Path], key_file: Optional[Path]) -> Optional[ssl.SSLContext]:
    """TLS as configured; None without a certificate. ConfigError when the files do not work."""
    if cert_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert_file, key_file)
    except (OSError, ssl.SSLError) as exc:
        text = "the certificate or its key cannot be used: %s" % exc
        raise ConfigError([("http.tls_cert_file", text, "give a PEM certificate chain and its unencrypted key")]) from exc
    return context
