"""One address of the API: what the router, the access checks and the OpenAPI document know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Awaitable, Callable, Mapping, Tuple, Type, Union

from aiohttp import web

from edge_agent.access.roles import Permission

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Needs = Union[Permission, None, Callable[[web.Request], Permission]]

JSON = "application/json"


@dataclass(frozen=True)
class Route:
    """One method and path, what it needs and what it is."""

    method: str
    path: str  #: with `{name}` or `{name:pattern}`
    handler: Handler
    permission: Needs  #: None: no token needed
    summary: str
    answers: str = JSON  #: content type of a success
    status: int = 200  #: of a success
    takes: Tuple[str, ...] = ()  #: content types of the body
    body: str = ""  #: of JSON: its name in schemas.py
    body_required: bool = True
    query: Tuple[str, ...] = ()
    statuses: Mapping[Type[Exception], int] = field(default_factory=dict)  #: where it differs from the one table

    @property
    def is_api(self) -> bool:
        """Whether the OpenAPI document describes it; the page's files are no API."""
        return self.path.startswith(("/v2", "/api", "/metrics"))
