"""One camera: its child, what state it is in, and its newest frame on demand."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set

from edge_agent.cameras.answer import filled_frame
from edge_agent.cameras.liveness import Liveness, Phase, Step, Verdict
from edge_agent.cameras.options import CameraOptions, redact
from edge_agent.cameras.vision_child import Reply, VisionChild
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import FilledFrame, Preprocess
from edge_agent.domain.results import Detection
from edge_agent.domain.status import PartStatus, State
from edge_agent.domain.tensors import Lease
from edge_agent.errors import (
    ChildError,
    ChildGone,
    ChildRefused,
    ChildTimeout,
    EdgeAgentError,
    InvalidRequest,
    SourceUnavailable,
)
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.backoff import Backoff
from edge_agent.processes.child import ChildSpec

BACKOFF_FIRST_S, BACKOFF_CAP_S = 0.5, 7.0
_TICK_S = 0.2
_ANSWER_S = 3.0  # a vision child that works answers well within this, waiting not counted
_SLOT_S = 1.0
_FIRST_JPEG_BYTES = 256 * 1024
_LIFE_BITS = 32  # numbers of frames: those of a later child are above all of an earlier one's

_STATES = {"": State.OK, "camera.opening": State.DEGRADED, "camera.ended": State.OFF}
_CALLERS_FAULT = frozenset(("request.invalid", "image.no_room"))


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
        self.skipped = 0  #: frames that came and were not asked for
        self.frames = 0  #: frames that came
        self._arena = arena
        self._clock = clock
        self._on_change = on_change
        self._read_password = read_password or (lambda: options.password)
        self._password = options.password
        spec = ChildSpec(
            "camera:" + options.name, "edge_agent.vision_host.camera", python=options.python, backoff_cap_s=BACKOFF_CAP_S
        )
        self._child = VisionChild(spec, arena, clock, self._up, self._down, self._event, options.reserve_bytes)
        backoff = Backoff(BACKOFF_FIRST_S, BACKOFF_CAP_S, rng or random.Random())
        self._liveness = Liveness(options.stale_after_s, options.frozen_after_s, backoff)
        self._lives = 0
        self._sequence = 0  # of the newest frame that is known
        self._fps_in = 0.0
        self._jpeg_bytes = _FIRST_JPEG_BYTES
        self._said = Verdict("")
        self._since = ""
        self._task: Optional[asyncio.Task[None]] = None
        self._drops: Set[asyncio.Task[None]] = set()
        self._wake: asyncio.Event
        self._live: asyncio.Event

    async def start(self) -> None:
        """Starts the child; the camera opens in its own time, `status()` tells."""
        self._wake, self._live = asyncio.Event(), asyncio.Event()
        self._since = self._clock.now()
        self._said = self._liveness.verdict
        await self._child.start()
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Ends the child. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        await self._child.stop()
        if self._drops:
            await asyncio.wait(set(self._drops))

    @property
    def segment(self) -> Segment:
        """Where this camera's pictures go; another one after a child that could not be ended."""
        return self._child.segment

    @property
    def frame_age_s(self) -> Optional[float]:
        """Seconds since the last frame that is known of; None before the first."""
        frame_at = self._liveness.frame_at
        return None if frame_at is None else max(0.0, self._clock.monotonic() - frame_at)

    @property
    def fps_in(self) -> float:
        """Frames a second that the camera gives now; 0 when it does not."""
        return self._fps_in if self._liveness.phase is Phase.LIVE else 0.0

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
        said = self._said
        args = {"camera": self.options.name, "source": redact(self.options.source), "text": said.text} if said.code else {}
        return PartStatus(_STATES.get(said.code, State.FAILED), self._since, said.code, args)

    async def fill(self, lease: Lease, preprocess: Preprocess, newer_than: int, wait_s: float) -> FilledFrame:
        """The newest frame, prepared, in the slot; waits for one newer than `newer_than`. SourceUnavailable when none comes.

        The slot (of `segment`) stays the child's until it has answered, even if the caller is cancelled.
        """
        asked_at = self._clock.monotonic()
        await self._until_live(wait_s)
        left_s = max(0.0, asked_at + wait_s - self._clock.monotonic())
        fields = {
            "segment": lease.segment,
            "offset": lease.offset,
            "nbytes": lease.nbytes,
            "preprocess": preprocess.as_json(),
            "newer_than": newer_than,
            "wait_ms": int(left_s * 1000),
        }
        reply = await self._ask("fill", fields, [lease], left_s + _ANSWER_S)
        self.skipped += reply["skipped"]
        return filled_frame(reply)

    async def encode(self, sequence: int, boxes: Sequence[Detection] = (), quality: int = 85) -> bytes:
        """JPEG of a frame that fill() gave lately (0: of the newest), with boxes drawn. SourceUnavailable when it is gone."""
        fields = {
            "sequence": sequence,
            "quality": quality,
            "boxes": [{"label": one.label[:40], "score": one.score, "box": one.box} for one in boxes if one.box is not None][
                :300
            ],
        }
        try:
            return await self._encode(fields, self._jpeg_bytes)
        except _NoRoom as error:
            self._jpeg_bytes = error.need + error.need // 4
        return await self._encode(fields, self._jpeg_bytes)

    def drop(self, sequence: int) -> None:
        """Nobody will encode this frame any more."""
        task = asyncio.get_running_loop().create_task(self._drop(sequence))
        self._drops.add(task)
        task.add_done_callback(self._drops.discard)

    async def _drop(self, sequence: int) -> None:
        try:
            await self._child.call("drop", {"sequence": sequence}, [], _ANSWER_S)
        except ChildError:
            return  # the frame went with its child

    async def _encode(self, fields: Mapping[str, Any], nbytes: int) -> bytes:
        (lease,) = await self._slot(nbytes)
        try:
            place = {"segment": lease.segment, "offset": lease.offset, "nbytes": lease.nbytes}
            reply = await self._ask("encode", {**fields, **place}, [lease], _ANSWER_S)
            return bytes(lease.view()[: reply["nbytes"]])
        finally:
            lease.release()

    async def _slot(self, nbytes: int) -> List[Any]:
        try:
            return list(await self._arena.acquire([(self.segment, nbytes)], _SLOT_S))
        except ChildGone as error:
            raise SourceUnavailable(str(error)) from error

    async def _until_live(self, wait_s: float) -> None:
        if self._live.is_set():
            return
        try:
            await asyncio.wait_for(self._live.wait(), wait_s)
        except asyncio.TimeoutError:
            said = self._liveness.verdict
            raise SourceUnavailable("camera %s gives no picture: %s %s" % (self.options.name, said.code, said.text)) from None

    async def _ask(self, op: str, fields: Mapping[str, Any], leases: Sequence[Lease], timeout_s: float) -> Reply:
        try:
            return await self._child.call(op, fields, leases, timeout_s)
        except ChildRefused as error:
            if error.refusal == "image.no_room" and op == "encode":
                raise _NoRoom(int(error.detail["need"])) from error
            kind = InvalidRequest if error.refusal in _CALLERS_FAULT else SourceUnavailable
            raise kind("camera %s: %s" % (self.options.name, error), refusal=error.refusal) from error
        except (ChildGone, ChildTimeout) as error:
            raise SourceUnavailable("camera %s gives no picture: %s" % (self.options.name, error)) from error

    async def _watch(self) -> None:
        """Opens and kills, as Liveness decides."""
        while True:
            if self._liveness.verdict.code == "camera.wrong_password" and self._password_now() != self._password:
                self._liveness.hurry()
            step = self._liveness.step(self._clock.monotonic())
            if step is Step.OPEN:
                await self._open()
            elif step is Step.KILL:
                self._child.kill(self._liveness.verdict.code, self._liveness.verdict.text)
            self._tell()
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), _TICK_S)
            except asyncio.TimeoutError:
                continue

    async def _open(self) -> None:
        options = self.options
        self._password = self._password_now()
        fields = {
            "source": options.source,
            "username": options.username,
            "password": self._password,
            "transport": options.transport,
            "loop": options.loop,
            "open_timeout_ms": 5000,
            "read_timeout_ms": int(min(max(options.stale_after_s * 0.6, 0.5), 10.0) * 1000),
            "alive_every_ms": int(min(max(options.stale_after_s / 4, 0.1), 1.0) * 1000),
            "sequence": self._lives << _LIFE_BITS,
        }
        self._liveness.asked(self._clock.monotonic())
        try:
            await self._child.call("open", fields, [], _ANSWER_S)
        except ChildRefused as error:
            if error.refusal == "camera.unsupported":
                self._liveness.end(error.refusal, str(error))
            else:
                self._liveness.fail(self._clock.monotonic(), "camera.unreachable", str(error))
        except ChildError:
            return  # its end is told by _down

    def _password_now(self) -> str:
        """The password as it is now; the last one while it cannot be read."""
        try:
            return self._read_password()
        except (OSError, EdgeAgentError):
            return self._password

    async def _up(self) -> None:
        self._lives += 1
        self._sequence = self._lives << _LIFE_BITS
        self._liveness.child_up()
        self._wake.set()

    def _down(self, reason: str) -> None:
        self._liveness.child_down(self._clock.monotonic(), reason)
        self._tell()

    def _event(self, name: str, fields: Dict[str, Any]) -> None:
        now = self._clock.monotonic()
        if name == "opened":
            self._liveness.opened(now)
        elif name == "alive":
            self._alive(fields)
        elif name == "closed" and fields["code"] in ("camera.ended", "camera.unsupported"):
            self._liveness.end(fields["code"], fields["text"])
        elif name == "closed":
            self._liveness.fail(now, fields["code"], fields["text"])
        self._tell()

    def _alive(self, signs: Mapping[str, Any]) -> None:
        self._liveness.alive(signs)
        self.frames += max(0, signs["sequence"] - self._sequence)
        self._sequence = max(self._sequence, signs["sequence"])
        self._fps_in = signs["fps_in"]
        if self._liveness.verdict.code == "":
            self._child.works()

    def _tell(self) -> None:
        """Says a change of state once; wakes who waits for frames."""
        if self._liveness.phase is Phase.LIVE and self._liveness.frame_at is not None:
            self._live.set()
        else:
            self._live.clear()
        if self._task is None or self._liveness.verdict.code == self._said.code:
            return
        self._said = self._liveness.verdict
        self._since = self._clock.now()
        self._on_change(self.status())


class _NoRoom(Exception):
    """The JPEG takes `need` bytes."""

    def __init__(self, need: int) -> None:
        super().__init__(need)
        self.need = need
