"""Real sources for cameras, each a process of its own that a test may stop and kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, List, Sequence

import pytest

from edge_agent.cameras.camera import Camera
from edge_agent.cameras.options import CameraOptions
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import FilledFrame, Preprocess
from edge_agent.domain.status import PartStatus
from edge_agent.errors import SourceUnavailable
from edge_agent.processes.arena import Arena

TESTS = Path(__file__).parents[2]
SYSTEM_PYTHON = "/usr/bin/python3"
ASK_GI = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"


class Server:
    """A source in a process of its own, always on the same port."""

    def __init__(self, command: Sequence[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = [part.replace("PORT", str(self.port)) for part in command]
        self._process: Any = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE)
        assert select.select([self._process.stdout], [], [], 30)[0], "the server did not start"
        assert self._process.stdout.readline().startswith(b"ready")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process.stdout.close()
            self._process = None


@pytest.fixture
def mjpeg_server() -> Iterator[Callable[..., Server]]:
    """mjpeg_server(*options) -> a running Server of http://127.0.0.1:PORT/stream.mjpeg."""
    servers: List[Server] = []

    def start(*options: str) -> Server:
        servers.append(Server([sys.executable, str(TESTS / "mjpeg_server.py"), "PORT", *options]))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def _gstreamer() -> None:
    if subprocess.run([SYSTEM_PYTHON, "-c", ASK_GI], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("the system's Python has no GStreamer RTSP server (gir1.2-gst-rtsp-server-1.0, python3-gi)")


@pytest.fixture
def rtsp_server(_gstreamer: None) -> Iterator[Callable[..., Server]]:
    """rtsp_server(*user_and_password) -> a running Server of rtsp://127.0.0.1:PORT/stream."""
    servers: List[Server] = []

    def start(*login: str) -> Server:
        clip = str(TESTS / "data" / "demo-clip.mp4")
        servers.append(Server([SYSTEM_PYTHON, str(TESTS / "rtsp_server.py"), clip, "PORT", *login]))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Tensor memory; every test must have given back what it took."""
    arena = Arena(64 << 20)
    yield arena
    assert arena.status()["slots"] == 0
    arena.close()


@pytest.fixture
def clip() -> str:
    return str(TESTS / "data" / "demo-clip.mp4")


async def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> float:
    """Waits for it and answers how long that took; fails when it does not come true."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout_s, "it did not come true within %g s" % timeout_s
        await asyncio.sleep(0.02)
    return time.monotonic() - started


class Watched:
    """A camera with all the states it told."""

    def __init__(self, options: CameraOptions, arena: Arena, **more: Any) -> None:
        self.told: List[PartStatus] = []
        self.arena = arena
        self.camera = Camera(options, arena, Clock(), self.told.append, **more)

    @property
    def codes(self) -> List[str]:
        """Codes told so far, in order; empty for ok."""
        return [status.code for status in self.told]

    async def code(self, code: str, timeout_s: float = 20.0) -> float:
        """Waits until the state has this code."""
        return await until(lambda: self.camera.status().code == code, timeout_s)

    async def frame(self, newer_than: int = 0, wait_s: float = 10.0) -> FilledFrame:
        preprocess = Preprocess(64, 48)
        (lease,) = await self.arena.acquire([(self.camera.segment, preprocess.nbytes)], 1.0)
        try:
            return await self.camera.fill(lease, preprocess, newer_than, wait_s)
        finally:
            lease.release()

    async def frame_sooner_or_later(self, newer_than: int, timeout_s: float = 30.0) -> FilledFrame:
        """A frame after whatever happens now, as a pipeline gets it that goes on asking."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return await self.frame(newer_than, 1.0)
            except SourceUnavailable:
                assert time.monotonic() < deadline, self.camera.status()

    def kill_child(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.camera.pid, number)


@pytest.fixture
def run_camera(arena: Arena) -> Callable[..., Any]:
    """`async with run_camera(source, **options) as watched:` a started camera."""

    @contextlib.asynccontextmanager
    async def run(source: str, read_password: Any = None, **options: Any) -> AsyncIterator[Watched]:
        watched = Watched(CameraOptions("door", source, **options), arena, read_password=read_password)
        await watched.camera.start()
        try:
            yield watched
        finally:
            await watched.camera.stop()

    return run


@pytest.fixture(name="until")
def _until() -> Callable[..., Awaitable[float]]:
    return until
