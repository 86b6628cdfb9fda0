"""The agent's own state: status, cameras, metrics, the table of codes."""

from __future__ import annotations

from typing import Any, Dict

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from edge_agent.api.answers import json_bytes, json_response, printable
from edge_agent.api.services import Services
from edge_agent.domain.codes import CODES
from edge_agent.errors import InvalidRequest


class AgentHandlers:
    """What people and monitoring look at."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def status(self, _: web.Request) -> web.Response:
        """Every part with its state, and why."""
        return json_response(self._services.status())

    async def cameras(self, _: web.Request) -> web.Response:
        """The cameras of the status."""
        return json_response([camera.status() for camera in self._services.cameras.values()])

    async def snapshot(self, request: web.Request) -> web.Response:
        """The newest inferred frame of a camera, with boxes when asked."""
        name = request.match_info["camera"]
        camera = self._services.cameras.get(name)
        if camera is None:
            raise web.HTTPNotFound(text="no camera is called '%s'" % printable(name))
        boxes = request.query.get("boxes", "0")
        if boxes not in ("0", "1"):
            raise InvalidRequest("boxes must be 0 or 1")
        return web.Response(body=await camera.snapshot(boxes == "1"), content_type="image/jpeg")

    async def metrics(self, _: web.Request) -> web.Response:
        """Prometheus' text format."""
        return web.Response(body=generate_latest(self._services.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def codes_json() -> bytes:
    """`/api/codes.json`: reason and cure of every code in every language."""
    table: Dict[str, Any] = {
        code: {"reason": entry.reason._asdict(), "cure": entry.cure._asdict()} for code, entry in sorted(CODES.items())
    }
    return json_bytes(table)
