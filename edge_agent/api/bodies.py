"""Request bodies: bounded in bytes, chunks, silence and memory; compressed ones are inflated by the body child."""

from __future__ import annotations

import asyncio
from typing import Optional

from aiohttp import web

from edge_agent.api.services import BodyDoor
from edge_agent.errors import ArenaFull, InvalidRequest, PayloadTooLarge

#: a body may pause for so long
SILENCE_LIMIT_S = 30.0
#: chunks that may come before their average size matters, and that size
_FREE_CHUNKS = 10_000
_MIN_CHUNK_BYTES = 64
_CODINGS = ("gzip", "deflate")


class BodySilent(Exception):
    """The body paused for longer than allowed."""


class BodyMemory:
    """What all request bodies outside the arena may take together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.refused = 0

    def take(self, nbytes: int) -> None:
        """Accounts for bytes; ArenaFull when there is no room for them."""
        if self.used_bytes + nbytes > self.max_bytes:
            self.refused += 1
            raise ArenaFull("no memory for request bodies: %d bytes are in use, try again later" % self.used_bytes)
        self.used_bytes += nbytes

    def give(self, nbytes: int) -> None:
        """Gives them back."""
        self.used_bytes -= nbytes


class Body:
    """The body of one request. Refused from its head alone where that says enough."""

    def __init__(self, request: web.Request, max_bytes: int, memory: BodyMemory, bodies: BodyDoor) -> None:
        self._content = request.content
        self._chunked = request.content_length is None
        self.max_bytes = max_bytes
        self._memory = memory
        self._bodies = bodies
        self._held = 0
        self._received = 0
        self._chunks = 0
        self._rest = b""
        self.length: Optional[int] = request.content_length if request.body_exists else 0
        self.coding = _coding(request)
        if self.length is not None and self.length > max_bytes:
            raise self._too_large("%d bytes" % self.length)

    def _too_large(self, what: str) -> PayloadTooLarge:
        return PayloadTooLarge(
            "the request body (%s) is over the limit of %d bytes (http.max_body_bytes)" % (what, self.max_bytes)
        )

    async def some(self, silence_s: Optional[float] = None) -> bytes:
        """The next bytes as they came, empty at the end. BodySilent when none come; nothing is lost then."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        data = await self._next(SILENCE_LIMIT_S if silence_s is None else silence_s)
        self._received += len(data)
        if self._received > self.max_bytes:
            raise self._too_large("%d bytes so far" % self._received)
        return data

    async def _next(self, silence_s: float) -> bytes:
        if not self._chunked:
            data = self._content.read_nowait()
            if data or self._content.at_eof():
                return data
        waiting = self._chunk() if self._chunked else self._content.readany()
        try:
            return await asyncio.wait_for(waiting, silence_s)
        except asyncio.TimeoutError as exc:
            raise BodySilent("the request body paused for %g s" % silence_s) from exc

    async def _chunk(self) -> bytes:
        """The rest of one HTTP chunk; a flood of tiny ones costs more than its bytes."""
        while True:
            data, ended = await self._content.readchunk()
            self._chunks += ended
            if self._chunks > _FREE_CHUNKS + self._received // _MIN_CHUNK_BYTES:
                raise InvalidRequest("the request body comes in too many tiny chunks: %d" % self._chunks)
            if data or not ended:
                return data

    async def exactly(self, nbytes: int) -> bytes:
        """The next `nbytes`; InvalidRequest when the body ends before."""
        parts = bytearray()
        while len(parts) < nbytes:
            data = await self.some()
            if not data:
                raise InvalidRequest("the request body ended after %d bytes of %d" % (len(parts), nbytes))
            self.hold(len(data))
            parts += data
        self._rest = bytes(parts[nbytes:])
        return bytes(parts[:nbytes])

    async def whole(self) -> bytearray:
        """All of it, inflated, in private memory (counted until release())."""
        parts = bytearray()
        while True:
            data = await self.some()
            if not data:
                break
            self.hold(len(data))
            parts += data
        if not self.coding:
            return parts
        return await self._bodies.inflate(parts, self.coding, self.max_bytes, self.exchange)

    def hold(self, nbytes: int) -> None:
        """Accounts for private bytes of this body until release()."""
        self._memory.take(nbytes)
        self._held += nbytes

    def exchange(self, nbytes: int) -> None:
        """So many private bytes take the place of all those held so far."""
        self.release()
        self.hold(nbytes)

    def release(self) -> None:
        """The private bytes are not needed any more."""
        self._memory.give(self._held)
        self._held = 0


def _coding(request: web.Request) -> str:
    """gzip, deflate or empty; 501 for any other, as Triton answers."""
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding in ("", "identity"):
        return ""
    if coding not in _CODINGS:
        text = "unable to decode the request body of type '%s': send gzip, deflate or plain" % coding[:64]
        raise web.HTTPNotImplemented(text=text, headers={"Accept-Encoding": "gzip, deflate"})
    return coding
