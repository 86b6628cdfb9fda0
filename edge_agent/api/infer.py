"""`POST /v2/models/NAME/infer`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Union

from aiohttp import web

from edge_agent.api.answers import coded_response
from edge_agent.api.bodies import Body, BodyMemory
from edge_agent.api.connections import actor_of
from edge_agent.api.intake import Intake
from edge_agent.api.services import INLINE_BYTES, Services
from edge_agent.cameras.copying import copy
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.results import RequestRecord
from edge_agent.errors import EdgeAgentError, ModelNotFound
from edge_agent.kserve import codec
from edge_agent.kserve.served import ServedModel

HEADER = "Inference-Header-Content-Length"
_JSON = "application/json"
_BINARY = "application/octet-stream"


@dataclass(frozen=True)
class Answer:
    """An answer's bytes, and how many of them are JSON."""

    payload: Union[bytes, bytearray]
    head_bytes: int
    binary: Optional[List[int]] = None  #: positions of the outputs that are to stay binary; None: it is as it is wanted


class InferHandler:
    """Body to slots, infer, slots to body. JSON and binary, plain and compressed."""

    def __init__(self, services: Services, memory: BodyMemory) -> None:
        self._services = services
        self._memory = memory

    async def infer(self, request: web.Request) -> web.Response:
        """Runs one request; its slots are given back however it ends."""
        source = "http/" + actor_of(request).name
        received_at, started = self._services.clock.now(), self._services.clock.monotonic()
        intake: Optional[Intake] = None
        try:
            try:
                served, version = self._lookup(request), request.match_info.get("version")
                header_length = codec.parse_header_length(request.headers.get(HEADER))
                body = Body(request, self._services.http.max_body_bytes, self._memory, self._services.bodies)
                intake = Intake(self._services.serving, served, body, self._services.bodies, version)
                await intake.receive(header_length)
                served = self._as_it_is_now(served, version, intake)
            except EdgeAgentError as error:
                self._note_refused(request, intake, source, received_at, started, error)
                raise _named(error, intake) from error
            try:
                answer = await self._run(served, version, intake, source)
                intake.release()  # what is left to do must not hold slots
                answer = await self._finished(answer)
            except EdgeAgentError as error:
                raise _named(error, intake) from error
        finally:
            if intake is not None:
                intake.release()
        headers = {HEADER: str(answer.head_bytes)} if answer.head_bytes < len(answer.payload) else {}
        content_type = _BINARY if headers else _JSON
        accepted = request.headers.get("Accept-Encoding", "")
        return await coded_response(answer.payload, content_type, headers, accepted, self._services.bodies)

    def _lookup(self, request: web.Request) -> ServedModel:
        return self._services.serving.lookup(request.match_info["model"], request.match_info.get("version"))

    def _as_it_is_now(self, served: ServedModel, version: Optional[str], intake: Intake) -> ServedModel:
        """The version that answers once the body is here: while it came the model may have been swapped."""
        now = self._services.serving.lookup(served.name, version)
        if now is not served:
            assert intake.parsed is not None
            codec.match(intake.parsed, now.inputs, now.outputs, now.max_batch_size, now.name)
        return now

    async def _run(self, served: ServedModel, version: Optional[str], intake: Intake, source: str) -> Answer:
        """The answer as a copy: a slow client must not hold a slot."""
        parsed = intake.parsed
        assert parsed is not None
        assert intake.lease is not None
        asked = InferRequest(
            served.name,
            parsed.tensors(intake.lease),
            version,
            outputs=tuple(part.name for part in parsed.outputs),
            room=intake.room,
            id=parsed.id,
            source=source,
            priority=parsed.priority,
            timeout_us=parsed.timeout_us,
            parameters=parsed.parameters,
        )
        response = await self._services.serving.infer(asked)
        try:
            large = codec.text_bytes(response, parsed) > INLINE_BYTES
            batched = served.max_batch_size > 0
            head, binaries = codec.encode_infer(response, parsed, served.config.labels_of, batched, all_binary=large)
            return Answer(await _joined(head, binaries), len(head), codec.binary_positions(response, parsed) if large else None)
        finally:
            response.release()

    async def _finished(self, answer: Answer) -> Answer:
        """The answer with the JSON that was put off."""
        if answer.binary is None:
            return answer
        return Answer(*await self._services.bodies.binary_to_json([answer.payload], answer.head_bytes, answer.binary))

    def _note_refused(
        self,
        request: web.Request,
        intake: Optional[Intake],
        source: str,
        received_at: str,
        started: float,
        error: EdgeAgentError,
    ) -> None:
        """A row for a request that never reached a model."""
        if isinstance(error, ModelNotFound):
            return  # the names of unknown models are the caller's to choose: they would fill the table
        parsed = intake.parsed if intake is not None else None
        self._services.store.request_done(
            RequestRecord(
                request_id=parsed.id if parsed is not None else "",
                model=request.match_info["model"],
                version=request.match_info.get("version", ""),
                source=source,
                received_at=received_at,
                input_bytes=request.content_length or 0,
                batch_size=0,
                queue_us=0,
                compute_us=0,
                total_us=int((self._services.clock.monotonic() - started) * 1e6),
                status=error.code,
                error=str(error),
            )
        )


async def _joined(head: bytes, binaries: List[memoryview]) -> Union[bytes, bytearray]:
    if not binaries:
        return head
    joined = bytearray(len(head) + sum(len(binary) for binary in binaries))
    at = 0
    for part in (head, *binaries):
        at = await copy(part, memoryview(joined), at)
    return joined


def _named(error: EdgeAgentError, intake: Optional[Intake]) -> EdgeAgentError:
    """The error with the request's id in front of its text, once there is one.

    Another object: the one that came may be the answer to other requests too.
    """
    parsed = intake.parsed if intake is not None else None
    text = str(error) if parsed is None else codec.prefixed(str(error), parsed.id)
    named = type(error).__new__(type(error), text)
    named.__dict__.update(error.__dict__)
    return named
