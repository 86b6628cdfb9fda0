"""Who asks, and whether a browser was made to ask: tokens, Host and Origin."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import pwd
import socket
import struct
from typing import Dict, FrozenSet, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from aiohttp import web

from edge_agent.access.gate import Actor, Gate
from edge_agent.access.roles import Permission, Role
from edge_agent.api.connections import Connection
from edge_agent.errors import Forbidden

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PORTS = {"http": 80, "https": 443}
_HOSTS_KEPT = 32  #: clients send the same header again and again, and taking it apart costs as much as routing
_PEER = struct.Struct("3i")  # pid, uid, gid of SO_PEERCRED


def own_names(host: str, allowed_hosts: Sequence[str]) -> FrozenSet[str]:
    """Names that a Host header may carry besides IP addresses."""
    name = socket.gethostname().lower()
    short = name.split(".")[0]
    return frozenset({"localhost", name, short, short + ".local", host.lower(), *(one.lower() for one in allowed_hosts)})


@functools.lru_cache(maxsize=_HOSTS_KEPT)
def split_host(host: str) -> Tuple[str, Optional[int]]:
    """Name and port of a Host header; ValueError when it is neither."""
    parts = urlsplit("//" + host)
    if parts.path or parts.query or parts.fragment or parts.username is not None or not parts.hostname:
        raise ValueError(host)
    return parts.hostname, parts.port


class AccessCheck:
    """The checks that every request goes through."""

    def __init__(self, gate: Gate, names: FrozenSet[str]) -> None:
        self._gate = gate
        self._names = names
        self._users: Dict[int, str] = {}

    def check_host(self, request: web.Request) -> None:
        """Forbidden when the Host is none of ours: a foreign page had its name point here (DNS rebinding)."""
        hosts = request.headers.getall("Host", [])
        if not hosts:
            return
        if len(hosts) > 1:
            raise web.HTTPBadRequest(text="the request has %d Host headers" % len(hosts))
        host = hosts[0]
        try:
            name, _ = split_host(host)
        except ValueError:
            raise web.HTTPBadRequest(text="the Host header is not a host") from None
        if name in self._names or _is_address(name):
            return
        raise Forbidden(
            "this agent does not go by the name '%s': use its IP address, or add it to http.allowed_hosts" % name[:64]
        )

    @staticmethod
    def check_origin(request: web.Request) -> None:
        """Forbidden when another site's page wants to change something."""
        origin = request.headers.get("Origin")
        if origin is None or request.method not in _CHANGING:
            return
        try:
            parts = urlsplit(origin)
            port = _PORTS.get(parts.scheme)
            theirs = (parts.hostname, parts.port or port)
            name, own_port = split_host(request.headers.get("Host", ""))
            same = theirs == (name, own_port or port)
        except ValueError:
            same = False
        if not same:
            raise Forbidden("the request's Origin does not match its Host: it comes from another site's page")

    async def actor(self, request: web.Request, connection: Connection, permission: Optional[Permission]) -> Optional[Actor]:
        """Who asks; None where no permission is needed. Unauthenticated, Forbidden."""
        if connection.listener.kind == "control":
            return Actor("cli:" + await self._user(connection), Role.ADMIN)
        if permission is None:
            return None
        return self._gate.check(request.headers.get("Authorization"), permission)

    async def _user(self, connection: Connection) -> str:
        peer: Optional[socket.socket] = None
        if connection.transport is not None:
            peer = connection.transport.get_extra_info("socket")
        if peer is None:
            raise ConnectionResetError("the client left")
        uid = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
        if uid not in self._users:
            # the user database may be on the network: not on the loop
            self._users[uid] = await asyncio.get_running_loop().run_in_executor(None, _name_of, uid)
        return self._users[uid]


@functools.lru_cache(maxsize=_HOSTS_KEPT)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    return True


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
