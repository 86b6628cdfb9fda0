"""`/api/openapi.json`, made of the routes that exist."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Dict, List, Sequence

from edge_agent.api import bodies
from edge_agent.api.answers import json_bytes
from edge_agent.api.route import JSON, Route
from edge_agent.api.schemas import SCHEMAS

_NAMES = re.compile(r"\{(\w+)(?::[^{}]*)?\}")
_QUERY: Dict[str, Dict[str, Any]] = {
    "since": {"type": "string", "description": "RFC 3339, or 15m, 1h, 2d ago"},
    "until": {"type": "string", "description": "like since"},
    "source": {
        "type": "string",
        "description": "camera/NAME, http/NAME, mqtt/MODEL; of events camera/NAME or a subject, of logs a logger; "
        "with detect: keep the result under this name",
    },
    "model": {"type": "string", "description": "NAME; of events also NAME/VERSION; log lines have none"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
    "cursor": {"type": "string", "description": "`next` of the page before"},
    "boxes": {"type": "string", "enum": ["0", "1"], "description": "1 draws what was seen"},
    "min_score": {"type": "number", "minimum": 0, "maximum": 1},
    "version": {
        "type": "string",
        "pattern": "^[0-9]+$",
        "description": "silent: the version that serves, with promote the one that is being compared with it",
    },
}
_BODY = (
    "At most http.max_body_bytes, also when inflated. It is to be whole within %g s and a second more for each %d bytes, and "
    "without a pause of more than %g s: otherwise 408. While memory for bodies is short, one that does not keep coming is "
    "answered 503."
)
_ERROR = {
    "description": "What is wrong, with what, and what to do",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


def openapi_path(path: str) -> str:
    """A router's path without patterns."""
    return _NAMES.sub(r"{\1}", path)


def openapi_document(routes: Sequence[Route], version: str) -> bytes:
    """The document as JSON."""
    paths: Dict[str, Dict[str, Any]] = {}
    for route in routes:
        if route.is_api:
            paths.setdefault(openapi_path(route.path), {})[route.method.lower()] = _operation(route)
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}, "basic": {"type": "http", "scheme": "basic"}}
    return json_bytes(
        {
            "openapi": "3.0.3",
            "info": {"title": "edge-agent", "version": version},
            "paths": paths,
            "components": {"schemas": SCHEMAS, "securitySchemes": schemes},
        }
    )


def _operation(route: Route) -> Dict[str, Any]:
    described: Dict[str, Any] = {
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": {
            str(route.status): {"description": HTTPStatus(route.status).phrase, "content": {route.answers: {}}},
            "default": _ERROR,
        },
        "security": [] if route.permission is None else [{"bearer": []}, {"basic": []}],
    }
    if route.takes:
        described["requestBody"] = {
            "required": route.body_required,
            "description": _BODY % (bodies.TIME_LIMIT_S, bodies.PACE_BYTES, bodies.SILENCE_LIMIT_S),
            "content": {kind: _content(kind, route) for kind in route.takes},
        }
    return described


def _content(kind: str, route: Route) -> Dict[str, Any]:
    return {"schema": {"$ref": "#/components/schemas/" + route.body}} if kind == JSON and route.body else {}


def _parameters(route: Route) -> List[Dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in _NAMES.findall(route.path)
    ]
    return in_path + [{"name": name, "in": "query", "schema": _QUERY[name]} for name in route.query]
