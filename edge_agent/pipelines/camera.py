"""One camera's way: the newest frame is pulled when its model will have room, inferred, and its result kept and told."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Protocol, Tuple

from edge_agent import errors
from edge_agent.cameras.camera import Camera
from edge_agent.config.cameras import CameraSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import FilledFrame, Preprocess
from edge_agent.domain.requests import InferResponse
from edge_agent.domain.results import Detection, Result
from edge_agent.domain.status import PartStatus, State
from edge_agent.pipelines.pace import Pace, Rate
from edge_agent.processes.arena import Arena
from edge_agent.serving.detect import picture_request, to_source
from edge_agent.serving.servable import Servable
from edge_agent.serving.serving import Serving
from edge_agent.telemetry.metrics import Metrics
from edge_agent.telemetry.redaction import redact
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)

_NEW_FRAME_WAIT_S = 1.0
_RETRY_S = 0.5  #: pause after a frame that could not be had or inferred
_SLOT_WAIT_S = 1.0


class ResultSink(Protocol):
    """Where results go that nobody waits for."""

    def add_result_nowait(self, result: Result) -> bool:
        """Keeps the result with the next commit; False when its queue is full."""


@dataclass(frozen=True)
class Seen:
    """The last inferred frame, kept in the camera's child for snapshots."""

    sequence: int
    objects: Tuple[Detection, ...]


