"""One TCP or Unix connection: aiohttp's protocol with the limits that aiohttp does not have."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Set, Tuple, Type

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from edge_agent.access.gate import Actor
from edge_agent.api.answers import ALWAYS, REQUEST_ID, dress, error_response, json_bytes, new_request_id

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
#: of the control socket, so that a full house does not lock the operator out
MAX_CONTROL_CONNECTIONS = 32
HEADER_LIMIT_S = 10.0
IDLE_LIMIT_S = 75.0
#: how long what a refused client still sends is read and thrown away, so that it sees the answer and not a reset
LINGER_S = 2.0
_SWEEP_S = 1.0
_HEAD_MAX_BYTES = 65_536
_TEXT_MAX = 200


def _raw_answer(status: str, text: str, *more: Tuple[str, str]) -> bytes:
    """An error for a connection on which aiohttp has no request to answer."""
    body = json_bytes({"error": text})
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
        (REQUEST_ID, new_request_id()),
        *more,
        *ALWAYS,
    ]
    lines = ["HTTP/1.1 " + status, *("%s: %s" % header for header in headers), "", ""]
    return "\r\n".join(lines).encode() + body


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
        self._bounds_itself = hasattr(self, "_buffer_paused")  # aiohttp 3.14 bounds what is sent ahead
        self._turned_away = False
        self._busy = False
        self._lingering: Optional[asyncio.TimerHandle] = None  #: the answer was "no", and what still comes is not looked at
        self._head_since: Optional[float] = None  #: since when a request's head has been awaited
        self._head_bytes = 0  #: of a head that is not whole
        self._content: Any = None  #: the body of the request that is being served
        self.bad_target = ""  #: what is wrong with the address of the request that is being served

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
        text = "too many connections: %d are open, try again later" % MAX_CONNECTIONS
        transport.write(_raw_answer("503 Service Unavailable", text, ("Retry-After", "1")))
        transport.close()

    def data_received(self, data: bytes) -> None:
        """More bytes; when no request is being served, they begin one."""
        if self._turned_away or self._lingering is not None:
            return
        in_body = self._content is not None and not self._content.is_eof()
        in_head = not in_body and not self._messages
        try:
            super().data_received(data)
        except ValueError as exc:  # of the address: the parser lets it through
            self._refuse("400 Bad Request", "malformed HTTP request: %s" % exc)
            return
        if not self._busy and self._head_since is None:
            self._head_since = self._clock()
        if in_body and self._messages and not self._content.is_eof():
            self._break_body()
        elif self._messages:
            self._head_bytes = 0
            if self._busy and not self._bounds_itself:
                self.pause_reading()  # what a client sends ahead waits at its side
        elif in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_MAX_BYTES:
                self._refuse("431 Request Header Fields Too Large", "the request's head is over %d bytes" % _HEAD_MAX_BYTES)

    def _break_body(self) -> None:
        """The parser gave up within the body, and would tell so in a second answer: whoever reads it is to know now."""
        self._messages.clear()
        self._content.set_exception(web.RequestPayloadError("its transfer coding is broken"))
        self._content.feed_eof()

    def _refuse(self, status: str, text: str) -> None:
        """Answers without a request. What still comes is thrown away for a while: a reset would overtake the answer."""
        if self.transport is not None:
            self.transport.write(_raw_answer(status, text))
        self._lingering = self._loop.call_later(LINGER_S, self.force_close)

    def eof_received(self) -> None:
        """The client closed its side; so do we."""
        if not self._turned_away:
            super().eof_received()

    def connection_lost(self, exc: Optional[BaseException]) -> None:
        """The end; aiohttp cancels the request that is being served."""
        if self._lingering is not None:
            self._lingering.cancel()
        self.listener.connections.discard(self)
        if not self._turned_away:
            super().connection_lost(exc)

    def head_received(self, content: Any) -> None:
        """The head is whole; the body comes in `content` (called when the request is made)."""
        self._content = content
        self.bad_target = ""
        self._busy = True
        self._head_since = None
        if not self._messages and not self._bounds_itself:
            self.resume_reading()

    def request_began(self, client_id: str) -> None:
        """The request is being served (called by the middleware)."""
        self.call = Call(client_id)

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
        self._busy = False
        said = " ".join(str(message or exc or "").split())[:_TEXT_MAX]
        response = error_response(status, "malformed HTTP request: %s" % said if status < 500 else "internal error")
        dress(response, new_request_id())
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: Optional[float]
    ) -> Tuple[web.StreamResponse, bool]:
        """Sends the answer; what came behind a request that asked for another protocol is no second request."""
        try:
            return await super().finish_response(request, resp, start_time)  # type: ignore[arg-type]
        except HttpProcessingError:
            self._message_tail = b""
            resp.force_close()
            return await super().finish_response(request, resp, start_time)  # type: ignore[arg-type]


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
