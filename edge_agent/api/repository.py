"""Which models are up, by request: Triton's repository extension, and the agent's own verbs that work in every mode."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Coroutine, TypeVar, Union

from aiohttp import web

from edge_agent.access.roles import Permission, Role
from edge_agent.api.answers import json_response, printable
from edge_agent.api.bodies import Body, BodyMemory
from edge_agent.api.connections import actor_of
from edge_agent.api.services import INLINE_BYTES, Services
from edge_agent.api.unbroken import Unbroken
from edge_agent.config.section import MODEL_NAME_PATTERN
from edge_agent.errors import ConfigError, EngineLoadError, InvalidRequest, StoreError
from edge_agent.kserve import control

Parsed = TypeVar("Parsed")


class RepositoryHandlers:
    """Index, load, unload."""

    def __init__(self, services: Services, memory: BodyMemory, unbroken: Unbroken) -> None:
        self._services = services
        self._memory = memory
        self._to_its_end = unbroken.run

    async def index(self, request: web.Request) -> web.Response:
        """Every model and version with its state and why; with `ready`, those that take requests."""
        ready = await self._body(request, control.parse_index)
        entries = self._services.serving.index()
        return json_response([entry for entry in entries if not ready or entry.get("state") == "READY"])

    async def load(self, request: web.Request) -> web.Response:
        """Triton's load: answers when the model is up, or says why it is not.

        With files or a configuration of the caller's own it asks for more: either can name code, which the agent would run.
        """
        name = model_name(request)
        asked = await self._body(request, lambda body: control.parse_load(body, name))
        if (asked.files or asked.config is not None) and actor_of(request).role is not Role.ADMIN:
            self._services.gate.check(request.headers.get("Authorization"), Permission.CONFIG)
        await self._to_its_end(_loaded(name, self._services.serving.load_model(name, asked.config, asked.files)))
        return _done()

    async def unload(self, request: web.Request) -> web.Response:
        """Triton's unload: requests in flight end first."""
        dependents = await self._body(request, control.parse_unload)
        await self._to_its_end(self._services.serving.unload_model(request.match_info["model"], dependents))
        return _done()

    async def elsewhere(self, request: web.Request) -> web.Response:
        """Triton's load and unload for one repository of several: it does not do that either."""
        raise web.HTTPNotImplemented(text="'repository_name' specification is not supported")

    async def release(self, request: web.Request) -> web.Response:
        """The agent's own load, in every control mode; ends a hold."""
        name = model_name(request)
        await self._to_its_end(_loaded(name, _kept(self._services.serving.release(name))))
        return self._of(name)

    async def hold(self, request: web.Request) -> web.Response:
        """The agent's own unload, in every control mode and over restarts."""
        name = model_name(request)
        await self._to_its_end(_kept(self._services.serving.hold(name)))
        return self._of(name)

    def _of(self, name: str) -> web.Response:
        return json_response([entry for entry in self._services.serving.index() if entry["name"] == name])

    async def _body(self, request: web.Request, parse: Callable[[Union[bytes, bytearray]], Parsed]) -> Parsed:
        body = Body(request, self._services.http.max_body_bytes, self._memory, self._services.bodies)
        try:
            whole = await body.whole()
            if len(whole) <= INLINE_BYTES:
                return parse(whole)
            return await asyncio.get_running_loop().run_in_executor(None, parse, whole)
        finally:
            body.release()


def model_name(request: web.Request) -> str:
    """The model of the address; InvalidRequest where no model can have that name."""
    name = request.match_info["model"]
    if not MODEL_NAME_PATTERN.match(name):
        raise InvalidRequest("'%s' is not a model name: use letters, digits, '.', '_', '-'" % printable(name))
    return name


def _done() -> web.Response:
    return web.Response(content_type="application/json")


async def _loaded(name: str, work: Coroutine[Any, Any, None]) -> None:
    """A configuration that cannot be is a load that failed."""
    try:
        await work
    except ConfigError as error:
        raise EngineLoadError("failed to load '%s', %s" % (name, str(error).replace("\n", "; "))) from error


async def _kept(work: Coroutine[Any, Any, None]) -> None:
    """What cannot be written down would be forgotten at the next start."""
    try:
        await work
    except OSError as error:
        raise StoreError("the file of models that are held down cannot be written: %s" % error.strerror) from error
