"""One MQTT request done: picture to detections, KServe tensors to KServe tensors, faults to an error."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from typing import Awaitable, Tuple, Type

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.results import RequestRecord
from edge_agent.kserve import codec
from edge_agent.pipelines.mqtt_parts import Detector, Serving, Store
from edge_agent.pipelines.mqtt_request import Answer, Kind, MqttRequest

_log = logging.getLogger(__name__)

_LATE_S = 0.25  #: serving keeps deadlines itself; this much later we give up in its stead


class MqttWork:
    """Does requests; never raises, always answers."""

    def __init__(self, serving: Serving, detector: Detector, store: Store, max_payload_bytes: int, clock: Clock) -> None:
        self._serving = serving
        self._detector = detector
        self._store = store
        self._max_payload_bytes = max_payload_bytes
        self._clock = clock

    async def answer(self, request: MqttRequest) -> Answer:
        """The answer to a request, whatever happens."""
        started = self._clock.monotonic()
        known = _Known()
        try:
            return await self._within_deadline(request, self._do(request, known))
        except errors.EdgeAgentError as exc:
            if isinstance(exc, known.without_row):
                self.refused(request, exc, started, known.request_id)
            return request.error(str(exc), known.request_id)
        except Exception:  # noqa: BLE001  the runner of requests: a fault of ours is answered too
            number = uuid.uuid4().hex[:8]
            _log.exception("MQTT request failed unexpectedly", extra={"action": "mqtt.request_error", "number": number})
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

    async def _do(self, request: MqttRequest, known: _Known) -> Answer:
        if request.fault:
            raise errors.InvalidRequest(request.fault)
        kind = request.kind(self._max_payload_bytes)
        if request.deadline is not None and self._clock.monotonic() >= request.deadline:
            raise errors.DeadlineExceeded("the message had expired when its turn came")
        if kind is Kind.PICTURE:
            return await self._picture(request, known)
        return await self._tensors(request, known)

    async def _picture(self, request: MqttRequest, known: _Known) -> Answer:
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

    async def _tensors(self, request: MqttRequest, known: _Known) -> Answer:
        payload = request.message.payload
        body = codec.parse_infer(payload, codec.parse_header_length(request.header_length))
        known.request_id = body.id
        served = self._serving.lookup(request.model)
        body = codec.match(body, served.inputs, served.outputs, served.max_batch_size, request.model)
        lease, room = await self._serving.reserve(request.model, served.version, body.input_bytes)
        try:
            body.copy_inputs(payload, lease.view())
            asked = InferRequest(
                model=request.model,
                inputs=body.tensors(lease),
                version=served.version,
                outputs=tuple(part.name for part in body.outputs),
                room=room,
                id=body.id or request.request_id,
                source=request.source,
                priority=body.priority,
                timeout_us=body.timeout_us,
                deadline=request.deadline,
                parameters=body.parameters,
            )
            known.without_row = ()  # serving makes the row, whatever comes of it
            response = await self._serving.infer(asked)
            try:
                head, binaries = codec.encode_infer(response, body, served.config.labels, bool(served.max_batch_size))
                return self._kserve_answer(request, head, b"".join(binaries), bool(binaries))
            finally:
                response.release()
        finally:
            lease.release()
            if room is not None:
                room.release()

    @staticmethod
    def _kserve_answer(request: MqttRequest, head: bytes, binary: bytes, is_binary: bool) -> Answer:
        if not is_binary:
            return request.answer(head)
        return request.answer(head + binary, "application/octet-stream", len(head))


class _Known:
    """What came to light about a request while it was done."""

    def __init__(self) -> None:
        self.request_id: str = ""  #: the id in the KServe body
        self.without_row: Tuple[Type[errors.EdgeAgentError], ...] = (errors.EdgeAgentError,)  #: errors that nobody logs yet
