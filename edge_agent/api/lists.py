"""`/api/results`, `/api/requests`, `/api/events`, `/api/logs`: pages of rows, newest first."""

from __future__ import annotations

import json
from typing import Any, Awaitable, Callable, Dict, List, Optional, Tuple

from aiohttp import web

from edge_agent.api.services import Services
from edge_agent.errors import InvalidRequest
from edge_agent.store import queries

Page = Tuple[List[Dict[str, Any]], Optional[str]]
Query = Callable[..., Page]

KINDS: Dict[str, Query] = {
    "results": queries.results,
    "requests": queries.requests,
    "events": queries.events,
    "logs": queries.logs,
}
PARAMETERS = ("since", "until", "source", "model", "limit", "cursor")
DEFAULT_LIMIT = 100
_MAX_TEXT = 256


class ListHandlers:
    """One handler a table; SQL and JSON are made on the store's reader thread."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handler(self, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        """The handler of `/api/KIND`."""
        query = KINDS[kind]

        async def rows(request: web.Request) -> web.Response:
            asked = _asked(request)
            body = await self._services.store.read(_page_as_json, query, kind, asked)
            return web.Response(body=body, content_type="application/json")

        return rows


def _asked(request: web.Request) -> Dict[str, Any]:
    asked: Dict[str, Any] = {"limit": DEFAULT_LIMIT}
    for name, value in request.query.items():
        if name not in PARAMETERS:
            raise InvalidRequest("%s: no such parameter; there are %s" % (name[:64], ", ".join(PARAMETERS)))
        if len(value) > _MAX_TEXT or "\0" in value:
            raise InvalidRequest("%s: at most %d characters, and no NUL" % (name, _MAX_TEXT))
        asked[name] = _limit(value) if name == "limit" else value
    return asked


def _limit(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 4 and 1 <= int(value) <= queries.LIMIT_MAX):
        raise InvalidRequest("limit: '%s' is not a number from 1 to %d" % (value[:64], queries.LIMIT_MAX))
    return int(value)


def _page_as_json(connection: Any, query: Query, kind: str, asked: Dict[str, Any]) -> bytes:
    """Row by row: a thread that makes one large JSON keeps the loop from running all the while."""
    rows, cursor = query(connection, **asked)
    texts = ",".join([json.dumps(row, separators=(",", ":")) for row in rows])
    return ('{"%s":[%s],"next":%s}' % (kind, texts, json.dumps(cursor))).encode()
