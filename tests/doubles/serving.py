"""A serving room without children: models that answer with their inputs, in slots of a real arena."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from edge_agent.config.model_config import ModelConfig
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.domain.tensors import DataType, Lease, Tensor, TensorSpec
from edge_agent.errors import EdgeAgentError, ModelNotFound, ModelNotReady
from edge_agent.processes.arena import Arena


@dataclass
class FakeModel:
    """One version; output i is input i, FP32 doubled."""

    name: str
    inputs: Tuple[TensorSpec, ...]
    outputs: Tuple[TensorSpec, ...]
    max_batch_size: int = 4
    version: str = "1"
    platform: str = "onnxruntime_onnx"
    config: ModelConfig = field(default_factory=ModelConfig)
    ready: bool = True
    gate: Optional[asyncio.Event] = None  #: an answer waits for it
    error: Optional[EdgeAgentError] = None
    fault: Optional[Exception] = None
    running: int = 0
    served: int = 0
    cancelled: int = 0
    build: Optional[Dict[str, Any]] = None

    def as_json(self) -> Dict[str, Any]:
        """As the status has it."""
        version: Dict[str, Any] = {"version": self.version, "engine": "onnxruntime", "state": "ok" if self.ready else "off"}
        return {"name": self.name, "versions": [version if self.build is None else {**version, "build": self.build}]}

    def config_json(self) -> Dict[str, Any]:
        """As the real one."""
        return self.config.triton_json(self.name, self.platform, self.max_batch_size, self.inputs, self.outputs)


def identity(name: str, datatype: DataType, shape: Tuple[int, ...], max_batch_size: int = 4, **fields: Any) -> FakeModel:
    """A model X -> Y of one datatype and shape."""
    return FakeModel(name, (TensorSpec("X", datatype, shape),), (TensorSpec("Y", datatype, shape),), max_batch_size, **fields)


def usual_models() -> List[FakeModel]:
    """One model for each thing that tests ask for."""
    pair = (TensorSpec("A", DataType.FP32, (-1, 2)), TensorSpec("B", DataType.BYTES, (-1, 2)))
    classes = identity("classes", DataType.FP32, (-1, 3))
    classes.config = ModelConfig().read_beside(("cat", "dog"), ())
    return [
        identity("demo", DataType.FP32, (-1, 2)),
        identity("half", DataType.FP16, (-1, 2)),
        identity("flags", DataType.BOOL, (-1, -1)),
        identity("text", DataType.BYTES, (-1, 1)),
        identity("large", DataType.UINT8, (-1,), 0),
        identity("empty", DataType.FP32, (-1, -1)),
        FakeModel("pair", pair, (TensorSpec("YA", DataType.FP32, (-1, 2)), TensorSpec("YB", DataType.BYTES, (-1, 2)))),
        classes,
        identity("sleeping", DataType.FP32, (-1, 2), ready=False),
    ]


class FakeServing:
    """serving.serving.Serving's door for tests; `arena` tells whether every slot came back."""

    def __init__(self, models: Optional[List[FakeModel]] = None, arena_bytes: int = 64 * 2**20) -> None:
        self.models: Dict[str, FakeModel] = {model.name: model for model in models or usual_models()}
        self.arena = Arena(arena_bytes)
        self.segment = self.arena.segment("host")
        self.all_ready = True
        self.requests: List[InferRequest] = []
        self.reserved = 0
        self.on_infer: Callable[[InferRequest], None] = lambda request: None
        self.control: List[Tuple[Any, ...]] = []  #: what was asked of load, unload, hold, release
        self.control_error: Optional[Exception] = None
        self.control_gate: Optional[asyncio.Event] = None

    @property
    def slots(self) -> int:
        """Slots in use."""
        return int(self.arena.status()["slots"])

    def close(self) -> None:
        """Closes the arena."""
        self.arena.close()

    def lookup(self, name: str, version: Optional[str] = None) -> FakeModel:
        """As the real one."""
        model = self.models.get(name)
        if model is None or version not in (None, model.version):
            raise ModelNotFound("Request for unknown model: '%s' is not found" % name)
        if not model.ready:
            raise ModelNotReady("Request for model '%s' version 1 is not at ready state" % name)
        return model

    def versions(self, name: str) -> List[str]:
        """As the real one."""
        return [self.models[name].version]

    def is_ready(self, name: str, version: Optional[str] = None) -> bool:
        """As the real one."""
        try:
            self.lookup(name, version)
        except ModelNotReady:
            return False
        return True

    def ready(self) -> bool:
        """As set."""
        return self.all_ready

    def statistics(self, name: Optional[str] = None, version: Optional[str] = None) -> List[Dict[str, Any]]:
        """Name and version only."""
        models = [self.lookup(name, version)] if name is not None else list(self.models.values())
        return [{"name": model.name, "version": model.version} for model in models]

    def index(self) -> List[Dict[str, str]]:
        """As the real one."""
        states = {True: {"state": "READY"}, False: {"state": "UNAVAILABLE", "reason": "unloaded"}}
        return [{"name": model.name, "version": model.version, **states[model.ready]} for model in self.models.values()]

    async def load_model(self, name: str, config: Optional[str] = None, files: Optional[Mapping[str, bytes]] = None) -> None:
        """Remembered."""
        await self._controlled("load", name, config, dict(files or {}))

    async def unload_model(self, name: str, unload_dependents: bool = False) -> None:
        """Remembered."""
        await self._controlled("unload", name, unload_dependents)

    async def hold(self, name: str) -> None:
        """Remembered."""
        await self._controlled("hold", name)

    async def release(self, name: str) -> None:
        """Remembered."""
        await self._controlled("release", name)

    async def build_plan(self, name: str, version: Optional[str] = None) -> None:
        """Remembered; the build of a known model is under way then."""
        await self._controlled("build", name, version)
        if name in self.models:
            self.models[name].build = {"state": "queued", "phase": "", "percent": 0.0, "eta_s": None, "tries": 0}

    async def verify_plan(self, name: str, version: Optional[str] = None) -> Dict[str, Any]:
        """Remembered."""
        await self._controlled("verify", name, version)
        return {"good": True, "code": "", "reason": "", "compared": 3, "max_abs_error": 0.001}

    async def promote(self, name: str, version: Optional[str] = None) -> None:
        """Remembered."""
        await self._controlled("promote", name, version)

    async def roll_back(self, name: str) -> None:
        """Remembered."""
        await self._controlled("roll_back", name)

    def status(self) -> List[Dict[str, Any]]:
        """Names, versions and builds."""
        return [model.as_json() for model in self.models.values()]

    async def _controlled(self, *asked: Any) -> None:
        if self.control_gate is not None:
            await self.control_gate.wait()
        if self.control_error is not None:
            raise self.control_error
        self.control.append(asked)

    async def reserve(
        self, name: str, version: Optional[str], input_bytes: int, timeout_s: float = 1.0
    ) -> Tuple[Lease, Optional[Lease]]:
        """Slots for the inputs and as much for the outputs."""
        self.lookup(name, version)
        leases = await self.arena.acquire([(self.segment, input_bytes), (self.segment, input_bytes)], timeout_s)
        self.reserved += 1
        return leases[0], leases[1]

    async def infer(self, request: InferRequest) -> InferResponse:
        """Inputs to outputs, behind the model's gate."""
        model = self.lookup(request.model, request.version)
        self.requests.append(request)
        self.on_infer(request)
        assert request.room is not None
        room = request.room.retain()  # as the batcher does: a caller that leaves does not free what the host writes to
        model.running += 1
        try:
            if model.gate is not None:
                await model.gate.wait()
            if model.fault is not None:
                raise model.fault
            if model.error is not None:
                raise model.error
            outputs = _run(model, request, room)
            model.served += 1
        except asyncio.CancelledError:
            model.cancelled += 1
            raise
        finally:
            model.running -= 1
            room.release()
        return InferResponse(model.name, model.version, request.id, outputs, None, Timing(infer_us=1), 1)


def _run(model: FakeModel, request: InferRequest, room: Lease) -> Tuple[Tensor, ...]:
    by_name = {tensor.name: tensor for tensor in request.inputs}
    outputs = []
    for spec_in, spec_out in zip(model.inputs, model.outputs):
        given = by_name[spec_in.name]
        target = room.view()[given.start : given.start + given.nbytes]
        if spec_out.datatype is DataType.FP32:
            target[:] = (np.frombuffer(given.view(), "<f4") * 2).astype("<f4").tobytes()
        else:
            target[:] = given.view()
        outputs.append(Tensor(spec_out.name, spec_out.datatype, given.shape, room, given.start, given.nbytes))
    return tuple(outputs)
