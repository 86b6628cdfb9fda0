"""KServe v2 beside infer: health, metadata, configuration, statistics."""

from __future__ import annotations

from aiohttp import web

from edge_agent.api.answers import error_response, json_response, printable
from edge_agent.api.services import Services
from edge_agent.errors import ModelNotFound
from edge_agent.kserve import codec


class KserveHandlers:
    """What Triton's clients ask before and between inferences."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def live(self, _: web.Request) -> web.Response:
        """200 whenever the process can answer."""
        return json_response({"live": True})

    async def ready(self, _: web.Request) -> web.Response:
        """200 once every model asked for is loaded or has failed with a reason; 503 while the agent stops."""
        if self._services.draining():
            return error_response(503, "Server exiting")
        if not self._services.serving.ready():
            return error_response(400, "models are still being loaded")
        return json_response({"ready": True})

    async def server(self, _: web.Request) -> web.Response:
        """Name, version, extensions."""
        return json_response(codec.server_metadata(self._services.version))

    async def model(self, request: web.Request) -> web.Response:
        """Inputs, outputs, versions of a model."""
        name, version = request.match_info["model"], request.match_info.get("version")
        served = self._services.serving.lookup(name, version)
        versions = [served.version] if version else self._services.serving.versions(name)
        return json_response(codec.model_metadata(served, versions))

    async def model_config(self, request: web.Request) -> web.Response:
        """A model's configuration in Triton's form."""
        served = self._services.serving.lookup(request.match_info["model"], request.match_info.get("version"))
        return json_response(served.config_json())

    async def statistics(self, request: web.Request) -> web.Response:
        """Counts and durations of one version, one model or all."""
        name, version = request.match_info.get("model"), request.match_info.get("version")
        found = self._services.serving.statistics(name, version)
        if name is not None and not found:
            raise ModelNotFound("requested model '%s' is not available" % printable(name))
        return json_response({"model_stats": found})

    async def model_ready(self, request: web.Request) -> web.Response:
        """200 when the model takes requests, 400 when it is known and does not."""
        name = request.match_info["model"]
        if not self._services.serving.is_ready(name, request.match_info.get("version")):
            return error_response(400, "Model version not ready")
        return json_response({"name": name, "ready": True})
