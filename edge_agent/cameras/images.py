"""The image child's side of the main process: foreign picture bytes in, a model's input in the arena out."""

from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Optional, Tuple, Union

from edge_agent.cameras.answer import filled_frame
from edge_agent.cameras.turns import Turns
from edge_agent.cameras.vision_child import VisionChild
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import FilledFrame, Preprocess
from edge_agent.domain.tensors import Lease
from edge_agent.errors import ChildError, ChildGone, ChildRefused, ChildTimeout, DeadlineExceeded, InvalidRequest, QueueFull
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.child import ChildSpec

Picture = Union[bytes, bytearray, memoryview]

MAX_PIXELS = 64 * 1000 * 1000
_AT_ONCE = 2  # one is decoded, the next lies ready
_MAX_WAITING = 64
_DECODE_S = 10.0  # a picture that takes longer hangs the decoder


class ImageChild:
    """Starts with its first use. A picture that ends it is tried once more, alone; then it is the caller's fault."""

    def __init__(self, arena: Arena, clock: Clock, python: str = "", max_pixels: int = MAX_PIXELS) -> None:
        self._arena = arena
        self._clock = clock
        self._max_pixels = max_pixels
        # a stream of hostile pictures must not lock out the good ones: the wait between two lives stays short
        spec = ChildSpec("image", "edge_agent.vision_host.image", python=python, backoff_first_s=0.05, backoff_cap_s=0.5)
        self._child = VisionChild(spec, arena, clock, self._up, self._down, self._event)
        self._starting: Optional[asyncio.Future[None]] = None
        self._stopped = False
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
        """Pictures turned away because too many waited."""
        return self._turns.refused

    @property
    def restarts(self) -> int:
        """Children after the first."""
        return self._child.restarts

    @property
    def pid(self) -> int:
        """The child's process, 0 when there is none."""
        return self._child.pid

    async def prepare(self, data: Picture, preprocess: Preprocess, timeout_s: float) -> Tuple[Lease, FilledFrame]:
        """The picture as a model's input; the caller releases the lease.

        InvalidRequest for what is no usable picture (args_by_name["refusal"] says in which way), DeadlineExceeded,
        QueueFull, ArenaFull.
        """
        if not len(data):
            raise InvalidRequest("the picture is empty: no bytes were sent", refusal="image.empty")
        deadline = self._clock.monotonic() + timeout_s
        await self._started()
        try:
            return await self._in_turn(data, preprocess, deadline)
        except _ChildDied:
            return await self._by_itself(data, preprocess, deadline)

    async def _started(self) -> None:
        if self._stopped:
            raise QueueFull("the agent is stopping")
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._child.start())
        await asyncio.shield(self._starting)

    async def _in_turn(self, data: Picture, preprocess: Preprocess, deadline: float) -> Tuple[Lease, FilledFrame]:
        await self._turns.take(1, deadline - self._clock.monotonic())
        try:
            return await self._prepare(data, preprocess, deadline)
        finally:
            self._turns.give(1)

    async def _by_itself(self, data: Picture, preprocess: Preprocess, deadline: float) -> Tuple[Lease, FilledFrame]:
        """The second try, with nothing beside it, so that nobody else's picture can be to blame."""
        await self._turns.take(_AT_ONCE, deadline - self._clock.monotonic())
        try:
            return await self._prepare(data, preprocess, deadline)
        except _ChildDied as error:
            raise InvalidRequest("the picture ended the decoder: %s" % error, refusal="image.not_a_picture") from error
        finally:
            self._turns.give(_AT_ONCE)

    async def _prepare(self, data: Picture, preprocess: Preprocess, deadline: float) -> Tuple[Lease, FilledFrame]:
        left_s = max(0.001, deadline - self._clock.monotonic())
        try:
            await self._child.wait_up(left_s)
            source, target = await self._slots(len(data), preprocess.nbytes, left_s)
        except ChildTimeout as error:
            raise DeadlineExceeded("no picture can be decoded now: %s" % error) from error
        except ChildGone as error:
            raise _ChildDied(str(error)) from error
        try:
            source.view()[:] = data
            reply = await self._ask(source, target, preprocess, deadline)
            target.retain()
            return target, filled_frame(reply)
        finally:
            source.release()
            target.release()

    async def _slots(self, source_bytes: int, target_bytes: int, timeout_s: float) -> List[Lease]:
        segment = self.segment
        return list(await self._arena.acquire([(segment, source_bytes), (segment, target_bytes)], timeout_s))

    async def _ask(self, source: Lease, target: Lease, preprocess: Preprocess, deadline: float) -> Dict[str, Any]:
        fields = {
            "segment": source.segment,
            "offset": source.offset,
            "nbytes": source.nbytes,
            "target": {"offset": target.offset, "nbytes": target.nbytes, "preprocess": preprocess.as_json()},
            "max_pixels": self._max_pixels,
        }
        left_s = max(0.001, deadline - self._clock.monotonic())
        try:
            reply = await self._child.call("prepare", fields, [source, target], _DECODE_S, left_s)
        except ChildRefused as error:
            raise InvalidRequest(str(error), refusal=error.refusal) from error
        except ChildTimeout as error:
            raise InvalidRequest("the picture hangs the decoder: %s" % error, refusal="image.not_a_picture") from error
        except ChildGone as error:
            raise _ChildDied(str(error)) from error
        self._child.works()
        return reply

    async def _up(self) -> None:
        """Nothing to set up: it knows no more than what it is asked."""

    def _down(self, reason: str) -> None:
        """Who had asked it is told by the ends of their calls."""

    def _event(self, name: str, fields: Dict[str, Any]) -> None:
        """It tells nothing unasked."""


class _ChildDied(ChildError):
    """The image child ended while it had the picture."""
