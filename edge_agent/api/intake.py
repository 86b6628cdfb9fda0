"""The body of an inference request on its way into a slot of the tensor arena."""

from __future__ import annotations

import asyncio
from typing import List, Optional, Tuple

from edge_agent.api.bodies import Body, BodySilent
from edge_agent.api.pace import STEP_S
from edge_agent.api.services import INLINE_BYTES, BodyDoor, ServingDoor
from edge_agent.cameras.copying import copy
from edge_agent.domain.tensors import Lease
from edge_agent.errors import InvalidRequest
from edge_agent.kserve import codec
from edge_agent.kserve.served import ServedModel

_STEP_BYTES = 1 << 20  #: copied without leaving time to others


class Intake:
    """Receives one request; holds its leases until release()."""

    def __init__(
        self, serving: ServingDoor, served: ServedModel, body: Body, bodies: BodyDoor, version: Optional[str] = None
    ) -> None:
        """`version`: the one that the client named."""
        self._serving = serving
        self._served = served
        self._body = body
        self._bodies = bodies
        self._version = version
        self.parsed: Optional[codec.InferBody] = None
        self.lease: Optional[Lease] = None
        self.room: Optional[Lease] = None

    async def receive(self, header_length: Optional[int]) -> codec.InferBody:
        """Reads the body; its tensors lie in `lease` then. Raises RequestError, UnavailableError, BodySilent."""
        length = self._body.length
        if header_length is not None and length is not None and not self._body.coding:
            codec.check_header_length(header_length, length)
        streams = header_length is not None and header_length <= INLINE_BYTES and not self._body.coding
        if streams and (header_length or length is not None):
            await self._stream(header_length or 0, length)
        else:
            await self._buffer(header_length)
        await self._check_strings()
        assert self.parsed is not None
        return self.parsed

    def release(self) -> None:
        """Gives everything back; safe to call twice."""
        self._body.release()
        self._release_slots()

    def _release_slots(self) -> None:
        for lease in (self.lease, self.room):
            if lease is not None:
                lease.release()
        self.lease = self.room = None

    async def _buffer(self, header_length: Optional[int]) -> None:
        """JSON, compressed and unannounced bodies: all of it first, a slot then."""
        hint = codec.HINT if header_length is None else ""
        whole = memoryview(await self._body.whole())
        if (len(whole) if header_length is None else header_length) > INLINE_BYTES:
            whole, header_length = await self._converted(whole, header_length, hint)
        self._match(_parsed(whole, header_length, hint))
        slot = await self._reserve()
        assert self.parsed is not None
        for source, place in self.parsed.moves(whole, slot):
            await copy(source, place)
        self._body.release()

    async def _converted(self, whole: memoryview, header_length: Optional[int], hint: str) -> Tuple[memoryview, int]:
        """A body with much JSON in the binary form, which takes its place."""
        if header_length is not None:
            codec.check_header_length(header_length, len(whole))
        body = self._body
        try:
            binary, head_bytes = await self._bodies.json_to_binary(whole, header_length, body.max_bytes, hint, body.exchange)
        except InvalidRequest as error:
            text = codec.prefixed(str(error), codec.shown(error.args_by_name.get("request_id", "")))
            raise InvalidRequest(text) from error
        return memoryview(binary), head_bytes

    async def _stream(self, header_length: int, length: Optional[int]) -> None:
        """JSON part first, so that what does not fit is refused before it takes a slot; the tensors straight into it."""
        if header_length == 0:
            assert length is not None
            self._match(codec.raw_body(length))
        else:
            head = await self._body.exactly(header_length)
            self._match(codec.parse_head(head, None if length is None else length - header_length))
        assert self.parsed is not None
        places = _Places(self.parsed.views(await self._reserve()))
        if not await self._fill(places):
            await self._go_private(places)

    def _match(self, parsed: codec.InferBody) -> None:
        served = self._served
        self.parsed = parsed
        self.parsed = codec.match(parsed, served.inputs, served.outputs, served.max_batch_size, served.name)

    async def _reserve(self) -> memoryview:
        assert self.parsed is not None
        served = self._served
        self.lease, self.room = await self._serving.reserve(served.name, self._version, self.parsed.input_bytes)
        return self.lease.view()

    async def _fill(self, places: _Places) -> bool:
        """The body straight into its slot; False when it is too slow to hold one."""
        self._body.resume()
        while not self._body.slow:
            try:
                data = await self._body.some(STEP_S)
            except BodySilent:
                return False
            if not data:
                places.check_whole()
                return True
            places.write(data)
        return False

    async def _go_private(self, places: _Places) -> None:
        """The client is slow: others may have the slot until the body is whole. Memory grows with what comes."""
        assert self.parsed is not None
        private = bytearray()
        for view in places.filled():
            self._body.hold(len(view))
            for at in range(0, len(view), _STEP_BYTES):
                private += view[at : at + _STEP_BYTES]
                await asyncio.sleep(0)
        self._release_slots()
        while True:
            data = await self._body.some()
            if not data:
                break
            places.expect(len(data))
            self._body.hold(len(data))
            private += data
        places.check_whole()
        await self._take_over(memoryview(private))

    async def _take_over(self, private: memoryview) -> None:
        """The whole body into a slot again."""
        assert self.parsed is not None
        at = 0
        for place in self.parsed.views(await self._reserve()):
            await copy(private[at : at + len(place)], place)
            at += len(place)
        self._body.release()

    async def _check_strings(self) -> None:
        """BYTES tensors could not be looked at before they were here."""
        assert self.parsed is not None
        assert self.lease is not None
        slot = self.lease.view()
        placed = zip(self.parsed.inputs, self.parsed.offsets())
        for _ in codec.framing_steps(self.parsed, [slot[at:] for part, at in placed if part.start is not None]):
            await asyncio.sleep(0)


def _parsed(whole: memoryview, header_length: Optional[int], hint: str) -> codec.InferBody:
    """All but the framing of BYTES tensors, which is looked at in steps."""
    if not header_length:
        return codec.parse_infer(whole, header_length)
    codec.check_header_length(header_length, len(whole))
    return codec.parse_head(whole[:header_length], len(whole) - header_length, hint)


class _Places:
    """Where the next bytes go: a list of views that are filled one after the other."""

    def __init__(self, views: List[memoryview]) -> None:
        self._views = views
        self._index = 0
        self._at = 0
        self.missing = sum(len(view) for view in views)

    def expect(self, nbytes: int) -> None:
        """So many bytes have come; InvalidRequest when there are too many."""
        if nbytes > self.missing:
            text = "unexpected additional input data for model: %d bytes are left over"
            raise InvalidRequest(text % (nbytes - self.missing))
        self.missing -= nbytes

    def check_whole(self) -> None:
        """InvalidRequest when bytes are missing."""
        if self.missing:
            raise InvalidRequest("unexpected end of the body: expecting %d additional bytes" % self.missing)

    def write(self, data: bytes) -> None:
        """Puts the bytes where they belong; InvalidRequest when there are too many."""
        self.expect(len(data))
        source = memoryview(data)
        while source:
            view = self._views[self._index]
            fits = min(len(view) - self._at, len(source))
            view[self._at : self._at + fits] = source[:fits]
            source = source[fits:]
            self._at += fits
            if self._at == len(view):
                self._index, self._at = self._index + 1, 0

    def filled(self) -> List[memoryview]:
        """What has been written so far."""
        whole = self._views[: self._index]
        return [*whole, self._views[self._index][: self._at]] if self._at else whole
