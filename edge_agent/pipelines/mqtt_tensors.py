"""One KServe request by MQTT: payload to slots, infer, slots to payload; nothing large is converted on the loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import List, Optional, Tuple, Union

from edge_agent import errors
from edge_agent.cameras.copying import copy
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import Lease
from edge_agent.kserve import codec
from edge_agent.pipelines.mqtt_parts import Bodies, Served, Serving
from edge_agent.pipelines.mqtt_request import Answer, Known, MqttRequest

_INLINE_BYTES = 65_536  #: JSON that the loop converts by itself; the body child does what is larger
_PAYLOADS = 4  #: converted bodies together take no more memory than so many of the largest payloads


class Memory:
    """What converted bodies take together until they lie in slots."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.used = 0

    def share(self) -> MemoryShare:
        """One request's part of it, empty yet."""
        return MemoryShare(self)

    def take(self, nbytes: int) -> None:
        """QueueFull when others have too much of it; alone, one may take what it likes."""
        if self.used and self.used + nbytes > self._max_bytes:
            raise errors.QueueFull("the agent converts other large requests; try again later")
        self.used += nbytes


class MemoryShare:
    """What one request holds."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._nbytes = 0

    def take(self, nbytes: int) -> None:
        """So much more. Raises QueueFull."""
        self._memory.take(nbytes)
        self._nbytes += nbytes

    def release(self) -> None:
        """Give everything back; may be called twice."""
        self._memory.used -= self._nbytes
        self._nbytes = 0


@dataclass(frozen=True)
class _Placed:
    """A request whose tensors lie in their slot."""

    served: Served
    parsed: codec.InferBody
    lease: Lease
    room: Optional[Lease]

    def release(self) -> None:
        self.lease.release()
        if self.room is not None:
            self.room.release()


@dataclass(frozen=True)
class _Given:
    """What the model gave, as a copy; `binary`: positions of outputs that stay binary, where the others' JSON was put off."""

    payload: Union[bytes, bytearray]
    head_bytes: int
    binary: Optional[List[int]] = None


class TensorWork:
    """Does KServe requests."""

    def __init__(self, serving: Serving, bodies: Bodies, max_payload_bytes: int) -> None:
        self._serving = serving
        self._bodies = bodies
        self._max_payload_bytes = max_payload_bytes
        self._memory = Memory(_PAYLOADS * max_payload_bytes)

    async def answer(self, request: MqttRequest, known: Known) -> Answer:
        """The answer. Raises RequestError, UnavailableError, EngineError."""
        share = self._memory.share()
        try:
            placed = await self._place(request, known, share)
        finally:
            share.release()
        try:
            given = await self._infer(request, known, placed)
        finally:
            placed.release()
        if given.binary is not None:  # after the slots are free: what is left to do must not hold them
            given = _Given(*await self._bodies.binary_to_json([given.payload], given.head_bytes, given.binary))
        if given.head_bytes == len(given.payload):
            return request.answer(given.payload)
        return request.answer(given.payload, "application/octet-stream", given.head_bytes)

    # -- in --------------------------------------------------------------------------------------------

    async def _place(self, request: MqttRequest, known: Known, share: MemoryShare) -> _Placed:
        whole, parsed = await self._read(request, known, share)
        known.read(parsed.id)
        served = self._serving.lookup(request.model)
        parsed = codec.match(parsed, served.inputs, served.outputs, served.max_batch_size, request.model)
        lease, room = await self._serving.reserve(request.model, None, parsed.input_bytes)
        placed = _Placed(served, parsed, lease, room)
        try:
            for source, place in parsed.moves(whole, lease.view()):
                await copy(source, place)
            await _check_strings(placed)
        except BaseException:
            placed.release()
            raise
        return placed

    async def _read(self, request: MqttRequest, known: Known, share: MemoryShare) -> Tuple[memoryview, codec.InferBody]:
        """The body (in the binary form, where it had much JSON), and what it says."""
        whole = memoryview(request.message.payload)
        head_bytes = codec.parse_header_length(request.header_length)
        hint = codec.HINT if head_bytes is None else ""
        if head_bytes is not None:
            codec.check_header_length(head_bytes, len(whole))
        if (len(whole) if head_bytes is None else head_bytes) > _INLINE_BYTES:
            whole, head_bytes = await self._converted(whole, head_bytes, hint, known, share)
        if head_bytes == 0:
            return whole, codec.raw_body(len(whole))
        head = whole if head_bytes is None else whole[:head_bytes]
        return whole, codec.parse_head(head, len(whole) - len(head), hint)

    async def _converted(
        self, whole: memoryview, head_bytes: Optional[int], hint: str, known: Known, share: MemoryShare
    ) -> Tuple[memoryview, int]:
        limit = self._max_payload_bytes
        try:
            binary, head_bytes = await self._bodies.json_to_binary(whole, head_bytes, limit, hint, share.take)
        except errors.InvalidRequest as exc:
            request_id = str(exc.args_by_name.get("request_id", ""))
            known.read(request_id)
            raise errors.InvalidRequest(codec.prefixed(str(exc), codec.shown(request_id))) from exc
        return memoryview(binary), head_bytes

    # -- out -------------------------------------------------------------------------------------------

    async def _infer(self, request: MqttRequest, known: Known, placed: _Placed) -> _Given:
        parsed, served = placed.parsed, placed.served
        asked = InferRequest(
            model=request.model,
            inputs=parsed.tensors(placed.lease),
            outputs=tuple(part.name for part in parsed.outputs),
            room=placed.room,
            id=parsed.id or request.request_id,
            source=request.source,
            priority=parsed.priority,
            timeout_us=parsed.timeout_us,
            deadline=request.deadline,
            parameters=parsed.parameters,
        )
        known.without_row = ()  # serving makes the row, whatever comes of it
        response = await self._serving.infer(asked)
        try:
            large = codec.text_bytes(response, parsed) > _INLINE_BYTES
            batched = served.max_batch_size > 0
            head, binaries = codec.encode_infer(response, parsed, served.config.labels_of, batched, all_binary=large)
            payload = await _joined(head, binaries)
            return _Given(payload, len(head), codec.binary_positions(response, parsed) if large else None)
        finally:
            response.release()


async def _check_strings(placed: _Placed) -> None:
    """The framing of BYTES tensors, in steps."""
    slot = placed.lease.view()
    parts = zip(placed.parsed.inputs, placed.parsed.offsets())
    for _ in codec.framing_steps(placed.parsed, [slot[at:] for part, at in parts if part.start is not None]):
        await asyncio.sleep(0)


async def _joined(head: bytes, binaries: List[memoryview]) -> Union[bytes, bytearray]:
    if not binaries:
        return head
    joined = bytearray(len(head) + sum(len(binary) for binary in binaries))
    at = 0
    for part in (head, *binaries):
        at = await copy(part, memoryview(joined), at)
    return joined
