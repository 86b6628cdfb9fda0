"""A child that works on bytes from outside: started by its first use, bounded, and no caller pays for another's bytes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from edge_agent.cameras.copying import Buffer, copy
from edge_agent.cameras.turns import Turns
from edge_agent.cameras.vision_child import Reply, VisionChild
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.domain.tensors import Lease
from edge_agent.errors import ChildError, ChildGone, ChildTimeout, DeadlineExceeded, Draining, InvalidRequest
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.child import ChildSpec

_AT_ONCE = 2  # one is worked on, the next lies ready
_MAX_WAITING = 64


@dataclass(frozen=True)
class Job:
    """One operation: bytes of one slot in, bytes of another out."""

    op: str
    source: Sequence[Buffer]  #: copied one behind the other
    target_bytes: int
    budget_s: float  #: what the child may take once it has begun; then it hangs
    fields: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)  #: what the message says about the target beyond its place

    @property
    def source_bytes(self) -> int:
        """All of it."""
        return sum(len(part) for part in self.source)


@dataclass(frozen=True)
class Subject:
    """How errors speak of the bytes and of who works on them."""

    what: str  #: as in "the picture"
    worker: str  #: as in "the decoder"
    refusal: str  #: code of bytes that end or hang the child


class ChildOnCall:
    """Bytes that end the child are tried once more, alone; then it is the caller's fault."""

    def __init__(self, spec: ChildSpec, arena: Arena, clock: Clock, subject: Subject) -> None:
        self._arena = arena
        self._clock = clock
        self._subject = subject
        self._child = VisionChild(spec, arena, clock, self._up, self._down, self._event)
        self._starting: Optional[asyncio.Future[None]] = None
        self._stopped = False
        self._died = False
        self._since = ""
        self._turns = Turns(_AT_ONCE, _MAX_WAITING)

    async def stop(self) -> None:
        """Ends the child if there is one. Idempotent."""
        self._stopped = True
        if self._starting is not None:
            await asyncio.wait({self._starting})
        await self._child.stop()

    @property
    def segment(self) -> Segment:
        """Where its slots are; there from the first use on."""
        return self._child.segment

    @property
    def refused(self) -> int:
        """Jobs turned away because too many waited."""
        return self._turns.refused

    @property
    def restarts(self) -> int:
        """Children after the first."""
        return self._child.restarts

    @property
    def pid(self) -> int:
        """The child's process, 0 when there is none."""
        return self._child.pid

    async def run(self, job: Job, timeout_s: float) -> Tuple[Lease, Reply]:
        """The target's slot (the caller releases it) and what the child said of it.

        ChildRefused as the child said it, InvalidRequest for bytes that end or hang the child, DeadlineExceeded, QueueFull,
        Draining, ArenaFull, PayloadTooLarge.
        """
        deadline = self._clock.monotonic() + timeout_s
        await self._started()
        try:
            return await self._do(job, deadline, 1)
        except (_ChildDied, _NotAsked):
            return await self._by_itself(job, deadline)

    async def _by_itself(self, job: Job, deadline: float) -> Tuple[Lease, Reply]:
        """The second try, with nothing beside it, so that nobody else's bytes can be to blame."""
        try:
            return await self._do(job, deadline, _AT_ONCE)
        except _ChildDied as error:
            raise self._fault("ended", error) from error
        except _NotAsked as error:
            raise DeadlineExceeded("the %s ends again and again: %s" % (self._subject.worker, error)) from error

    def status(self) -> Dict[str, Any]:
        """State, process and counters, for `/api/status`."""
        if self._starting is None or self._stopped:
            part = PartStatus(State.OFF, self._since)
        elif self._died:
            part = PartStatus(State.DEGRADED, self._since, "child.died")
        else:
            part = PartStatus(State.OK, self._since)
        return {**part.as_json(), "pid": self.pid, "restarts": self.restarts, "refused": self.refused}

    async def _started(self) -> None:
        if self._stopped:
            raise Draining("the agent is stopping")
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._child.start())
        await asyncio.shield(self._starting)

    async def _do(self, job: Job, deadline: float, places: int) -> Tuple[Lease, Reply]:
        """The job in its turn. The places are free again when the child is done with it, which may be after its caller left."""
        await self._turns.take(places, deadline - self._clock.monotonic())
        call: Optional[asyncio.Task[Reply]] = None
        try:
            source, target = await self._slots(job, max(0.001, deadline - self._clock.monotonic()))
            try:
                at = 0
                for part in job.source:
                    at = await copy(part, source.view(), at)
                call = self._child.ask(job.op, _message(job, source, target), [source, target], job.budget_s, in_turn=True)
                reply = await self._answer(call, max(0.001, deadline - self._clock.monotonic()))
                return target.retain(), reply
            finally:
                source.release()
                target.release()
        except ChildGone as error:
            if self._stopped:
                raise Draining("the agent is stopping") from error
            raise (_NotAsked if call is None else _ChildDied)(str(error)) from error
        finally:
            if call is None:
                self._turns.give(places)
            else:
                call.add_done_callback(lambda _: self._turns.give(places))

    async def _slots(self, job: Job, wait_s: float) -> Tuple[Lease, Lease]:
        """Source and target."""
        try:
            await self._child.wait_up(wait_s)
        except ChildTimeout as error:
            raise DeadlineExceeded("no %s can be taken now: %s" % (self._subject.what, error)) from error
        wants = [(self.segment, job.source_bytes), (self.segment, job.target_bytes)]
        source, target = await self._arena.acquire(wants, wait_s)
        return source, target

    async def _answer(self, call: asyncio.Task[Reply], wait_s: float) -> Reply:
        await asyncio.wait({call}, timeout=wait_s)
        if not call.done():
            raise DeadlineExceeded("the %s did not answer in time" % self._subject.worker)
        try:
            reply = call.result()
        except ChildTimeout as error:
            if self._stopped:
                raise Draining("the agent is stopping") from error
            raise self._fault("hangs", error) from error
        self._child.works()
        return reply

    def _fault(self, did: str, error: ChildError) -> InvalidRequest:
        subject = self._subject
        return InvalidRequest("the %s %s the %s: %s" % (subject.what, did, subject.worker, error), refusal=subject.refusal)

    async def _up(self) -> None:
        """Nothing to set up: it knows no more than what it is asked."""
        self._died = False
        self._since = self._clock.now()

    def _down(self, reason: str) -> None:
        """Who had asked it is told by the ends of their calls."""
        self._died = True
        self._since = self._clock.now()

    def _event(self, name: str, fields: Dict[str, Any]) -> None:
        """It tells nothing unasked."""


def _message(job: Job, source: Lease, target: Lease) -> Dict[str, Any]:
    """What the child is asked."""
    return {
        **job.fields,
        "segment": source.segment,
        "offset": source.offset,
        "nbytes": source.nbytes,
        "target": {**job.target, "offset": target.offset, "nbytes": target.nbytes},
    }


class _ChildDied(ChildError):
    """The child ended while it had the bytes."""


class _NotAsked(ChildError):
    """The child ended before it had the bytes."""
