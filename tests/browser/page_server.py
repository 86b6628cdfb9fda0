"""An agent for the page's tests: the page's own files, and documents that the test sets."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional

from aiohttp import web

from edge_agent.api.pages import load_pages
from tests.browser import page_documents

PICTURE = (Path(__file__).resolve().parents[1] / "data" / "coffee.jpg").read_bytes()
POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'self'"
)


class PageServer:
    """Answers like an agent; its attributes are what the test turns."""

    def __init__(self) -> None:
        self.status: Dict[str, Any] = page_documents.well()
        self.results: List[Dict[str, Any]] = page_documents.results()
        self.events: List[Dict[str, Any]] = page_documents.events()
        self.token = ""  #: asked for when set
        self.refusal: Optional[int] = None  #: every API call is answered with this
        self.refused_paths: Dict[str, int] = {}  #: these are answered so
        self.silent = False  #: connections are closed without an answer
        self.stuck = False  #: questions are taken and never answered
        self.picture_s = 0.0  #: what a picture takes
        self.asked: Counter[str] = Counter()  #: API calls by path
        self.strangers = 0  #: calls refused for want of the token
        self.busy: Counter[str] = Counter()  #: pictures on their way by camera
        self.overlaps = 0
        self.address = ""
        self._pages = load_pages()
        self._runner: Optional[web.AppRunner] = None

    async def start(self) -> None:
        """Listens on a free port."""
        app = web.Application()
        app.router.add_get("/api/cameras/{camera}/snapshot.jpg", self._picture)
        app.router.add_get("/api/{name}", self._api)
        app.router.add_get("/{name:.*}", self._page)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.address = "http://127.0.0.1:%d/" % self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Gives the port back."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _page(self, request: web.Request) -> web.Response:
        page = self._pages[request.match_info["name"] or "index.html"]
        headers = {"Content-Type": page.content_type, "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        return web.Response(body=page.body, headers=headers)

    async def _refused(self, request: web.Request) -> Optional[web.Response]:
        self.asked[request.path] += 1
        if self.stuck:
            await asyncio.Event().wait()
        if self.silent:
            assert request.transport is not None
            request.transport.close()
        refusal = self.refused_paths.get(request.path, self.refusal)
        if refusal is not None:
            return web.json_response({"error": "not for you"}, status=refusal)
        wanted = "Bearer " + self.token
        if self.token and request.path != "/api/codes.json" and request.headers.get("Authorization") != wanted:
            self.strangers += 1
            return self._challenge(request)
        return None

    @staticmethod
    def _challenge(request: web.Request) -> web.Response:
        """As the agent does: who does not say that it is a page gets the browser's own window."""
        assert "X-Requested-With" in request.headers
        return web.json_response({"error": "a token is needed"}, status=401, headers={"WWW-Authenticate": "Bearer"})

    async def _api(self, request: web.Request) -> web.Response:
        refused = await self._refused(request)
        if refused is not None:
            return refused
        answers: Dict[str, Any] = {
            "status": self.status,
            "codes.json": page_documents.codes(),
            "results": {"results": self.results[: int(request.query.get("limit", "100"))], "next": None},
            "events": {"events": self.events[: int(request.query.get("limit", "100"))], "next": None},
        }
        return web.json_response(answers[request.match_info["name"]])

    async def _picture(self, request: web.Request) -> web.Response:
        refused = await self._refused(request)
        if refused is not None:
            return refused
        assert request.query_string == "boxes=1"
        name = request.match_info["camera"]
        self.busy[name] += 1
        self.overlaps += self.busy[name] > 1
        try:
            await asyncio.sleep(self.picture_s)
        finally:
            self.busy[name] -= 1
        return web.Response(body=PICTURE, content_type="image/jpeg")
