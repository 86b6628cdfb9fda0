"""Request bodies: bounded in bytes, chunks, silence, time and memory; compressed ones are inflated by the body child.

A body is whole within TIME_LIMIT_S and a second more for each PACE_BYTES of it, and never pauses for longer than
SILENCE_LIMIT_S: otherwise it is answered 408. Memory counts what has come, not what was announced; when it is short, a body
that does not keep coming makes room for one that does.
"""

from __future__ import annotations

import asyncio
from typing import Dict, Optional, Set, Union

from aiohttp import HttpVersion11, web

from edge_agent.api.answers import printable
from edge_agent.api.pace import Pace
from edge_agent.api.services import BodyDoor
from edge_agent.errors import ArenaFull, InvalidRequest, PayloadTooLarge

#: a body may pause for so long
SILENCE_LIMIT_S = 30.0
#: a body may take so long, and a second more for each so many bytes of it
TIME_LIMIT_S = 60.0
PACE_BYTES = 32_768
#: chunks that may come before their average size matters, and that size
_FREE_CHUNKS = 10_000
_MIN_CHUNK_BYTES = 64
_CODINGS = ("gzip", "deflate")


class BodySilent(Exception):
    """The body paused for longer than allowed, or comes too slowly."""


class BodyMemory:
    """What all request bodies outside the arena may take together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.refused = 0
        self.evicted = 0  #: bodies that came slowly and had to make room
        self._receiving: Set[Body] = set()

    def receives(self, body: Body) -> None:
        """This body holds memory and waits for more of itself."""
        self._receiving.add(body)

    def received(self, body: Body) -> None:
        """It is whole, or gone."""
        self._receiving.discard(body)

    def take(self, nbytes: int) -> None:
        """Accounts for bytes; ArenaFull when there is no room for them."""
        if self.used_bytes + nbytes > self.max_bytes:
            self._make_room(nbytes)
        if self.used_bytes + nbytes > self.max_bytes:
            self.refused += 1
            raise ArenaFull("no memory for request bodies: %d bytes are in use, try again later" % self.used_bytes)
        self.used_bytes += nbytes

    def give(self, nbytes: int) -> None:
        """Gives them back."""
        self.used_bytes -= nbytes

    def status(self) -> Dict[str, int]:
        """Bytes in use and their bound, with what was turned away for it."""
        return {
            "used_bytes": self.used_bytes,
            "max_bytes": self.max_bytes,
            "refused": self.refused,
            "evicted": self.evicted,
        }

    def _make_room(self, nbytes: int) -> None:
        """Ends bodies that do not keep coming, the one first that has been slow for longest."""
        for body in sorted(self._receiving, key=lambda one: one.pace.mark):
            if self.used_bytes + nbytes <= self.max_bytes or not body.slow:
                return
            self.evicted += body.evict()


class Body:
    """The body of one request. Refused from its head alone where that says enough."""

    def __init__(self, request: web.Request, max_bytes: int, memory: BodyMemory, bodies: BodyDoor) -> None:
        self._request = request
        self._content = request.content
        self._chunked = request.body_exists and request.content_length is None
        self.max_bytes = max_bytes
        self._memory = memory
        self._bodies = bodies
        self._held = 0
        self._received = 0
        self._chunks = 0
        self._rest: Union[bytes, memoryview] = b""
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self.pace = Pace(self._began)
        self._reading: Optional[asyncio.Future[bytes]] = None
        self._evicted = False
        self._waits_for_go_ahead = request.version >= HttpVersion11 and "Expect" in request.headers
        self.length: Optional[int] = request.content_length if request.body_exists else 0
        self.coding = _coding(request)
        if self.length is not None and self.length > max_bytes:
            raise self._too_large("%d bytes" % self.length)

    def _too_large(self, what: str) -> PayloadTooLarge:
        return PayloadTooLarge(
            "the request body (%s) is over the limit of %d bytes (http.max_body_bytes)" % (what, self.max_bytes)
        )

    @property
    def slow(self) -> bool:
        """Whether it has not kept coming lately."""
        return self.pace.slow(self._clock())

    def resume(self) -> None:
        """From now on it is waited for: what went before was our time, not the client's."""
        self.pace = Pace(self._clock())

    async def some(self, silence_s: Optional[float] = None) -> bytes:
        """The next bytes as they came, empty at the end. BodySilent when none come; nothing is lost then."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        data = await self._next(SILENCE_LIMIT_S if silence_s is None else silence_s)
        self._received += len(data)
        self.pace.came(len(data), self._clock())
        if self._received > self.max_bytes:
            raise self._too_large("%d bytes so far" % self._received)
        return data

    async def _next(self, silence_s: float) -> bytes:
        if not self._chunked:
            data = self._content.read_nowait()
            if data or self._content.at_eof():
                self._waits_for_go_ahead = False  # it did not wait
                return data
        if self._waits_for_go_ahead:
            await self._go_ahead()
        left_s = self._began + TIME_LIMIT_S + self._received / PACE_BYTES - self._clock()
        came = await self._wait(min(silence_s, left_s)) if left_s > 0 else None
        if came is not None:
            return came
        if left_s > silence_s:
            raise BodySilent("the request body paused for %g s" % silence_s)
        raise BodySilent("the request body came too slowly: %d bytes in %.0f s" % (self._received, self._clock() - self._began))

    async def _wait(self, wait_s: float) -> Optional[bytes]:
        """The next bytes, None when they do not come in time."""
        reading = asyncio.ensure_future(self._chunk() if self._chunked else self._content.readany())
        self._reading = reading
        try:
            await asyncio.wait({reading}, timeout=wait_s)
        finally:
            self._reading = None
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})  # aiohttp takes one reader at a time
            if not reading.cancelled():
                reading.exception()  # seen, even if the client left in the same moment
        if self._evicted:
            raise ArenaFull("the request body came too slowly while memory for bodies was short: try again later")
        return None if reading.cancelled() else reading.result()

    async def _go_ahead(self) -> None:
        """The head has passed every check: now the client may send what it has announced."""
        self._waits_for_go_ahead = False
        writer = self._request.writer
        await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        writer.output_size = 0  # of the answer nothing has been sent

    def evict(self) -> bool:
        """Ends its wait for more of it, and gives its memory back; False when it does not wait."""
        if self._reading is None or self._reading.done():
            return False
        self._evicted = True
        self._reading.cancel()
        self.release()
        return True

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
        data = await self.some()
        if len(data) < nbytes:
            data = await self._joined(data, nbytes)
        else:
            self.hold(nbytes)  # the rest is on its way to a slot
        self._rest = memoryview(data)[nbytes:]
        return bytes(data[:nbytes])

    async def _joined(self, first: bytes, nbytes: int) -> bytes:
        """`first` and what follows it, at least `nbytes`."""
        parts = bytearray()
        data = first
        while data:
            self.hold(min(len(data), nbytes - len(parts)))
            parts += data
            if len(parts) >= nbytes:
                return bytes(parts)
            data = await self.some()
        raise InvalidRequest("the request body ended after %d bytes of %d" % (len(parts), nbytes))

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
        self._memory.receives(self)

    def exchange(self, nbytes: int) -> None:
        """So many private bytes take the place of all those held so far."""
        self.release()
        self.hold(nbytes)

    def release(self) -> None:
        """The private bytes are not needed any more."""
        self._memory.received(self)
        self._memory.give(self._held)
        self._held = 0


def _coding(request: web.Request) -> str:
    """gzip, deflate or empty; 501 for any other, as Triton answers."""
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding in ("", "identity"):
        return ""
    if coding not in _CODINGS:
        text = "unable to decode the request body of type '%s': send gzip, deflate or plain" % printable(coding)
        raise web.HTTPNotImplemented(text=text, headers={"Accept-Encoding": "gzip, deflate"})
    return coding
