"""The body of an inference request on its way into a slot of the tensor arena."""

from __future__ import annotations

from typing import List, Optional, Tuple

from edge_agent.api.bodies import Body, BodySilent
from edge_agent.api.services import Served, ServingDoor
from edge_agent.domain.tensors import DataType, Lease
from edge_agent.errors import InvalidRequest
from edge_agent.kserve import codec

#: a body that pauses for so long gives its slot back
SLOT_SILENCE_S = 1.0


class Intake:
    """Receives one request; holds its leases until release()."""

    def __init__(self, serving: ServingDoor, served: Served, body: Body) -> None:
        self._serving = serving
        self._served = served
        self._body = body
        self.parsed: Optional[codec.InferBody] = None
        self.lease: Optional[Lease] = None
        self.room: Optional[Lease] = None

    async def receive(self, header_length: Optional[int]) -> codec.InferBody:
        """Reads the body; its tensors lie in `lease` then. Raises RequestError, UnavailableError, BodySilent."""
        length = self._body.length
        plain_binary = header_length is not None and not self._body.coding
        if plain_binary and (header_length or length is not None):
            await self._stream(header_length or 0, length)
        else:
            await self._buffer(header_length)
        assert self.parsed is not None
        return self.parsed

    def release(self) -> None:
        """Gives everything back; safe to call twice."""
        self._body.release()
        for lease in (self.lease, self.room):
            if lease is not None:
                lease.release()
        self.lease = self.room = None

    async def _buffer(self, header_length: Optional[int]) -> None:
        """JSON, compressed and unannounced bodies: all of it first, a slot then."""
        whole = memoryview(await self._body.whole())
        self._match(codec.parse_infer(whole, header_length))
        slot = await self._reserve()
        assert self.parsed is not None
        self.parsed.copy_inputs(whole, slot)
        self._body.release()

    async def _stream(self, header_length: int, length: Optional[int]) -> None:
        """JSON part first, so that what does not fit is refused before it takes a slot; the tensors straight into it."""
        if header_length == 0:
            assert length is not None
            self._match(codec.raw_body(length))
        else:
            if length is not None:
                codec.check_header_length(header_length, length)
            head = await self._body.exactly(header_length)
            self._match(codec.parse_head(head, None if length is None else length - header_length))
        assert self.parsed is not None
        places = _Places(self.parsed.views(await self._reserve()))
        try:
            await self._fill(places, SLOT_SILENCE_S)
        except BodySilent:
            await self._go_private(places)
        self._check_strings()

    def _match(self, parsed: codec.InferBody) -> None:
        served = self._served
        self.parsed = parsed
        self.parsed = codec.match(parsed, served.inputs, served.outputs, served.max_batch_size, served.name)

    async def _reserve(self) -> memoryview:
        assert self.parsed is not None
        served = self._served
        self.lease, self.room = await self._serving.reserve(served.name, served.version, self.parsed.input_bytes)
        return self.lease.view()

    async def _fill(self, places: _Places, silence_s: Optional[float] = None) -> None:
        while True:
            data = await self._body.some(silence_s)
            if not data:
                break
            places.write(data)
        if places.missing:
            raise InvalidRequest("unexpected end of the body: expecting %d additional bytes" % places.missing)

    async def _go_private(self, places: _Places) -> None:
        """The client is slow: others may have the slot until the body is whole."""
        assert self.parsed is not None
        self._body.hold(places.total)
        private = bytearray(places.total)
        rest = places.move_to(memoryview(private))
        for lease in (self.lease, self.room):
            if lease is not None:
                lease.release()
        self.lease = self.room = None
        await self._fill(rest)
        whole = memoryview(private)
        for place in self.parsed.views(await self._reserve()):
            place[:] = whole[: len(place)]
            whole = whole[len(place) :]
        self._body.release()

    def _check_strings(self) -> None:
        """BYTES tensors could not be looked at before they were here."""
        assert self.parsed is not None
        assert self.lease is not None
        slot = self.lease.view()
        for part, at in zip(self.parsed.inputs, self.parsed.offsets()):
            if part.datatype is DataType.BYTES and part.start is not None:
                codec.check_bytes(part, slot[at : at + part.nbytes], self.parsed.id)


class _Places:
    """Where the next bytes go: a list of views that are filled one after the other."""

    def __init__(self, views: List[memoryview]) -> None:
        self._views = views
        self._index = 0
        self._at = 0
        self.total = sum(len(view) for view in views)
        self.missing = self.total

    def write(self, data: bytes) -> None:
        """Puts the bytes where they belong; InvalidRequest when there are too many."""
        if len(data) > self.missing:
            text = "unexpected additional input data for model: %d bytes are left over"
            raise InvalidRequest(text % (len(data) - self.missing))
        self.missing -= len(data)
        source = memoryview(data)
        while source:
            view = self._views[self._index]
            fits = min(len(view) - self._at, len(source))
            view[self._at : self._at + fits] = source[:fits]
            source = source[fits:]
            self._at += fits
            if self._at == len(view):
                self._index, self._at = self._index + 1, 0

    def move_to(self, target: memoryview) -> _Places:
        """Copies what has come so far; the answer goes on from there."""
        moved = _Places([target])
        filled: List[Tuple[memoryview, int]] = [(view, len(view)) for view in self._views[: self._index]]
        if self._at:
            filled.append((self._views[self._index], self._at))
        for view, nbytes in filled:
            moved.write(bytes(view[:nbytes]))
        return moved
