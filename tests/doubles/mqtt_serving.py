"""Doubles of what stands behind the MQTT pipeline: a model that doubles numbers, a detector, a store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple

import numpy as np

from edge_agent import errors
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.domain.results import RequestRecord
from edge_agent.domain.tensors import DataType, Lease, Tensor, TensorSpec


class MemoryLease:
    """A slot in plain memory that knows how often it was given back."""

    segment = 0
    offset = 0

    def __init__(self, nbytes: int) -> None:
        self._memory = bytearray(nbytes)
        self.holders = 1

    @property
    def nbytes(self) -> int:
        return len(self._memory)

    def view(self) -> memoryview:
        assert self.holders > 0, "read after the last release"
        return memoryview(self._memory)

    def retain(self) -> Lease:
        self.holders += 1
        return self

    def release(self) -> None:
        assert self.holders > 0, "released once too often"
        self.holders -= 1


@dataclass(frozen=True)
class DoubleConfig:
    labels: Tuple[str, ...] = ()

    def labels_of(self, output: str) -> Tuple[str, ...]:
        return self.labels


@dataclass(frozen=True)
class DoubleModel:
    """FP32 [-1, 4] in and out; output = 2 x input."""

    version: str = "1"
    max_batch_size: int = 8
    inputs: Tuple[TensorSpec, ...] = (TensorSpec("x", DataType.FP32, (-1, 4)),)
    outputs: Tuple[TensorSpec, ...] = (TensorSpec("y", DataType.FP32, (-1, 4)),)
    config: DoubleConfig = field(default_factory=DoubleConfig)


class DoubleServing:
    """Models by name; writes the rows of its requests as serving does."""

    def __init__(self, store: DoubleStore) -> None:
        self.models: Dict[str, DoubleModel] = {"double": DoubleModel(), "face": DoubleModel()}
        self.leases: List[MemoryLease] = []
        self.requests: List[InferRequest] = []
        self.delay_s = 0.0
        self.error: Optional[Exception] = None
        self._store = store

    def lookup(self, name: str, version: Optional[str] = None) -> DoubleModel:
        if name not in self.models:
            raise errors.ModelNotFound("Request for unknown model: '%s' is not found" % name)
        return self.models[name]

    async def reserve(
        self, name: str, version: Optional[str], input_bytes: int, timeout_s: float = 1.0
    ) -> Tuple[Lease, Optional[Lease]]:
        pair = (MemoryLease(input_bytes), MemoryLease(input_bytes))
        self.leases += pair
        return pair

    async def infer(self, request: InferRequest) -> InferResponse:
        self.requests.append(request)
        await asyncio.sleep(self.delay_s)
        status = self.error.code if isinstance(self.error, errors.EdgeAgentError) else "ok"
        self._store.request_done(
            RequestRecord(request.id, request.model, "1", request.source, "", 0, 1, 0, 0, 0, status, str(self.error or ""))
        )
        if self.error is not None:
            raise self.error
        given = request.inputs[0]
        assert request.room is not None
        doubled = np.frombuffer(given.view(), np.float32) * 2
        request.room.view()[: given.nbytes] = doubled.tobytes()
        output = Tensor("y", DataType.FP32, given.shape, request.room, 0, given.nbytes)
        return InferResponse(request.model, "1", request.id, (output,), None, Timing(), 1)


@dataclass(frozen=True)
class DoubleAnswer:
    body: Mapping[str, Any]

    def as_json(self) -> Dict[str, Any]:
        return dict(self.body)


class DoubleDetector:
    """Finds as many faces as the picture has bytes; `gate` holds answers back until it is set."""

    def __init__(self, store: DoubleStore) -> None:
        self.calls: List[Dict[str, Any]] = []
        self.gate: Optional[asyncio.Event] = None
        self.error: Optional[Exception] = None
        self.draining: Set[str] = set()  #: ids of requests that are told that the agent stops
        self.at_work = 0
        self.most_at_work = 0
        self._store = store

    async def detect(
        self,
        name: str,
        image: bytes,
        *,
        request_id: str = "",
        source: str = "",
        keep: bool = False,
        deadline: Optional[float] = None,
    ) -> DoubleAnswer:
        self.calls.append({"model": name, "id": request_id, "source": source, "keep": keep, "deadline": deadline})
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.error is not None:
                raise self.error
            if request_id in self.draining:
                raise errors.Draining("Server exiting")
            if b"broken" in image:
                raise errors.InvalidRequest("the picture is no picture")
        finally:
            self.at_work -= 1
        self._store.results.append(request_id)
        return DoubleAnswer({"id": request_id, "model": name, "uid": str(len(self._store.results)), "objects": [len(image)]})


class DoubleStore:
    """Remembers rows."""

    def __init__(self) -> None:
        self.results: List[str] = []
        self.records: List[RequestRecord] = []
        self.events: List[Tuple[str, str, str, Mapping[str, Any]]] = []
        self.on_event: Callable[[str], None] = lambda _kind: None

    def request_done(self, record: RequestRecord, sampled: bool = False) -> None:
        self.records.append(record)

    def event(
        self, kind: str, subject: str = "", actor: str = "self", code: str = "", args: Mapping[str, Any] = {}, text: str = ""
    ) -> None:
        self.events.append((kind, subject, code, args))

    def kinds(self) -> List[str]:
        return [event[0] for event in self.events]
