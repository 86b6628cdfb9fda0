"""One MQTT request done: picture to detections, KServe tensors to KServe tensors, faults to an error."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from typing import Awaitable, Callable

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.results import RequestRecord
from edge_agent.pipelines.mqtt_parts import Bodies, Detector, Serving, Store
from edge_agent.pipelines.mqtt_request import Answer, Kind, Known, MqttRequest
from edge_agent.pipelines.mqtt_tensors import TensorWork

_log = logging.getLogger(__name__)

_LATE_S = 0.25  #: serving keeps deadlines itself; this much later we give up in its stead


def _nobody_asks(_named: bool) -> None:
    return


class MqttWork:
    """Does requests: an answer for each, whatever happens."""

    def __init__(
        self, serving: Serving, detector: Detector, bodies: Bodies, store: Store, max_payload_bytes: int, clock: Clock
    ) -> None:
        self._serving = serving
        self._tensors = TensorWork(serving, bodies, max_payload_bytes)
        self._detector = detector
        self._store = store
        self._max_payload_bytes = max_payload_bytes
        self._clock = clock

    async def answer(self, request: MqttRequest, tell_named: Callable[[bool], None] = _nobody_asks) -> Answer:
        """The answer to a request; `tell_named` hears whether the body has an id, once it was read.

        Raises:
            Draining: the agent stops, and the request came with QoS 1: the broker keeps it.
        """
        started = self._clock.monotonic()
        known = Known(tell_named)
        try:
            return await self._within_deadline(request, self._do(request, known))
        except errors.EdgeAgentError as exc:
            if isinstance(exc, errors.Draining) and request.message.qos:
                raise
            if isinstance(exc, known.without_row):
                self.refused(request, exc, started, known.request_id)
            return request.error(str(exc), known.request_id)
        except Exception:  # noqa: BLE001  the runner of requests: a fault of ours is answered too
            number = uuid.uuid4().hex[:8]
            _log.exception(
                "internal error %s: an MQTT request for %s failed", number, request.model, extra={"code": "agent.error"}
            )
            self.refused(request, errors.EdgeAgentError(f"internal error {number}"), started, known.request_id)
            return request.error(f"internal error {number}; the agent's log has it", known.request_id)

    def refused(self, request: MqttRequest, error: errors.EdgeAgentError, started: float, request_id: str = "") -> None:
        """The row of a request that never came to a model."""
        self._store.request_done(
            RequestRecord(
                request_id=request_id or request.request_id,
                model=request.model,
                version="",
                source=request.source,
                received_at=self._clock.instant(int(started * 1e9)).at,
                input_bytes=len(request.message.payload),
                batch_size=0,
                queue_us=0,
                compute_us=0,
                total_us=int((self._clock.monotonic() - started) * 1e6),
                status=error.code,
                error=str(error),
            )
        )

    async def _within_deadline(self, request: MqttRequest, work: Awaitable[Answer]) -> Answer:
        if request.deadline is None:
            return await work
        left = request.deadline - self._clock.monotonic()
        try:
            return await asyncio.wait_for(work, max(0.0, left) + _LATE_S)
        except asyncio.TimeoutError as exc:
            raise errors.DeadlineExceeded("the message expired before its answer was ready") from exc

    async def _do(self, request: MqttRequest, known: Known) -> Answer:
        if request.fault:
            raise errors.InvalidRequest(request.fault)
        kind = request.kind(self._max_payload_bytes)
        if request.deadline is not None and self._clock.monotonic() >= request.deadline:
            raise errors.DeadlineExceeded("the message had expired when its turn came")
        if kind is Kind.PICTURE:
            return await self._picture(request, known)
        return await self._tensors.answer(request, known)

    async def _picture(self, request: MqttRequest, known: Known) -> Answer:
        self._serving.lookup(request.model)
        known.without_row = (errors.RequestError, errors.DeadlineExceeded)  # the picture's; of the rest serving makes rows
        seen = await self._detector.detect(
            request.model,
            request.message.payload,
            request_id=request.request_id,
            source=request.source,
            keep=True,
            deadline=request.deadline,
        )
        return request.answer(json.dumps(seen.as_json()).encode())
