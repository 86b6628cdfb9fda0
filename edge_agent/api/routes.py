"""Every address of the API in one table: the router, the access checks and the OpenAPI document are made of it."""

from __future__ import annotations

from typing import List, Mapping, Optional, Type

from aiohttp import web

from edge_agent import errors
from edge_agent.access.roles import Permission
from edge_agent.api.access import AccessCheck
from edge_agent.api.agent import AgentHandlers, codes_json
from edge_agent.api.bodies import BodyMemory
from edge_agent.api.connections import connection_of
from edge_agent.api.detect import FORM, PICTURES, DetectHandler
from edge_agent.api.kserve_routes import kserve_routes
from edge_agent.api.lists import KINDS, PARAMETERS, ListHandlers
from edge_agent.api.openapi import openapi_document
from edge_agent.api.pages import document, load_pages, page_handler
from edge_agent.api.repository import RepositoryHandlers
from edge_agent.api.route import Handler, Route
from edge_agent.api.services import Services
from edge_agent.api.unbroken import Unbroken
from edge_agent.api.versions import VersionHandlers


def build_routes(services: Services, memory: BodyMemory) -> List[Route]:
    """All routes, those of the page and of the document about them included."""
    unbroken = Unbroken()
    repository = RepositoryHandlers(services, memory, unbroken)
    routes = [
        *kserve_routes(services, memory, repository),
        *_agent(services, memory),
        *_models(repository),
        *_versions(VersionHandlers(services, unbroken)),
        *_lists(services),
    ]
    routes.append(_fixed("/api/codes.json", codes_json(), "Reason and cure of every code, in every language"))
    routes.extend(_pages())
    about = Route("GET", "/api/openapi.json", _nothing, None, "This document")
    described = openapi_document([*routes, about], services.version)
    return [*routes, _fixed(about.path, described, about.summary)]


async def _nothing(_: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


def _agent(services: Services, memory: BodyMemory) -> List[Route]:
    agent, detect = AgentHandlers(services), DetectHandler(services, memory)
    metrics = [
        Route("GET", path, agent.metrics, Permission.METRICS, "Prometheus metrics", "text/plain")
        for path in ("/metrics", "/metrics/")
    ]
    return [
        *metrics,
        Route("GET", "/api/status", agent.status, Permission.STATUS, "Every part with its state and why"),
        Route("GET", "/api/cameras", agent.cameras, Permission.STATUS, "The cameras"),
        Route(
            "GET", "/api/cameras/{camera}/snapshot.jpg", agent.snapshot, Permission.PICTURES, "The newest inferred frame",
            "image/jpeg", query=("boxes",),
        ),
        Route(
            "POST", "/api/models/{model}/detect", detect.detect, detect.permission, "Decoded results for one picture",
            takes=(*PICTURES, FORM), query=("source", "min_score"), statuses={errors.StoreError: 507},  # nothing pretended
        ),
    ]  # fmt: skip


def _models(repository: RepositoryHandlers) -> List[Route]:
    base = "/api/models/{model}"
    return [
        Route("POST", base + "/load", repository.release, Permission.MODELS, "Loads a model, in every control mode"),
        Route(
            "POST", base + "/unload", repository.hold, Permission.MODELS,
            "Takes a model down until it is loaded again, in every control mode",
        ),
    ]  # fmt: skip


def _versions(versions: VersionHandlers) -> List[Route]:
    base, one = "/api/models/{model}", ("version",)
    misplaced: Mapping[Type[Exception], int] = {errors.Unsupported: 400}  # another model can do it
    return [
        Route(
            "POST", base + "/build", versions.build, Permission.MODELS, "Begins to build a version's TensorRT plan anew",
            status=202, query=one, statuses=misplaced,
        ),
        Route(
            "POST", base + "/verify", versions.verify, Permission.MODELS,
            "Compares the TensorRT plan that serves with what the model should answer", query=one, statuses=misplaced,
        ),
        Route(
            "POST", base + "/promote", versions.promote, Permission.MODELS,
            "Makes a version serve: the one that is being compared, or the one named", query=one,
        ),
        Route("POST", base + "/rollback", versions.roll_back, Permission.MODELS, "Makes the version serve that did before"),
    ]  # fmt: skip


def _lists(services: Services) -> List[Route]:
    lists = ListHandlers(services)
    return [
        Route(
            "GET", "/api/" + kind, lists.handler(kind), Permission.RESULTS, "Rows of %s, newest first" % kind, query=PARAMETERS
        )
        for kind in KINDS
    ]


def _fixed(path: str, body: bytes, summary: str) -> Route:
    return Route("GET", path, page_handler(document(body, path)), None, summary)


def _pages() -> List[Route]:
    """The page at `/`, its files beside it; they hold no data and need no token."""
    pages = load_pages()
    routes = [
        Route("GET", "/" + name, page_handler(page), None, "Page file", page.content_type) for name, page in pages.items()
    ]
    if "index.html" in pages:
        routes.append(Route("GET", "/", page_handler(pages["index.html"]), None, "The status page", "text/html"))
    return routes


def add_routes(app: web.Application, routes: List[Route], access: AccessCheck) -> None:
    """Puts the routes behind their access checks into the router."""
    for route in routes:
        resource = app.router.add_resource(route.path)
        handler = _guarded(route, access)
        for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
            resource.add_route(method, handler, expect_handler=_expected)


async def _expected(_: web.Request) -> None:
    """Who waits for "100 Continue" gets it with the first read of its body, after all checks of the head; see bodies.py."""


def _guarded(route: Route, access: AccessCheck) -> Handler:
    async def guarded(request: web.Request) -> web.StreamResponse:
        connection = connection_of(request)
        connection.call.statuses = route.statuses
        needs: Optional[Permission] = route.permission(request) if callable(route.permission) else route.permission
        connection.call.actor = await access.actor(request, connection, needs)
        return await route.handler(request)

    return guarded
