"""Triton's extensions that are off here: their addresses answer as Triton's do when it is built or started without them."""

from __future__ import annotations

from aiohttp import web

from edge_agent.api.answers import error_response, json_response, printable

_KINDS = {"systemsharedmemory": "system", "cudasharedmemory": "cuda"}


async def tracing(_: web.Request) -> web.Response:
    """Trace settings."""
    return error_response(503, "the server does not support tracing")


async def logging(_: web.Request) -> web.Response:
    """Log settings."""
    return error_response(503, "the server does not support dynamic logging")


async def register(request: web.Request) -> web.Response:
    """No region can be registered."""
    return error_response(501, "%s shared memory is disabled on this agent" % _kind(request))


async def unregister(_: web.Request) -> web.Response:
    """There is none: done. Clients do this before anything else, whether they use regions or not."""
    return web.Response(content_type="application/json")


async def regions(_: web.Request) -> web.Response:
    """All regions: none."""
    return json_response([])


async def region(request: web.Request) -> web.Response:
    """One region: there is none."""
    name = printable(request.match_info["region"])
    return error_response(404, "Unable to find %s shared memory region: '%s'" % (_kind(request), name))


def _kind(request: web.Request) -> str:
    return _KINDS[request.path.split("/")[2]]
