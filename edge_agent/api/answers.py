"""Bodies of answers: JSON, errors, compression."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import zlib
from typing import Any, Dict, Mapping, Optional, Union

from aiohttp import web

from edge_agent.api.services import INLINE_BYTES, BodyDoor
from edge_agent.errors import EdgeAgentError

REQUEST_ID = "X-Request-Id"
#: headers that every answer has, those included that no handler made
ALWAYS = (
    ("Server", "edge-agent"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    (
        "Content-Security-Policy",
        "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "form-action 'self'",
    ),
)
#: smaller bodies are sent as they are
_WORTH_COMPRESSING = 256
_LEVEL = 1
_CODINGS = ("gzip", "deflate", "identity")  #: the first wins a tie

_RUN = os.urandom(4).hex()
_numbers = itertools.count(1)


def new_request_id() -> str:
    """An id for a request whose client gave none; different in each run."""
    return "%s-%x" % (_RUN, next(_numbers))


def dress(response: web.StreamResponse, request_id: str) -> None:
    """Puts the headers on that every answer has; what the handler set stays."""
    response.headers[REQUEST_ID] = request_id
    for name, value in ALWAYS:
        response.headers.setdefault(name, value)


def printable(text: str, longest: int = 64) -> str:
    """A client's text as an error may repeat it; bytes that are no text are spelled out."""
    return text[:longest].encode("utf-8", "backslashreplace").decode()


def json_bytes(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def json_response(value: Any, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=json_bytes(value), status=status, content_type="application/json")


def error_response(status: int, text: str, headers: Optional[Mapping[str, str]] = None) -> web.Response:
    """`{"error": text}`, as every error of this server looks."""
    return web.Response(body=json_bytes({"error": text}), status=status, content_type="application/json", headers=headers)


def choose_coding(accepted: str) -> str:
    """gzip, deflate or identity, by the quality values of an Accept-Encoding header."""
    if not accepted:
        return "identity"
    qualities: Dict[str, float] = {}
    for item in accepted.lower().split(","):
        coding, _, parameter = item.strip().partition(";")
        qualities[coding.strip()] = _quality(parameter)
    rest = qualities.get("*", 0.0)
    return max(_CODINGS, key=lambda coding: qualities.get(coding, rest if coding != "identity" else 0.001))


def _quality(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return min(max(float(value), 0.0), 1.0)
    except ValueError:
        return 0.0


def _compress(body: Union[bytes, bytearray], coding: str) -> bytes:
    return gzip.compress(body, _LEVEL) if coding == "gzip" else zlib.compress(body, _LEVEL)


async def coded_response(
    body: Union[bytes, bytearray], content_type: str, headers: Mapping[str, str], accepted: str, bodies: BodyDoor
) -> web.Response:
    """An answer in the coding that the client likes best; plain when it cannot be compressed now."""
    coding = choose_coding(accepted) if len(body) >= _WORTH_COMPRESSING else "identity"
    if coding != "identity":
        packed = await _packed(body, coding, bodies)
        if packed is not None:
            body, headers = packed, {**headers, "Content-Encoding": coding, "Vary": "Accept-Encoding"}
    return web.Response(body=body, content_type=content_type, headers=headers)


async def _packed(body: Union[bytes, bytearray], coding: str, bodies: BodyDoor) -> Union[bytes, bytearray, None]:
    if len(body) <= INLINE_BYTES:
        return _compress(body, coding)
    try:
        return await bodies.deflate(body, coding)
    except EdgeAgentError:
        return None
