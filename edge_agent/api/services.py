"""What the API needs of the rooms below: handed in, never looked up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple, TypeVar, Union

from prometheus_client import CollectorRegistry

from edge_agent.access.gate import Gate
from edge_agent.config.http import HttpSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.results import RequestRecord
from edge_agent.domain.tensors import Lease
from edge_agent.kserve.served import ServedModel

Answer = TypeVar("Answer")
Buffer = Union[bytes, bytearray, memoryview]

#: what the loop converts by itself; the body child does what is larger
INLINE_BYTES = 65_536


class ServingDoor(Protocol):
    """serving.serving.Serving, as the API uses it."""

    def lookup(self, name: str, version: Optional[str] = None) -> ServedModel:
        """The version that answers now. ModelNotFound, ModelNotReady."""

    def versions(self, name: str) -> List[str]:
        """Versions of a model."""

    def is_ready(self, name: str, version: Optional[str] = None) -> bool:
        """Whether it takes requests."""

    def ready(self) -> bool:
        """Whether every model asked for is loaded or has failed with a reason."""

    async def reserve(
        self, name: str, version: Optional[str], input_bytes: int, timeout_s: float = 1.0
    ) -> Tuple[Lease, Optional[Lease]]:
        """Slots for a request's tensors and its outputs."""

    async def infer(self, request: InferRequest) -> InferResponse:
        """Runs one request."""

    def statistics(self, name: Optional[str] = None, version: Optional[str] = None) -> List[Dict[str, Any]]:
        """Entries of `model_stats`. ModelNotFound."""

    def index(self) -> List[Dict[str, str]]:
        """Every model and version with its state."""

    async def load_model(self, name: str, config: Optional[str] = None, files: Optional[Mapping[str, bytes]] = None) -> None:
        """Loads a model where models are loaded by request. ControlRefused, ModelNotFound, ConfigError, EngineLoadError."""

    async def unload_model(self, name: str, unload_dependents: bool = False) -> None:
        """Takes a model down where models are loaded by request. ControlRefused."""

    async def hold(self, name: str) -> None:
        """Takes a model down in every control mode, over restarts. ModelNotFound, OSError."""

    async def release(self, name: str) -> None:
        """Loads a model in every control mode. ModelNotFound, ConfigError, EngineLoadError, OSError."""

    async def build_plan(self, name: str, version: Optional[str] = None) -> None:
        """Has a TensorRT plan built anew; that goes on then. ModelNotFound, Unsupported, EngineLoadError."""

    async def verify_plan(self, name: str, version: Optional[str] = None) -> Dict[str, Any]:
        """Compares the plan that serves with what the model should answer: `good` and figures. ModelNotFound, Unsupported."""

    async def promote(self, name: str, version: Optional[str] = None) -> None:
        """Makes a version serve. ModelNotFound, InvalidRequest, ControlRefused, EngineLoadError."""

    async def roll_back(self, name: str) -> None:
        """Makes the version serve that did before. ModelNotFound, InvalidRequest, ControlRefused, EngineLoadError."""

    def status(self) -> List[Dict[str, Any]]:
        """`models` of `/api/status`."""


class Detection(Protocol):
    """What the detector answers."""

    def as_json(self) -> Dict[str, Any]:
        """The body of the answer."""


class DetectDoor(Protocol):
    """serving.detect.Detector, as the API uses it."""

    async def detect(
        self,
        name: str,
        image: Buffer,
        *,
        request_id: str = "",
        source: str = "",
        keep: bool = False,
        min_score: float = 0.0,
    ) -> Detection:
        """What the model sees in a picture."""


class BodyDoor(Protocol):
    """cameras.bodies.BodyChild, as the API uses it: conversions that would hold up the loop. RequestError, UnavailableError."""

    async def inflate(self, data: Buffer, coding: str, limit: int, hold: Callable[[int], None]) -> bytearray:
        """A compressed body as plain bytes, at most `limit`; `hold` is told how many."""

    async def deflate(self, data: Buffer, coding: str) -> bytearray:
        """Plain bytes, compressed."""

    async def json_to_binary(
        self, data: Buffer, header_length: Optional[int], limit: int, hint: str, hold: Callable[[int], None]
    ) -> Tuple[bytearray, int]:
        """An inference request in the binary form, and how much of it is JSON."""

    async def binary_to_json(self, parts: Sequence[Buffer], header_length: int, binary: Sequence[int]) -> Tuple[bytearray, int]:
        """An inference answer in the JSON form but for some outputs, and how much of it is JSON."""


class StoreDoor(Protocol):
    """store.store.Store, as the API uses it."""

    async def read(self, function: Callable[..., Answer], *args: Any, **kwargs: Any) -> Answer:
        """What `function(connection, ...)` answers."""

    def request_done(self, record: RequestRecord, sampled: bool = False) -> None:
        """Notes a request; never waits."""

    def event(
        self, kind: str, subject: str = "", actor: str = "self", code: str = "", args: Optional[Mapping[str, Any]] = None
    ) -> bool:
        """Notes an event; never waits."""


class CameraView(Protocol):
    """A configured camera, as people look at it."""

    @property
    def name(self) -> str:
        """Its name."""

    def status(self) -> Dict[str, Any]:
        """Its entry of `/api/status`."""

    async def snapshot(self, boxes: bool) -> bytes:
        """The newest inferred frame as JPEG. SourceUnavailable."""


@dataclass(frozen=True)
class Services:
    """The API's collaborators."""

    http: HttpSection
    metrics_port: int  #: 0 is off
    control_path: Optional[Path]
    serving: ServingDoor
    detector: DetectDoor
    bodies: BodyDoor
    gate: Gate
    store: StoreDoor
    cameras: Mapping[str, CameraView]
    status: Callable[[], Dict[str, Any]]
    registry: CollectorRegistry
    version: str
    clock: Clock
    draining: Callable[[], bool]
