"""The calls that Python models make of other models: what serving sees of them, and the memory they take."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, List, Mapping, Optional, Protocol, Sequence, Tuple

from edge_agent import errors
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.tensors import DataType, Lease, TensorSpec
from edge_agent.engines.waits import Waits
from edge_agent.kserve.body import InferBody, InputPart, OutputPart
from edge_agent.kserve.matching import match
from edge_agent.processes.arena import Arena, Segment
from edge_agent.telemetry.tasks import Tasks

_RESERVED_PART = 4  #: of the arena, for the calls of all hosts together
_MAX_RESERVED_BYTES = 64 << 20  #: for those of one host
_UNIT_BYTES = 4096  #: reserves come in these


async def _nobody(call: Call) -> InferResponse:
    """Where no serving stands behind a host there are no other models."""
    raise errors.ModelNotFound("Request for unknown model: '%s' is not found" % call.model)


class CallDesk:
    """Where the calls of all hosts come together; `on_call` runs one, as serving can."""

    def __init__(self, on_call: Callable[[Call], Awaitable[InferResponse]] = _nobody) -> None:
        self.on_call = on_call
        self.waits = Waits()
        self.reserves = Reserves()


class Reserves:
    """What all hosts hold back for their calls: each new one gets half of what is left of their part of the arena."""

    def __init__(self) -> None:
        self._segments: List[Segment] = []

    def next_bytes(self, arena: Arena) -> int:
        """For one more host."""
        self._segments = [segment for segment in self._segments if segment.reserve_bytes]  # none: retired or abandoned
        left = arena.max_bytes // _RESERVED_PART - sum(segment.reserve_bytes for segment in self._segments)
        return min(_MAX_RESERVED_BYTES, max(0, left) // 2) // _UNIT_BYTES * _UNIT_BYTES

    def add(self, segment: Segment) -> None:
        """It counts from now on."""
        self._segments.append(segment)


class CallMemory:
    """The segment that the calls of one host's models draw on, with a part of the arena that nobody else can take.

    Made with the first call: most Python models call nobody.
    """

    def __init__(self, arena: Arena, host: str, reserves: Reserves) -> None:
        self._arena = arena
        self._host = host
        self._reserves = reserves
        self._segment: Optional[Segment] = None

    def segment(self) -> Segment:
        """The present one; a new one where the last was given up with a process that would not go."""
        segment = self._segment
        if segment is None or segment.abandoned or segment.closed:
            self._segment = segment = self._made()
            self._reserves.add(segment)
        return segment

    def _made(self) -> Segment:
        name = "calls:" + self._host
        try:
            return self._arena.segment(name, self._reserves.next_bytes(self._arena))
        except errors.ArenaFull:
            return self._arena.segment(name)  # what is free must do

    def take(self, sizes: Sequence[int]) -> List[Lease]:
        """Slots in one step, at once or not at all. ArenaFull, PayloadTooLarge."""
        try:
            leases = self._arena.try_acquire([(self.segment(), size) for size in sizes])
        except errors.PayloadTooLarge as error:
            raise errors.PayloadTooLarge("a call of host %s: %s; raise [arena] max_bytes" % (self._host, error)) from error
        if leases is None:
            raise errors.ArenaFull("no memory for calls of host %s: raise [arena] max_bytes" % self._host)
        return list(leases)

    def retire(self) -> None:
        """The host ends for good."""
        if self._segment is not None:
            self._arena.retire(self._segment)
            self._segment = None


class Share(Protocol):
    """Lets a host map a segment (EngineHost.share)."""

    async def __call__(self, segment: Segment, writable: bool = False) -> None:
        """Returns when it has."""


class CallHost:
    """What the calls of one host's instances have in common."""

    def __init__(self, desk: CallDesk, memory: CallMemory, arena: Arena, share: Share) -> None:
        self.desk = desk
        self.memory = memory
        self.tasks = Tasks()
        self._arena = arena
        self._share = share

    async def share_own(self) -> None:
        """The host can write its calls' inputs."""
        await self._share(self.memory.segment(), writable=True)

    async def share_outputs(self, response: InferResponse) -> None:
        """The host can read the answer, wherever it lies."""
        for number in {tensor.lease.segment for tensor in response.outputs}:
            await self._share(self._arena.find(number))


class CallSlots(Protocol):
    """Whose call it is: holds its slots until the model has read the answer."""

    def begin(self, label: str) -> None:
        """It waits for that model from now on; ExecutionError when it would wait for itself."""

    async def written(self, leases: List[Lease], offsets: Sequence[int]) -> None:
        """Returns when the inputs lie at `offsets` of the first slot."""


class Call:
    """One call, as it came; `request` makes of it what serving runs."""

    def __init__(
        self, fields: Mapping[str, Any], caller: str, callers: Tuple[str, ...], host: CallHost, slots: CallSlots
    ) -> None:
        self.caller = caller  #: the model that calls, `NAME/VERSION`
        self.model = str(fields["model"])
        self.version: Optional[str] = str(fields["version"]) or None
        self.callers = callers
        self._fields = fields
        self._host = host
        self._slots = slots
        self._body = InferBody(
            id=str(fields.get("id") or ""),
            parameters=dict(fields.get("parameters") or {}),
            inputs=tuple(_input(tensor) for tensor in fields["inputs"]),
            outputs=tuple(OutputPart(str(name), True) for name in fields["outputs"]),
            timeout_us=int(fields.get("timeout") or 0),
            binary_default=True,
        )

    @property
    def segment(self) -> Segment:
        """Where its tensors will lie: whoever runs it must be able to write there (EngineHost.share, writable)."""
        return self._host.memory.segment()

    @property
    def input_bytes(self) -> int:
        """Bytes of all inputs together, with what lies between them."""
        return self._body.input_bytes

    async def request(
        self, version: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], max_batch_size: int, room_bytes: int
    ) -> InferRequest:
        """The request, its inputs in place. The specs are the called model's; `room_bytes` is for its outputs.

        TensorMismatch, ArenaFull, ExecutionError (it would wait for itself). The slots are not the caller's to release.
        """
        body = match(self._body, inputs, outputs, max_batch_size, self.model)
        self._slots.begin("%s/%s" % (self.model, version))
        await self._host.share_own()
        leases = self._host.memory.take([body.input_bytes, max(1, room_bytes)])
        await self._slots.written(leases, body.offsets())
        return InferRequest(
            self.model,
            body.tensors(leases[0]),
            version,
            tuple(output.name for output in body.outputs),
            leases[1],
            id=body.id,
            source="model/" + self.caller.partition("/")[0],
            timeout_us=body.timeout_us,
            parameters=body.parameters,
            callers=self.callers,
        )


def _input(fields: Mapping[str, Any]) -> InputPart:
    shape = tuple(int(dim) for dim in fields["shape"])
    return InputPart(str(fields["name"]), DataType(fields["datatype"]), shape, int(fields["nbytes"]), start=0)
