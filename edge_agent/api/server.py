"""The HTTP server: it listens before models are ready, and answers until the last request is done."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from pathlib import Path
from typing import Any, Dict, List, Optional

from aiohttp import web

from edge_agent.api.access import AccessCheck, own_names
from edge_agent.api.bodies import BodyMemory
from edge_agent.api.connections import MAX_CONTROL_CONNECTIONS, Connection, Listener, Sweeper
from edge_agent.api.denied import DeniedLog
from edge_agent.api.door import Door
from edge_agent.api.listening import tcp_sockets, tls_context, unix_socket
from edge_agent.api.middleware import Middleware, surround
from edge_agent.api.routes import add_routes, build_routes
from edge_agent.api.services import Services
from edge_agent.domain.status import PartStatus, State
from edge_agent.errors import ListenError

log = logging.getLogger(__name__)

#: what a stop waits for requests that are being served
STOP_LIMIT_S = 5.0


class ApiServer:
    """KServe v2, the agent's API, metrics and the status page on one router."""

    def __init__(self, services: Services, stop_limit_s: float = STOP_LIMIT_S) -> None:
        self._services = services
        self._stop_limit_s = stop_limit_s
        self._runner: Optional[web.AppRunner] = None
        self._servers: List[asyncio.AbstractServer] = []
        self._listeners: Dict[str, Listener] = {}
        self._sweeper = Sweeper()
        self._denied = DeniedLog(services.store, services.clock)
        self._door = Door(services.draining)
        self._memory = BodyMemory(2 * services.http.max_body_bytes)
        access = AccessCheck(services.gate, own_names(services.http.host, services.http.allowed_hosts))
        self._access = access
        self._middleware = Middleware(access, self._denied, self._door)
        self._unix_paths: List[Path] = []
        self._address = ("", 0)
        self._since = ""
        self._metrics_fault = ""

    @property
    def port(self) -> int:
        """The port that is served, also when a free one was asked for."""
        return self._address[1]

    @property
    def address(self) -> str:
        """The address of the page."""
        host, port = self._address
        scheme = "https" if self._services.http.tls_cert_file else "http"
        return "%s://%s:%d" % (scheme, "[%s]" % host if ":" in host else host, port)

    async def start(self) -> None:
        """Listens; ListenError or ConfigError when it cannot."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        http = self._services.http
        tls = tls_context(http.tls_cert_file, http.tls_key_file)
        await self._build()
        self._sweeper.start()
        sockets = tcp_sockets(http.host, http.port, "http.port")
        self._address = (http.host, sockets[0].getsockname()[1])
        await self._serve("http", sockets, tls)
        if http.uds_path is not None:
            await self._serve_unix("uds", http.uds_path, "http.uds_path")
        if self._services.control_path is not None:
            await self._serve_unix("control", self._services.control_path, "agent.state_dir")
        await self._serve_metrics(tls)
        self._since = self._services.clock.now()

    async def _build(self) -> None:
        app = web.Application(client_max_size=self._services.http.max_body_bytes)
        add_routes(app, build_routes(self._services, self._memory), self._access)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=self._stop_limit_s)
        await self._runner.setup()
        assert self._runner.server is not None
        surround(self._runner.server, self._middleware)

    async def _serve(self, kind: str, sockets: list[socket.socket], tls: Optional[ssl.SSLContext]) -> None:
        loop = asyncio.get_running_loop()
        assert self._runner is not None
        server = self._runner.server
        assert server is not None
        listener = Listener(kind, MAX_CONTROL_CONNECTIONS) if kind == "control" else Listener(kind)
        self._listeners[kind] = listener
        self._sweeper.listeners.add(listener)
        handshake: Dict[str, Any] = {"ssl_handshake_timeout": 10.0} if tls is not None else {}
        for sock in sockets:
            made = loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
            self._servers.append(await made(lambda: Connection(server, listener, loop), sock=sock, ssl=tls, **handshake))

    async def _serve_unix(self, kind: str, path: Path, key: str) -> None:
        sock = unix_socket(path, key)
        self._unix_paths.append(path)
        await self._serve(kind, [sock], None)

    async def _serve_metrics(self, tls: Optional[ssl.SSLContext]) -> None:
        """Prometheus' own port; the main port has the metrics too, so that losing this one is no reason to fail."""
        if not self._services.metrics_port:
            return
        try:
            sockets = tcp_sockets(self._services.http.host, self._services.metrics_port, "metrics.port")
        except ListenError as exc:
            self._metrics_fault = str(exc)
            log.warning("%s; metrics are on the main port only", exc, extra={"code": "metrics.port_taken"})
            return
        await self._serve("metrics", sockets, tls)

    @property
    def in_flight(self) -> int:
        """Requests that have begun and are not answered; those about the agent's health do not count."""
        return self._door.in_flight

    async def drained(self, timeout_s: float) -> bool:
        """Waits for the requests in flight; False when some still are. New ones are refused as `draining()` says."""
        return await self._door.drained(timeout_s)

    async def stop(self) -> None:
        """Listens no more, lets requests end within the limit, closes what is left."""
        self._sweeper.stop()
        for listener in self._listeners.values():
            listener.closed = True
        for server in self._servers:
            server.close()
        self._servers = []
        if self._runner is not None:
            runner, self._runner = self._runner, None
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(runner.cleanup(), 2 * self._stop_limit_s + 1)
            await asyncio.sleep(0)  # connections that were just closed say so to their protocols
        for path in self._unix_paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._unix_paths = []

    def status(self) -> Dict[str, Any]:
        """State, address, connections by listener."""
        code = "metrics.port_taken" if self._metrics_fault else ""
        state = State.OFF if not self._servers else State.DEGRADED if code else State.OK
        return {
            **PartStatus(state, self._since, code, {"port": self._services.metrics_port} if code else {}).as_json(),
            "address": self.address,
            "connections": {kind: len(listener.connections) for kind, listener in self._listeners.items()},
            "refused_connections": sum(listener.refused for listener in self._listeners.values()),
            "unexpected_errors": self._middleware.unexpected,
            "in_flight": self._door.in_flight,
            "refused_while_stopping": self._door.refused,
            "bodies": self._memory.status(),
            "denied": self._denied.status(),
        }
