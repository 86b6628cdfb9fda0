"""Keeps one source open: asks the child to open it, kills the child that hangs, says what state the camera is in."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Callable, Dict, Mapping, Optional

from edge_agent.cameras.liveness import UNSUPPORTED, Liveness, Phase, Step, Verdict
from edge_agent.cameras.options import CameraOptions
from edge_agent.cameras.vision_child import VisionChild
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.errors import ChildError, ChildRefused, EdgeAgentError
from edge_agent.processes.arena import Arena
from edge_agent.processes.backoff import Backoff
from edge_agent.processes.child import ChildSpec
from edge_agent.telemetry.redaction import redact

BACKOFF_FIRST_S, BACKOFF_CAP_S = 0.5, 7.0
ANSWER_S = 3.0  # a vision child that works answers well within this, waiting not counted
_TICK_S = 0.2
_OPEN_TIMEOUT_MS = 5000
_READ_TIMEOUT_MS = 15000  # no less than the longest distance of key frames: OpenCV's first read waits for one
_LIFE_BITS = 32  # numbers of frames: those of a later child are above all of an earlier one's
_STATES = {"": State.OK, "camera.opening": State.DEGRADED, "camera.ended": State.OFF}


class SourceKeeper:
    """The child of one camera with what is known of its source."""

    def __init__(
        self,
        options: CameraOptions,
        arena: Arena,
        clock: Clock,
        on_change: Callable[[PartStatus], None],
        read_password: Callable[[], str],
        rng: random.Random,
    ) -> None:
        name = "camera:" + options.name
        spec = ChildSpec(name, "edge_agent.vision_host.camera", python=options.python, backoff_cap_s=BACKOFF_CAP_S)
        self.child = VisionChild(spec, arena, clock, self._up, self._down, self._event, options.reserve_bytes)
        self.liveness = Liveness(options.stale_after_s, options.frozen_after_s, Backoff(BACKOFF_FIRST_S, BACKOFF_CAP_S, rng))
        self.frames = 0  #: that came so far
        self._options = options
        self._clock = clock
        self._on_change = on_change
        self._read_password = read_password
        self._password = options.password
        self._lives = 0
        self._sequence = 0  # of the newest frame that is known
        self._fps_in = 0.0
        self._said = Verdict("")
        self._since = ""
        self._task: Optional[asyncio.Task[None]] = None
        self._wake: asyncio.Event
        self._live: asyncio.Event

    async def start(self) -> None:
        """Starts the child; the source opens in its own time."""
        self._wake, self._live = asyncio.Event(), asyncio.Event()
        self._since = self._clock.now()
        self._said = self.liveness.verdict
        await self.child.start()
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Ends the child. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        await self.child.stop()

    @property
    def fps_in(self) -> float:
        """Frames a second that come now; 0 when none do."""
        return self._fps_in if self.liveness.phase is Phase.LIVE else 0.0

    def status(self) -> PartStatus:
        """The state that was last told to `on_change`, with the code that says why."""
        said, options = self._said, self._options
        args = {"camera": options.name, "source": redact(options.source), "text": redact(said.text)} if said.code else {}
        return PartStatus(_STATES.get(said.code, State.FAILED), self._since, said.code, args)

    async def until_live(self, wait_s: float) -> bool:
        """Waits for frames to come; False when they do not in time."""
        return await _is_set(self._live, wait_s)

    async def _watch(self) -> None:
        """Opens and kills, as Liveness decides."""
        while True:
            if self.liveness.verdict.code == "camera.wrong_password" and self._password_now() != self._password:
                self.liveness.hurry()
            step = self.liveness.step(self._clock.monotonic())
            if step is Step.OPEN:
                await self._open()
            elif step is Step.KILL:
                self.child.kill(self.liveness.verdict.code, self.liveness.verdict.text)
            self._tell()
            self._wake.clear()
            await _is_set(self._wake, _TICK_S)

    async def _open(self) -> None:
        options = self._options
        self._password = self._password_now()
        fields = {
            "source": options.source,
            "username": options.username,
            "password": self._password,
            "transport": options.transport,
            "loop": options.loop,
            "open_timeout_ms": _OPEN_TIMEOUT_MS,
            "read_timeout_ms": _READ_TIMEOUT_MS,
            "alive_every_ms": int(min(max(options.stale_after_s / 4, 0.1), 1.0) * 1000),
            "sequence": self._lives << _LIFE_BITS,
        }
        self.liveness.asked(self._clock.monotonic())
        try:
            await self.child.call("open", fields, [], ANSWER_S)
        except ChildRefused as error:
            code = error.refusal if error.refusal == UNSUPPORTED else "camera.unreachable"
            self.liveness.closed(self._clock.monotonic(), code, str(error))
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
        self.liveness.child_up()
        self._wake.set()

    def _down(self, reason: str) -> None:
        self.liveness.child_down(self._clock.monotonic(), reason)
        self._tell()

    def _event(self, name: str, fields: Dict[str, Any]) -> None:
        now = self._clock.monotonic()
        if name == "opened":
            self.liveness.opened(now)
        elif name == "alive":
            self._alive(fields)
        elif name == "closed":
            self.liveness.closed(now, fields["code"], fields["text"])
        self._tell()

    def _alive(self, signs: Mapping[str, Any]) -> None:
        self.liveness.alive(signs)
        self.frames += max(0, signs["sequence"] - self._sequence)
        self._sequence = max(self._sequence, signs["sequence"])
        self._fps_in = signs["fps_in"]
        if self.liveness.verdict.code == "":
            self.child.works()

    def _tell(self) -> None:
        """Says a change of state once; wakes who waits for frames."""
        if self.liveness.phase is Phase.LIVE and self.liveness.frames:
            self._live.set()
        else:
            self._live.clear()
        if self._task is None or self.liveness.verdict.code == self._said.code:
            return
        self._said = self.liveness.verdict
        self._since = self._clock.now()
        self._on_change(self.status())


async def _is_set(event: asyncio.Event, wait_s: float) -> bool:
    """Waits for it so long; unlike asyncio.wait_for before Python 3.12 it never loses a cancellation."""
    if event.is_set():
        return True
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=wait_s)
    finally:
        waiting.cancel()
    return event.is_set()