class CameraPipeline:
    """At most one frame is on its way: a slow model means skipped frames, never a growing queue."""

    def __init__(
        self,
        section: CameraSection,
        camera: Camera,
        serving: Serving,
        arena: Arena,
        sink: ResultSink,
        metrics: Metrics,
        clock: Clock,
        publish: Callable[[str, Result, bool], None] = lambda camera, result, kept: None,
    ) -> None:
        self.name = section.name
        self._section = section
        self._camera = camera
        self._serving = serving
        self._arena = arena
        self._sink = sink
        self._metrics = metrics
        self._clock = clock
        self._publish = publish
        self._pace = Pace(section.max_fps)
        self._inferred = Rate()
        self._fill_s = 0.02  #: what the child needs to prepare a frame, learned
        self._seen: Optional[Seen] = None
        self._before: Optional[int] = None  #: the frame before it: a snapshot may be on its way to the child
        self._last_sequence = 0
        self._skipped = 0  #: of the camera's count, told to the metrics
        self._no_model_since = ""  #: RFC 3339 UTC; empty while the model takes frames
        self._running = False
        self._tasks = Tasks(self._failed)

    async def start(self) -> None:
        """Opens the camera and begins to pull; the camera's own state tells how that goes."""
        await self._camera.start()
        self._running = True
        self._tasks.spawn(self._run(), "camera:" + self.name)

    async def stop(self) -> None:
        """Ends the loop, then the child."""
        self._running = False
        await self._tasks.stop()
        await self._camera.stop()

    def _failed(self, error: BaseException) -> None:
        """Something that nobody foresaw, logged by now, has ended the loop: the camera goes on all the same."""
        self._metrics.camera_frames(self.name, "failed")
        if self._running:
            self._tasks.spawn(self._run(_RETRY_S), "camera:" + self.name)

    async def _run(self, pause_s: float = 0.0) -> None:
        await asyncio.sleep(pause_s)
        while True:
            try:
                await self._one_frame()
            except errors.SourceUnavailable:
                await asyncio.sleep(_RETRY_S)
            except errors.EdgeAgentError as error:
                self._metrics.camera_frames(self.name, "failed")
                _log.debug("camera %s: %s", self.name, error, extra={"code": error.code})
                await asyncio.sleep(_RETRY_S)

    async def _one_frame(self) -> None:
        served, preprocess = self._served()
        await self._wait_for_room(served)
        lease = (await self._arena.acquire([(self._camera.segment, preprocess.nbytes)], _SLOT_WAIT_S))[0]
        try:
            frame = await self._fill(lease, preprocess)
            await self._serving.share(served.name, served.version, self._camera.segment)
            request = picture_request(served, preprocess, lease, source="camera/" + self.name)
            response = await self._serving.infer(request)
        finally:
            lease.release()
        self._keep(frame, response)

    def _served(self) -> Tuple[Servable, Preprocess]:
        """The model as it is now; notes since when there is none that takes frames."""
        try:
            served = self._serving.lookup(self._section.model)
            if served.preprocess is None or not served.decodes:
                text = "model '%s' takes no pictures: its config has no [image] and [decode]"
                raise errors.InvalidRequest(text % served.name)
        except errors.EdgeAgentError:
            self._no_model_since = self._no_model_since or self._clock.now()
            raise
        self._no_model_since = ""
        return served, served.preprocess

    async def _wait_for_room(self, served: Servable) -> None:
        """Until the frame is due and the model will be free once the frame is filled."""
        while True:
            now = self._clock.monotonic()
            at = max(self._pace.due_at(now), served.room_at(now) - self._fill_s)
            if at <= now:
                self._pace.took(now)
                return
            await asyncio.sleep(min(at - now, 0.5))

    async def _fill(self, lease: Any, preprocess: Preprocess) -> FilledFrame:
        frame = await self._camera.fill(lease, preprocess, self._last_sequence, _NEW_FRAME_WAIT_S)
        self._metrics.camera_frames(self.name, "skipped", self._camera.skipped - self._skipped)
        self._skipped = self._camera.skipped
        self._last_sequence = frame.sequence
        self._fill_s += 0.2 * (frame.fill_us / 1e6 - self._fill_s)
        return frame

    # -- results ----------------------------------------------------------------------------------------------------

    def _keep(self, frame: FilledFrame, response: InferResponse) -> None:
        result = self._result(frame, response)
        if self._before is not None:
            self._camera.drop(self._before)
        self._before = self._seen.sequence if self._seen is not None else None
        self._seen = Seen(frame.sequence, result.objects)
        self._inferred.count(self._clock.monotonic())
        self._metrics.camera_frames(self.name, "inferred")
        keep = self._section.keep == "all"
        if keep and not self._sink.add_result_nowait(result):
            self._metrics.dropped("camera_results")
        self._publish(self.name, result, keep)

    def _result(self, frame: FilledFrame, response: InferResponse) -> Result:
        assert response.detections is not None
        age_us = (self._clock.monotonic_ns() - frame.captured_ns) // 1000
        known = frame.decode_us + frame.fill_us + response.timing.total_us
        stages = {"decode": frame.decode_us, "wait": max(0, age_us - known), "pre": frame.fill_us, **response.timing.stages()}
        wanted = tuple(seen for seen in response.detections if self._wants(seen))
        return Result(
            source="camera/" + self.name,
            model=response.model,
            version=response.version,
            captured=self._clock.instant(frame.captured_ns),
            width=frame.geometry.width,
            height=frame.geometry.height,
            objects=to_source(wanted, frame.geometry),
            stages_us=stages,
            latency_us=age_us,
        )

    def _wants(self, seen: Detection) -> bool:
        labels = self._section.labels
        return seen.score >= self._section.min_score and (not labels or seen.label in labels)

    # -- what is shown ----------------------------------------------------------------------------------------------

    async def snapshot(self, boxes: bool) -> bytes:
        """The frame that was inferred last, as JPEG; SourceUnavailable before the first."""
        if self._seen is None:
            raise errors.SourceUnavailable("camera '%s' has given no picture yet" % self.name)
        return await self._camera.encode(self._seen.sequence, self._seen.objects if boxes else (), 85)

    def status(self) -> Dict[str, Any]:
        """An entry of `cameras` in `/api/status`."""
        return {
            "name": self.name,
            "title": self._section.title,
            **self._part().as_json(),
            "model": self._section.model,
            "source": redact(self._section.source),
            "frame_age_s": self._camera.frame_age_s,
            "fps_in": self._camera.fps_in,
            "fps_inferred": self._inferred.per_second(self._clock.monotonic()),
            "skipped": self._camera.skipped,
        }

    def _part(self) -> PartStatus:
        """The camera's own state; where that is good, whether its model takes frames."""
        part = self._camera.status()
        if part.state is not State.OK or not self._no_model_since:
            return part
        args = {"camera": self.name, "model": self._section.model}
        return PartStatus(State.DEGRADED, self._no_model_since, "camera.no_model", args)
