"""One TCP or Unix connection: aiohttp's protocol with the limits that aiohttp does not have."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Set, Type

from aiohttp import web

from edge_agent.access.gate import Actor
from edge_agent.api.answers import SERVER, error_response, json_bytes

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
#: of the control socket, so that a full house does not lock the operator out
MAX_CONTROL_CONNECTIONS = 32
HEADER_LIMIT_S = 10.0
IDLE_LIMIT_S = 75.0
#: how long what a refused client still sends is read and thrown away, so that it sees the answer and not a reset
LINGER_S = 2.0
_SWEEP_S = 1.0


def _full_house() -> bytes:
    body = json_bytes({"error": "too many connections: %d are open, try again later" % MAX_CONNECTIONS})
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nServer: %s\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        "Content-Length: %d\r\nConnection: close\r\n\r\n" % (SERVER, len(body))
    )
    return head.encode() + body


@dataclass
class Call:
    """What the middleware, the access check and the handler of one request tell each other."""

    client_id: str = ""  #: the request id that the client gave
    actor: Optional[Actor] = None  #: who asks; None where no token is needed
    statuses: Mapping[Type[Exception], int] = field(default_factory=dict)  #: where the route's differ from the one table


class Listener:
    """One listening address: what kind it is, and the connections that it has."""

    def __init__(self, kind: str, limit: int = MAX_CONNECTIONS) -> None:
        self.kind = kind  #: http | uds | metrics | control
        self.limit = limit
        self.connections: Set[Connection] = set()
        self.refused = 0  #: connections over the limit
        self.closed = False  #: the server stops: connections that were on their way are dropped


class Connection(web.RequestHandler):
    """aiohttp's protocol; `request.protocol` is this object."""

    def __init__(self, server: web.Server, listener: Listener, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=IDLE_LIMIT_S,
            lingering_time=LINGER_S,
            # the caps on inflated bytes are ours, see bodies.py
            auto_decompress=False,
            access_log=None,  # type: ignore[arg-type]
        )
        self.listener = listener
        self.call = Call()  #: of the request that is being served; a connection serves one at a time
        self._clock = loop.time
        self._turned_away = False
        self._busy = False
        self._head_since: Optional[float] = None  #: since when a request's head has been awaited

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the connection, or turns it away when the house is full."""
        if self.listener.closed or len(self.listener.connections) >= self.listener.limit:
            self._turn_away(transport)
            return
        self.listener.connections.add(self)
        self._head_since = self._clock()
        super().connection_made(transport)

    def _turn_away(self, transport: asyncio.BaseTransport) -> None:
        self._turned_away = True
        self.listener.refused += 1
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_full_house())
        transport.close()

    def data_received(self, data: bytes) -> None:
        """More bytes; when no request is being served, they begin one."""
        if self._turned_away:
            return
        super().data_received(data)
        if not self._busy and self._head_since is None:
            self._head_since = self._clock()

    def eof_received(self) -> None:
        """The client closed its side; so do we."""
        if not self._turned_away:
            super().eof_received()

    def connection_lost(self, exc: Optional[BaseException]) -> None:
        """The end; aiohttp cancels the request that is being served."""
        self.listener.connections.discard(self)
        if not self._turned_away:
            super().connection_lost(exc)

    def request_began(self, client_id: str) -> None:
        """The head is whole (called by the middleware)."""
        self.call = Call(client_id)
        self._busy = True
        self._head_since = None

    def request_ended(self) -> None:
        """The answer is made."""
        self._busy = False

    def close_if_late(self, now: float) -> None:
        """Ends a connection whose request head does not come."""
        if self._head_since is not None and now - self._head_since > HEADER_LIMIT_S:
            self.force_close()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: Optional[BaseException] = None, message: Optional[str] = None
    ) -> web.StreamResponse:
        """What no handler saw: a malformed head, a broken response. JSON like every other error."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has been sent in part: %s" % exc)
        if status >= 500:
            log.error("the connection failed", exc_info=exc, extra={"code": "http.failed"})
        said = " ".join(str(message or exc or "").split())
        response = error_response(status, "malformed HTTP request: %s" % said if status < 500 else "internal error")
        response.headers["Server"] = SERVER
        response.force_close()
        return response


class Sweeper:
    """Looks at every connection once a second; one timer instead of one a request."""

    def __init__(self) -> None:
        self.listeners: Set[Listener] = set()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._timer: Optional[asyncio.TimerHandle] = None

    def start(self) -> None:
        """Begins to look."""
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def stop(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        assert self._loop is not None
        now = self._loop.time()
        for listener in self.listeners:
            for connection in list(listener.connections):
                connection.close_if_late(now)
        self._timer = self._loop.call_later(_SWEEP_S, self._sweep)


def connection_of(request: web.BaseRequest) -> Connection:
    """The connection that a request came on."""
    protocol: Any = request.protocol
    assert isinstance(protocol, Connection)
    return protocol


def actor_of(request: web.BaseRequest) -> Actor:
    """Who asks, on a route that needs a permission."""
    actor = connection_of(request).call.actor
    assert actor is not None
    return actor
