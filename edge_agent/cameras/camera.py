"""One camera: its newest frame on demand, snapshots, and what state it is in."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Callable, Mapping, Optional, Sequence, Set

from edge_agent.cameras.answer import filled_frame
from edge_agent.cameras.jpeg import NO_ROOM, JpegEncoder
from edge_agent.cameras.keeper import ANSWER_S, SourceKeeper
from edge_agent.cameras.options import CameraOptions
from edge_agent.cameras.vision_child import Reply
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import FilledFrame, Preprocess
from edge_agent.domain.results import Detection
from edge_agent.domain.status import PartStatus
from edge_agent.domain.tensors import Lease
from edge_agent.errors import (
    ChildError,
    ChildGone,
    ChildRefused,
    ChildTimeout,
    InvalidRequest,
    SourceUnavailable,
)
from edge_agent.processes.arena import Arena, Segment
from edge_agent.telemetry.redaction import redact


class Camera:
    """Keeps its source open, whatever happens to the source or to the child that reads it.

    `on_change` is called with each change of state, not with each try. `read_password` is asked before each opening, and
    regularly after a refusal, so that a corrected password works at once; without it `options.password` counts.
    """

    def __init__(
        self,
        options: CameraOptions,
        arena: Arena,
        clock: Clock,
        on_change: Callable[[PartStatus], None],
        read_password: Optional[Callable[[], str]] = None,
        rng: Optional[random.Random] = None,
    ) -> None:
        self.options = options
        self.skipped = 0  #: frames that came between those that were asked for
        self._clock = clock
        password = read_password or (lambda: options.password)
        self._keeper = SourceKeeper(options, arena, clock, on_change, password, rng or random.Random())
        self._child = self._keeper.child
        self._jpeg = JpegEncoder(self._child, arena, self._ask)
        self._drops: Set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Starts the child; the camera opens in its own time, `status()` tells."""
        await self._keeper.start()

    async def stop(self) -> None:
        """Ends the child. Idempotent."""
        await self._keeper.stop()
        if self._drops:
            await asyncio.wait(set(self._drops))

    @property
    def segment(self) -> Segment:
        """Where this camera's pictures go; another one after a child that could not be ended."""
        return self._child.segment

    @property
    def frame_age_s(self) -> Optional[float]:
        """Seconds since the last frame that is known of; None before the first."""
        frame_at = self._keeper.liveness.frame_at
        return None if frame_at is None else max(0.0, self._clock.monotonic() - frame_at)

    @property
    def fps_in(self) -> float:
        """Frames a second that the camera gives now; 0 when it does not."""
        return self._keeper.fps_in

    @property
    def frames(self) -> int:
        """Frames that came so far."""
        return self._keeper.frames

    @property
    def restarts(self) -> int:
        """Children after the first."""
        return self._child.restarts

    @property
    def pid(self) -> int:
        """The child's process, 0 when there is none."""
        return self._child.pid

    def status(self) -> PartStatus:
        """The camera's state with the code that says why."""
        return self._keeper.status()

    async def fill(self, lease: Lease, preprocess: Preprocess, newer_than: int, wait_s: float) -> FilledFrame:
        """The newest frame, prepared, in the slot; waits for one newer than `newer_than`. SourceUnavailable when none comes.

        The slot (of `segment`) stays the child's until it has answered, even if the caller is cancelled.
        """
        deadline = self._clock.monotonic() + wait_s
        if not await self._keeper.until_live(wait_s):
            raise self._unavailable(self._keeper.liveness.verdict.text or "it is being opened")
        left_s = max(0.0, deadline - self._clock.monotonic())
        fields = {
            "segment": lease.segment,
            "offset": lease.offset,
            "nbytes": lease.nbytes,
            "preprocess": preprocess.as_json(),
            "newer_than": newer_than,
            "wait_ms": int(left_s * 1000),
        }
        reply = await self._ask("fill", fields, [lease], left_s + ANSWER_S)
        self.skipped += reply["skipped"]
        self._keeper.liveness.seen(reply["captured_ns"])
        return filled_frame(reply)

    async def encode(self, sequence: int, boxes: Sequence[Detection] = (), quality: int = 85) -> bytes:
        """JPEG of a frame that fill() gave lately (0: of the newest), with boxes drawn. SourceUnavailable when it is gone."""
        return await self._jpeg.encode(sequence, boxes, quality)

    def drop(self, sequence: int) -> None:
        """Nobody will encode this frame any more."""
        task = asyncio.get_running_loop().create_task(self._drop(sequence))
        self._drops.add(task)
        task.add_done_callback(self._drops.discard)

    async def _drop(self, sequence: int) -> None:
        try:
            await self._child.call("drop", {"sequence": sequence}, [], ANSWER_S)
        except ChildError:
            return  # the frame went with its child

    async def _ask(self, op: str, fields: Mapping[str, Any], leases: Sequence[Lease], timeout_s: float = ANSWER_S) -> Reply:
        try:
            return await self._child.call(op, fields, leases, timeout_s)
        except ChildRefused as error:
            if error.refusal == NO_ROOM and op == "encode":
                raise
            if error.refusal in ("request.invalid", NO_ROOM):
                raise InvalidRequest("camera %s: %s" % (self.options.name, error), refusal=error.refusal) from error
            raise self._unavailable(str(error)) from error
        except (ChildGone, ChildTimeout) as error:
            raise self._unavailable(str(error)) from error

    def _unavailable(self, why: str) -> SourceUnavailable:
        return SourceUnavailable("camera %s gives no picture: %s" % (self.options.name, redact(why)))
