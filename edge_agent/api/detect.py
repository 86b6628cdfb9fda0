"""`POST /api/models/NAME/detect`: a picture in, objects out."""

from __future__ import annotations

import re
from typing import Union

from aiohttp import web

from edge_agent.access.gate import Actor
from edge_agent.access.roles import Permission
from edge_agent.api.answers import json_response
from edge_agent.api.bodies import Body, BodyMemory
from edge_agent.api.connections import actor_of, connection_of
from edge_agent.api.multipart import boundary_of, first_file
from edge_agent.api.services import Services
from edge_agent.errors import Forbidden, InvalidRequest

PICTURES = ("image/jpeg", "image/png", "image/webp", "application/octet-stream")
FORM = "multipart/form-data"
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class DetectHandler:
    """Decoded results for one picture; kept when the caller names a source."""

    def __init__(self, services: Services, memory: BodyMemory) -> None:
        self._services = services
        self._memory = memory

    def permission(self, request: web.Request) -> Permission:
        """Keeping is more than asking."""
        return Permission.KEEP if "source" in request.query else Permission.INFER

    async def detect(self, request: web.Request) -> web.Response:
        """What the model sees in the picture."""
        keep, source = _source(request, actor_of(request))
        min_score = _min_score(request.query.get("min_score", "0"))
        model = request.match_info["model"]
        self._services.serving.lookup(model)  # before the upload, not after it
        kind = _content_type(request)
        body = Body(request, self._services.http.max_body_bytes, self._memory, self._services.bodies)
        try:
            picture: Union[bytearray, memoryview] = await body.whole()
            if kind == FORM:
                picture = first_file(memoryview(picture), boundary_of(request.headers["Content-Type"]))
            if not len(picture):
                raise InvalidRequest("the request body is empty, a picture is expected")
            answer = await self._services.detector.detect(
                model, picture, request_id=connection_of(request).call.client_id, source=source, keep=keep, min_score=min_score
            )
        finally:
            body.release()
        return json_response(answer.as_json())


def _source(request: web.Request, actor: Actor) -> tuple[bool, str]:
    """Whether the result is kept, and under which source."""
    name = request.query.get("source")
    if name is None:
        return False, "http/" + actor.name
    if not _SOURCE.match(name):
        raise InvalidRequest("source must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or a digit")
    if not actor.may_keep_as(name):
        raise Forbidden("the token %s keeps results as source '%s' only" % (actor.name, actor.name))
    return True, "http/" + name


def _min_score(text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0.0 <= score <= 1.0:
        raise InvalidRequest("min_score must be a number from 0 to 1")
    return score


def _content_type(request: web.Request) -> str:
    kind = request.content_type
    if kind not in PICTURES and kind != FORM:
        text = "content type '%s' is no picture: send one of %s, or a form as %s"
        raise InvalidRequest(text % (kind[:64], ", ".join(PICTURES), FORM))
    return kind
