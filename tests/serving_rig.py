"""A real Serving with real engine hosts on a repository of tiny models, and how a test asks it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import Any, AsyncIterator, Dict, List, Optional, Tuple

import numpy

from edge_agent.config.hosts import HostSection
from edge_agent.config.models import ModelsSection
from edge_agent.config.response_cache import ResponseCacheSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.results import Detection, RequestRecord
from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.processes.arena import Arena
from edge_agent.serving.cache_shelf import Shelf
from edge_agent.serving.healing.surroundings import Surroundings
from edge_agent.serving.promotion.board import Board
from edge_agent.serving.serving import Serving
from edge_agent.telemetry.metrics import Metrics

MODELS = Path(__file__).parent / "models"

#: a decoder that does what the first output value says: 13 hangs, 14 ends the process, 15 hangs with the lock held
TRICKS = """
import ctypes, os, time

class Decoder:
    def __init__(self, config):
        self.config = config

    def decode(self, outputs):
        return [self.one(row) for row in outputs["scores"]]

    def one(self, row):
        value = float(row[0])
        if value == 13.0:
            time.sleep(1000)
        if value == 14.0:
            os._exit(3)
        if value == 15.0:
            ctypes.PyDLL(None).sleep(1000)
        if value == 16.0:
            raise ValueError("sixteen")
        return [{"label": "%g" % value, "score": 1.0, "box": None}]
"""


class KeptJournal:
    """Keeps what serving tells the store."""

    def __init__(self) -> None:
        self.requests: List[RequestRecord] = []
        self.events: List[Tuple[str, str, str]] = []
        self.versions: Dict[Tuple[str, str], str] = {}
        self.metrics: Dict[Tuple[str, str], Any] = {}

    def request_done(self, record: RequestRecord, sampled: bool = False) -> None:
        self.requests.append(record)

    def event(
        self, kind: str, subject: str = "", actor: str = "self", code: str = "", args: Any = None, text: str = ""
    ) -> None:
        self.events.append((kind, subject, code))

    def model_version(
        self, name: str, version: str, platform: str, sha256: str, state: str, load_ms: int, error: str, metrics: Any = None
    ) -> None:
        self.versions[(name, version)] = state
        self.metrics[(name, version)] = metrics


def add_model(repository: Path, name: str, file: str, config: str = "", version: int = 1) -> Path:
    """Copies a tiny model into a repository; answers its folder."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True)
    shutil.copy(MODELS / file, folder / "model.onnx")
    if config:
        (repository / name / "config.toml").write_text(config)
    return repository / name


def add_tricks(repository: Path, name: str = "tricks", config: str = "max_batch_size = 8\n") -> None:
    """A model whose decoder can hang or end its host: see `picture`."""
    folder = add_model(repository, name, "mean_colour.onnx", config + '[decode]\nkind = "python:tricks:Decoder"\n')
    (folder / "tricks.py").write_text(TRICKS)


def picture(value: float) -> Any:
    """An input of the tricks model whose mean is `value`; that is what its decoder gets, and labels the answer with."""
    return numpy.full((1, 3, 8, 8), value, numpy.float32)


class Rig:
    """Serving with what it needs."""

    def __init__(
        self,
        repository: Path,
        hosts: Optional[Dict[str, HostSection]] = None,
        arena_bytes: int = 64 << 20,
        more: Tuple[Path, ...] = (),
        state_dir: Optional[Path] = None,
        cache: Optional[ResponseCacheSection] = None,
        shelf: Optional[Shelf] = None,
        board: Optional[Board] = None,
        surroundings: Optional[Surroundings] = None,
        **section: Any,
    ) -> None:
        self.clock = Clock()
        self.arena = Arena(arena_bytes)
        self.metrics = Metrics()
        self.journal = KeptJournal()
        models = ModelsSection(repository=(repository, *more), **section)
        told = (self.metrics, self.journal, state_dir, cache, shelf, board, surroundings)
        self.serving = Serving(models, hosts or {}, self.arena, self.clock, *told)

    async def ask(self, model: str, *arrays: Any, decode: bool = False, names: Tuple[str, ...] = ("x",), **fields: Any) -> Any:
        """The first output as an array, or the detections."""
        response, outputs = await self.ask_all(model, *arrays, decode=decode, names=names, **fields)
        return response.detections if decode else next(iter(outputs.values()))

    async def ask_all(
        self, model: str, *arrays: Any, decode: bool = False, names: Tuple[str, ...] = ("x",), **fields: Any
    ) -> Tuple[InferResponse, Dict[str, Any]]:
        """The response and its outputs, copied."""
        lease, room = await self.serving.reserve(model, None, sum(array.nbytes for array in arrays))
        try:
            inputs, at = [], 0
            for name, array in zip(names, arrays):
                lease.view()[at : at + array.nbytes] = array.tobytes()
                inputs.append(Tensor(name, DataType(KSERVE[array.dtype.name]), array.shape, lease, at, array.nbytes))
                at += array.nbytes
            request = InferRequest(model, tuple(inputs), room=None if decode else room, decode=decode, **fields)
            response = await self.serving.infer(request)
            try:
                outputs = {
                    tensor.name: numpy.frombuffer(bytes(tensor.view()), NUMPY[tensor.datatype.value]).reshape(tensor.shape)
                    for tensor in response.outputs
                }
            finally:
                response.release()
            return response, outputs
        finally:
            lease.release()
            if room is not None:
                room.release()

    async def until_ready(self, model: str, timeout_s: float = 20.0) -> None:
        """Waits until the model takes requests."""
        end = self.clock.monotonic() + timeout_s
        while not self.serving.is_ready(model):
            assert self.clock.monotonic() < end, self.serving.status()
            await asyncio.sleep(0.02)

    async def kill_host(self, name: str = "cpu") -> None:
        """Ends an engine host at once, and waits until the agent knows."""
        pid = self.host_pid(name)
        os.kill(pid, signal.SIGKILL)
        end = self.clock.monotonic() + 20.0
        while self.host_pid(name) == pid:
            assert self.clock.monotonic() < end, self.serving.status()
            await asyncio.sleep(0.002)

    def host_pid(self, name: str = "cpu") -> int:
        """Process of an engine host."""
        return next(host["pid"] for host in self.serving.host_status() if host["name"] == name)


KSERVE = {"float32": "FP32", "float16": "FP16", "int64": "INT64", "uint8": "UINT8"}
NUMPY = {value: key for key, value in KSERVE.items()}


def label(detections: Any) -> str:
    """The only detection's label."""
    (seen,) = detections
    assert isinstance(seen, Detection)
    return seen.label


@contextlib.asynccontextmanager
async def running(repository: Path, **options: Any) -> AsyncIterator[Rig]:
    """A rig whose models are loaded (or failed); nothing is left of it afterwards."""
    rig = Rig(repository, **options)
    await rig.serving.start()
    try:
        await asyncio.wait_for(rig.serving.settled(), 30)
        yield rig
    finally:
        await rig.serving.stop()
        assert rig.arena.status()["slots"] == 0
