"""A picture in, objects out: the door that HTTP and MQTT share."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, Optional, Protocol, Tuple, Union

from edge_agent import errors
from edge_agent.cameras.images import ImageChild
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import FilledFrame, Geometry, Preprocess
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.results import Detection, Result
from edge_agent.domain.tensors import DataType, Lease, Tensor
from edge_agent.serving import picture
from edge_agent.serving.servable import Servable
from edge_agent.serving.serving import Serving

_PREPARE_S = 15.0  #: longest wait for a decoded picture


class ResultSink(Protocol):
    """Where a kept result goes; the uid comes when it is on disk."""

    async def add_result(self, result: Result) -> str:
        """Keeps the result."""


@dataclass(frozen=True)
class DetectAnswer:
    """What a model saw in one picture; boxes in pixels of the sent picture."""

    id: str
    model: str
    version: str
    width: int
    height: int
    objects: Tuple[Detection, ...]
    classification: bool  #: the objects are classes of the whole picture
    stages_us: Mapping[str, int]
    uid: Optional[str] = None  #: of the kept result

    def as_json(self) -> Dict[str, Any]:
        """The answer as `POST /api/models/{model}/detect` gives it."""
        body: Dict[str, Any] = {"id": self.id}
        if self.uid is not None:
            body["uid"] = self.uid
        body.update(model=self.model, version=self.version, width=self.width, height=self.height)
        if self.classification:
            body["classes"] = [{"label": seen.label, "score": round(seen.score, 4)} for seen in self.objects]
        else:
            body["objects"] = [seen.as_json() for seen in self.objects]
        body["stages_us"] = dict(self.stages_us)
        return body


def to_source(objects: Tuple[Detection, ...], geometry: Geometry) -> Tuple[Detection, ...]:
    """The same objects with boxes in pixels of the source picture."""
    return tuple(seen if seen.box is None else replace(seen, box=geometry.to_source(seen.box)) for seen in objects)


def picture_request(served: Servable, preprocess: Preprocess, lease: Lease, **fields: Any) -> InferRequest:
    """The request for one prepared picture that lies in `lease`."""
    assert served.config.image is not None
    spec = picture.picture_input(served.config.image, served.inputs)
    shape = preprocess.shape if len(spec.shape) == 4 else preprocess.shape[1:]
    tensor = Tensor(spec.name, DataType(preprocess.datatype), shape, lease, 0, preprocess.nbytes)
    return InferRequest(served.name, (tensor,), served.version, decode=True, **fields)


class Detector:
    """Prepares a picture in the image child, infers, maps boxes back, keeps the result where that is asked."""

    def __init__(self, serving: Serving, images: ImageChild, sink: ResultSink, clock: Clock) -> None:
        self._serving = serving
        self._images = images
        self._sink = sink
        self._clock = clock

    async def start(self) -> None:
        """Nothing yet: the image child starts with the first picture."""

    async def stop(self) -> None:
        """Ends the image child."""
        await self._images.stop()

    async def detect(
        self,
        name: str,
        image: Union[bytes, bytearray, memoryview],
        *,
        version: Optional[str] = None,
        request_id: str = "",
        source: str = "",
        keep: bool = False,
        deadline: Optional[float] = None,
        min_score: float = 0.0,
    ) -> DetectAnswer:
        """What the model sees in a JPEG, PNG or WebP picture.

        Raises InvalidRequest (not a picture, a model that takes none), ModelNotFound, UnavailableError, EngineError; with
        `keep` also StoreError.
        """
        started_ns = self._clock.monotonic_ns()
        served = self._serving.lookup(name, version)
        if served.preprocess is None or not served.decodes:
            raise errors.InvalidRequest("model '%s' takes no pictures: its config has no [image] and [decode]" % name)
        lease, frame = await self._images.prepare(image, served.preprocess, self._prepare_time(deadline))
        try:
            await self._serving.share(name, version, self._images.segment)
            request = picture_request(served, served.preprocess, lease, id=request_id, source=source, deadline=deadline)
            if self._sees_alike(served, version):
                request = replace(request, version=version)
            response = await self._serving.infer(request)
        finally:
            lease.release()
        answer = self._answer(served, frame, response, min_score, started_ns, request_id or uuid.uuid4().hex)
        if not keep:
            return answer
        return replace(answer, uid=await self._sink.add_result(self._result(answer, source, started_ns, request_id)))

    def _sees_alike(self, served: Servable, version: Optional[str]) -> bool:
        """Whether what answers now takes the picture as it was prepared: the model may have been swapped meanwhile."""
        now = self._serving.lookup(served.name, version)
        return now.preprocess == served.preprocess and now.decodes

    def _prepare_time(self, deadline: Optional[float]) -> float:
        left = _PREPARE_S if deadline is None else deadline - self._clock.monotonic()
        return max(0.0, min(left, _PREPARE_S))

    def _answer(
        self,
        served: Servable,
        frame: FilledFrame,
        response: InferResponse,
        min_score: float,
        started_ns: int,
        answer_id: str,
    ) -> DetectAnswer:
        assert response.detections is not None
        seen = tuple(item for item in response.detections if item.score >= min_score)
        stages = {"decode": frame.decode_us, "pre": frame.fill_us, **response.timing.stages()}
        stages["total"] = (self._clock.monotonic_ns() - started_ns) // 1000
        geometry = frame.geometry
        return DetectAnswer(
            id=answer_id,
            model=served.name,
            version=served.version,
            width=geometry.width,
            height=geometry.height,
            objects=to_source(seen, geometry),
            classification=served.config.decode is not None and served.config.decode.kind == "classification",
            stages_us=stages,
        )

    def _result(self, answer: DetectAnswer, source: str, started_ns: int, request_id: str) -> Result:
        return Result(
            source=source,
            model=answer.model,
            version=answer.version,
            captured=self._clock.instant(started_ns),
            width=answer.width,
            height=answer.height,
            objects=answer.objects,
            stages_us=answer.stages_us,
            latency_us=answer.stages_us["total"],
            request_id=request_id,
        )
