"""A keep-alive HTTP/1.1 connection for `bench`: it must cost less than what it measures, so it does no more than needed."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Dict, NamedTuple, Optional, cast

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"


class ConnectionLost(ConnectionError):
    """The other side closed the connection, or answered in a form that this client does not read."""


class Answer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes


@dataclass(frozen=True)
class Address:
    """Where the agent listens, and what every request to it carries."""

    host: str
    port: int
    tls: Optional[ssl.SSLContext] = None
    headers: Dict[str, str] = field(default_factory=dict)

    def request(self, method: str, path: str, headers: Optional[Dict[str, str]] = None, body: bytes = b"") -> bytes:
        """A whole request as it goes over the wire."""
        named = "[%s]" % self.host if ":" in self.host else self.host
        lines = {"Host": "%s:%d" % (named, self.port), **self.headers, **(headers or {})}
        if method == "POST":
            lines["Content-Length"] = str(len(body))
        head = "".join("%s: %s\r\n" % line for line in lines.items())
        return ("%s %s HTTP/1.1\r\n%s\r\n" % (method, path, head)).encode("latin-1") + body


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._transport: Optional[asyncio.Transport] = None
        self._received = bytearray()
        self._body_at = 0  #: where the body begins; 0 until the head is here
        self._end = 0
        self._answer: Optional[asyncio.Future[Answer]] = None
        self.lost = False

    @classmethod
    async def open(cls, address: Address) -> Connection:
        """Connects; OSError when nobody listens."""
        loop = asyncio.get_running_loop()
        name = address.host if address.tls is not None else None
        _, made = await loop.create_connection(cls, address.host, address.port, ssl=address.tls, server_hostname=name)
        return made

    async def ask(self, request: bytes) -> Answer:
        """Sends a request; its answer. ConnectionLost when there is none."""
        if self.lost or self._transport is None:
            raise ConnectionLost("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Ends it; who waits for an answer gets ConnectionLost."""
        if self._transport is not None:
            self._transport.abort()

    # -- what asyncio calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """See asyncio.Protocol."""
        self.lost = True
        self._fail("the connection was closed before the answer" if exc is None else str(exc))

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._received += data
        if not self._body_at and not self._read_head():
            return
        if len(self._received) >= self._end and self._answer is not None and not self._answer.done():
            status = int(self._received[9:12])
            body = bytes(self._received[self._body_at : self._end])
            self._received.clear()
            self._body_at = 0
            self._answer.set_result(Answer(status, body))

    def _read_head(self) -> bool:
        """Whether the head is here; what has no length, or is no HTTP/1.1, ends the connection."""
        end = self._received.find(_END_OF_HEAD)
        if end < 0:
            return False
        head = bytes(self._received[:end]).lower() + b"\r\n"
        at = head.find(_LENGTH)
        length = head[at + len(_LENGTH) : head.find(b"\r\n", at + 2)].strip() if at >= 0 else b""
        if not head.startswith(b"http/1.1 ") or not head[9:12].isdigit() or not length.isdigit():
            self._fail("what answers is no agent: %r" % head[:40])
            self.close()
            return False
        self._body_at = end + len(_END_OF_HEAD)
        self._end = self._body_at + int(length)
        return True

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionLost(why))
