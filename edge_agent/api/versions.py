"""What is asked of one version by hand: its plan built and checked, itself promoted or taken back."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Tuple

from aiohttp import web

from edge_agent.api.answers import json_response, printable
from edge_agent.api.repository import model_name
from edge_agent.api.services import Services
from edge_agent.api.unbroken import Unbroken
from edge_agent.errors import InvalidRequest, ModelNotFound, ModelNotReady, UnavailableError

_NUMBER = re.compile(r"[0-9]{1,18}\Z")


class VersionHandlers:
    """In every control mode. Those that change something answer what the status says of it then."""

    def __init__(self, services: Services, unbroken: Unbroken) -> None:
        self._serving = services.serving
        self._to_its_end = unbroken.run
        self._checking = False

    async def build(self, request: web.Request) -> web.Response:
        """Has the plan of a version built anew; answers at once, while that goes on."""
        name, version = _asked(request)
        version = version or self._meant(name)
        await self._to_its_end(self._serving.build_plan(name, version))
        return json_response({"name": name, **self._version(name, version)}, 202)

    async def verify(self, request: web.Request) -> web.Response:
        """Compares the plan that serves with what the model should answer."""
        name, version = _asked(request)
        version = version or self._meant(name)
        figures = await self._to_its_end(self._check(name, version))
        return json_response({"name": name, "version": version, **figures})

    async def promote(self, request: web.Request) -> web.Response:
        """Makes a version serve: the one that is being compared, or the one named."""
        name, version = _asked(request)
        await self._to_its_end(self._serving.promote(name, version))
        return json_response(self._model(name))

    async def roll_back(self, request: web.Request) -> web.Response:
        """Makes the version serve that did before."""
        name, _ = _asked(request, versions=False)
        await self._to_its_end(self._serving.roll_back(name))
        return json_response(self._model(name))

    async def _check(self, name: str, version: Optional[str]) -> Dict[str, Any]:
        """One at a time: each may load a second engine to compare with."""
        if self._checking:
            raise UnavailableError("a plan is being checked already: ask again when that has ended")
        self._checking = True
        try:
            return await self._serving.verify_plan(name, version)
        finally:
            self._checking = False

    def _meant(self, name: str) -> Optional[str]:
        """The version that answers who names none; the newest where none does."""
        try:
            return self._serving.lookup(name).version
        except ModelNotReady:
            return next(reversed(self._serving.versions(name)), None)

    def _model(self, name: str) -> Dict[str, Any]:
        shown = next((model for model in self._serving.status() if model["name"] == name), None)
        if shown is None:
            raise ModelNotFound("model '%s' was taken out of the repository meanwhile" % name)
        return shown

    def _version(self, name: str, version: Optional[str]) -> Dict[str, Any]:
        found = next((one for one in self._model(name)["versions"] if one["version"] == version), None)
        if found is None:
            raise ModelNotFound("version %s of model '%s' was taken down meanwhile" % (version, name))
        return dict(found)


def _asked(request: web.Request, versions: bool = True) -> Tuple[str, Optional[str]]:
    """Model and version. InvalidRequest."""
    name = model_name(request)
    known = ("version",) if versions else ()
    for parameter in request.query:
        if parameter not in known:
            there = "there is 'version'" if known else "it takes none"
            raise InvalidRequest("%s: no such parameter; %s" % (printable(parameter), there))
    given = request.query.getall("version", [])
    if len(given) > 1:
        raise InvalidRequest("version: given %d times, name one" % len(given))
    if given and not _NUMBER.match(given[0]):
        raise InvalidRequest("version: '%s' is not the number of a version, as in 2" % printable(given[0]))
    return name, str(int(given[0])) if given else None
