"""Around every request: its id, who may ask, and the one table from errors to HTTP statuses."""

from __future__ import annotations

import logging
import re
from typing import Any, Mapping, Optional, Sequence, Tuple, Type

from aiohttp import HttpVersion11, web
from aiohttp.typedefs import Handler

from edge_agent import errors
from edge_agent.api.access import AccessCheck
from edge_agent.api.answers import REQUEST_ID, dress, error_response, new_request_id, printable
from edge_agent.api.bodies import BodySilent
from edge_agent.api.connections import Connection, connection_of
from edge_agent.api.denied import DeniedLog
from edge_agent.api.door import Door

log = logging.getLogger(__name__)

#: the first class that fits decides
STATUSES: Sequence[Tuple[Type[Exception], int]] = (
    (errors.ModelNotFound, 404),
    (errors.PayloadTooLarge, 413),
    (errors.Unsupported, 501),
    (errors.RequestError, 400),
    (errors.UnavailableError, 503),
    (errors.EngineError, 500),
    (errors.ChildError, 503),
    (errors.Unauthenticated, 401),
    (errors.AccessError, 403),
    (errors.CameraError, 503),
    (errors.BrokerError, 503),
    (errors.StoreFull, 507),
    (errors.StoreError, 503),
    (errors.EdgeAgentError, 500),
)
RETRY_AFTER_S = "1"

_SANE_ID = re.compile(r"[\x21-\x7e]{1,128}\Z")
_CHALLENGE = 'Basic realm="edge-agent", charset="UTF-8"'
_BEARER = 'Bearer realm="edge-agent"'


def status_of(error: Exception, overrides: Mapping[Type[Exception], int]) -> int:
    """The HTTP status of an error; a route's own table goes first."""
    for kind, status in (*overrides.items(), *STATUSES):
        if isinstance(error, kind):
            return status
    return 500


class Middleware:
    """The outermost handler: nothing leaves it but answers (and the cancellation of a client that left)."""

    def __init__(self, access: AccessCheck, denied: DeniedLog, door: Door) -> None:
        self._access = access
        self._denied = denied
        self._door = door
        self.unexpected = 0  #: requests that ended with an error nobody foresaw

    async def __call__(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers the request."""
        connection = connection_of(request)
        given = request.headers.get(REQUEST_ID, "")
        client_id = given if _SANE_ID.match(given) else ""
        connection.request_began(client_id)
        request_id = client_id or new_request_id()
        try:
            response = await self._answer(request, handler, connection.listener.kind, request_id)
        finally:
            connection.request_ended()
        if not response.prepared:
            dress(response, request_id)
        return response

    async def _answer(self, request: web.Request, handler: Handler, kind: str, request_id: str) -> web.StreamResponse:
        try:
            if connection_of(request).bad_target:
                raise web.HTTPBadRequest(text="malformed HTTP request: %s" % connection_of(request).bad_target)
            if kind in ("http", "metrics"):
                self._access.check_host(request)
            self._access.check_origin(request)
            if kind == "metrics" and request.path.rstrip("/") != "/metrics":
                raise web.HTTPNotFound
            _check_expectation(request)
            with self._door.passage(request.path):
                return await handler(request)
        except web.HTTPException as exc:
            return _of_aiohttp(request, exc)
        except errors.EdgeAgentError as exc:
            if isinstance(exc, errors.AccessError):
                self._denied.note(request, exc)
            return self._of_ours(request, exc)
        except BodySilent as exc:
            return _closing(error_response(408, str(exc)))
        except web.RequestPayloadError as exc:
            return _closing(error_response(400, "the request body is malformed: %s" % (exc or "bad transfer coding")))
        except ConnectionError:
            raise  # the client left; aiohttp knows
        except Exception:  # noqa: BLE001 - the one place where the unforeseen ends, see docs/architecture.md
            self.unexpected += 1
            text = "request %s (%s %s) failed" % (request_id, request.method, request.path[:128])
            log.exception("%s", text, extra={"code": "http.failed"})
            return error_response(500, "internal error: ask for request id %s in the agent's log" % request_id)

    @staticmethod
    def _of_ours(request: web.Request, error: errors.EdgeAgentError) -> web.Response:
        response = error_response(status_of(error, connection_of(request).call.statuses), str(error))
        if response.status == 503 and not isinstance(error, errors.ControlRefused):  # that would be in vain
            response.headers["Retry-After"] = RETRY_AFTER_S
        if response.status == 401:
            response.headers.add("WWW-Authenticate", _BEARER)
            # a page that asks by itself shows its own form; the browser's would come on top of it
            if "X-Requested-With" not in request.headers:
                response.headers.add("WWW-Authenticate", _CHALLENGE)
        return response if request.content.is_eof() else _closing(response)


def surround(server: web.Server, middleware: Middleware) -> None:
    """Puts the middleware around aiohttp's own handler, not within it: what the router answers by itself is to look alike."""
    router, make = server.request_handler, server.request_factory

    async def outermost(request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.Request)
        return await middleware(request, router)

    def factory(message: Any, content: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        connection: Connection = protocol
        connection.head_received(content)
        try:
            return make(message, content, protocol, writer, task)
        except ValueError as exc:  # of the address: aiohttp 3.10 would leave the client without an answer
            connection.bad_target = str(exc)
            return make(message._replace(url=type(message.url)("/")), content, protocol, writer, task)

    server.request_handler = outermost
    server.request_factory = factory


def _check_expectation(request: web.Request) -> None:
    """The only one there is; before HTTP/1.1 there was none."""
    expected = request.headers.get("Expect", "")
    if expected and expected.lower() != "100-continue" and request.version >= HttpVersion11:
        raise web.HTTPExpectationFailed(
            text="Expect: '%s' is not known here: send 100-continue or nothing" % printable(expected)
        )


def _closing(response: web.Response) -> web.Response:
    """The body was not read to its end: the connection cannot go on."""
    response.force_close()
    return response


def _of_aiohttp(request: web.Request, exc: web.HTTPException) -> web.Response:
    """Errors of aiohttp's own, and those raised with its classes, as JSON; OPTIONS of a known path is no error."""
    allow: Optional[str] = exc.headers.get("Allow")
    if isinstance(exc, web.HTTPMethodNotAllowed) and request.method == "OPTIONS":
        return web.Response(status=204, headers={"Allow": allow or ""})
    default = "%d: %s" % (exc.status, exc.reason)
    text = exc.reason if exc.text in (None, default) else str(exc.text)
    kept = {name: exc.headers[name] for name in ("Allow", "Accept-Encoding", "Retry-After", "Location") if name in exc.headers}
    response = error_response(exc.status, text, kept)
    return response if request.content.is_eof() else _closing(response)
