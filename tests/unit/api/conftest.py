"""A running ApiServer over hand-written doubles and the real gate, tokens and store queries."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, AsyncIterator, Callable, Dict, List, Optional

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from edge_agent.access.gate import Gate
from edge_agent.access.tokens import TokenFile
from edge_agent.api.server import ApiServer
from edge_agent.api.services import Services
from edge_agent.cameras.bodies import BodyChild
from edge_agent.config.http import HttpSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.results import RequestRecord
from edge_agent.errors import EdgeAgentError, SourceUnavailable
from tests.doubles.serving import FakeServing


@dataclass
class FakeAnswer:
    """What the detector says."""

    body: Dict[str, Any]

    def as_json(self) -> Dict[str, Any]:
        return self.body


@dataclass
class FakeDetector:
    """Remembers what it was asked."""

    asked: List[Dict[str, Any]] = field(default_factory=list)
    error: Optional[EdgeAgentError] = None

    async def detect(self, name: str, image: Any, **fields: Any) -> FakeAnswer:
        self.asked.append({"model": name, "image": bytes(image), **fields})
        if self.error is not None:
            raise self.error
        return FakeAnswer({"id": fields["request_id"] or "made", "model": name, "objects": []})


class FakeStore:
    """Real queries on a connection to an empty store file; rows and events are remembered."""

    def __init__(self) -> None:
        self.records: List[RequestRecord] = []
        self.events: List[Dict[str, Any]] = []
        self.connection = sqlite3.connect(":memory:")
        for table, at in (("result", "captured_at"), ("request_log", "received_at"), ("event", "at"), ("log", "at")):
            self.connection.execute(
                "CREATE TABLE %s (seq INTEGER PRIMARY KEY, %s TEXT, source TEXT, model TEXT, subject TEXT, logger TEXT,"
                " objects TEXT)" % (table, at)
            )
            for number in range(3):
                row = (
                    number + 1,
                    "2026-11-30T08:00:0%d.000Z" % number,
                    "camera/clip",
                    "face",
                    "clip",
                    "x",
                    '[{"label":"face"}]',
                )
                self.connection.execute("INSERT INTO %s VALUES (?,?,?,?,?,?,?)" % table, row)

    async def read(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self.connection, *args, **kwargs)

    def request_done(self, record: RequestRecord, sampled: bool = False) -> None:
        self.records.append(record)

    def event(self, kind: str, subject: str = "", actor: str = "self", code: str = "", args: Any = None) -> bool:
        self.events.append({"kind": kind, "subject": subject, "actor": actor, "code": code, "args": args})
        return True


@dataclass
class FakeCamera:
    """A camera with one picture, or none."""

    name: str
    picture: Optional[bytes] = b"\xff\xd8jpeg"
    boxes: List[bool] = field(default_factory=list)

    def status(self) -> Dict[str, Any]:
        return {"name": self.name, "state": "ok"}

    async def snapshot(self, boxes: bool) -> bytes:
        self.boxes.append(boxes)
        if self.picture is None:
            raise SourceUnavailable("camera '%s' has no picture yet" % self.name)
        return self.picture


@dataclass
class Api:
    """A server and everything around it."""

    server: ApiServer
    serving: FakeServing
    detector: FakeDetector
    store: FakeStore
    bodies: BodyChild
    cameras: Dict[str, FakeCamera]
    tokens: TokenFile
    client: aiohttp.ClientSession
    draining: List[bool]

    def url(self, path: str) -> str:
        return "http://127.0.0.1:%d%s" % (self.server.port, path)

    async def get(self, path: str, **options: Any) -> aiohttp.ClientResponse:
        return await self.client.get(self.url(path), **options)

    async def post(self, path: str, **options: Any) -> aiohttp.ClientResponse:
        return await self.client.post(self.url(path), **options)


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Polls until the condition holds."""
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, "the condition did not come true"
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def running_api(folder: Path, serving: Optional[FakeServing] = None, **changes: Any) -> AsyncIterator[Api]:
    """A server on a free port; `loopback=False` makes it ask for tokens, other keys are those of `[http]` or Services."""
    loopback = changes.pop("loopback", True)
    services_keys = {key: changes.pop(key) for key in ("metrics_port", "control_path") if key in changes}
    http = HttpSection(**{"port": 0, **changes})
    tokens = TokenFile(folder / "tokens.json", Clock())
    made = serving or FakeServing()
    detector, store = FakeDetector(), FakeStore()
    bodies = BodyChild(made.arena, Clock())
    cameras = {"clip": FakeCamera("clip"), "dark": FakeCamera("dark", None)}
    draining = [False]
    registry = CollectorRegistry()
    Counter("demo_requests", "requests", registry=registry).inc(3)
    services = Services(
        http=http,
        metrics_port=0,
        control_path=None,
        serving=made,
        detector=detector,
        bodies=bodies,
        gate=Gate(tokens, http.allow_anonymous, loopback=loopback),
        store=store,
        cameras=cameras,
        status=lambda: {"agent": {"id": "abc"}},
        registry=registry,
        version="9.9",
        clock=Clock(),
        draining=lambda: draining[0],
    )
    server = ApiServer(replace(services, **services_keys))
    try:
        await server.start()
        async with aiohttp.ClientSession() as client:
            yield Api(server, made, detector, store, bodies, cameras, tokens, client, draining)
    finally:
        await server.stop()
        await bodies.stop()
        made.close()
        store.connection.close()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A server on loopback without tokens."""
    async with running_api(tmp_path) as running:
        yield running
