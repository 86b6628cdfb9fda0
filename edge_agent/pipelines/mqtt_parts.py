"""What the MQTT pipeline needs of the rooms below it; serving, detector, store and connection fit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Protocol, Sequence, Tuple, Union

from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.results import RequestRecord
from edge_agent.domain.status import PartStatus
from edge_agent.domain.tensors import Lease, TensorSpec
from edge_agent.mqtt.message import Message, PublishProperties

Buffer = Union[bytes, bytearray, memoryview]


@dataclass(frozen=True)
class AgentInfo:
    """Who we are, for `{p}/status`."""

    id: str
    title: str
    version: str

    def as_json(self) -> Dict[str, str]:
        """As `{p}/status` shows it."""
        return {"id": self.id, "title": self.title, "version": self.version}


class Labelled(Protocol):
    """The part of a model's configuration that answers need."""

    def labels_of(self, output: str) -> Tuple[str, ...]:
        """Names of an output's classes by index."""


class Served(Protocol):
    """A model version that answers."""

    @property
    def version(self) -> str:
        """Its number."""

    @property
    def max_batch_size(self) -> int:
        """0: the model takes no batch."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """What it expects."""

    @property
    def outputs(self) -> Sequence[TensorSpec]:
        """What it gives."""

    @property
    def config(self) -> Labelled:
        """Its configuration."""


class Serving(Protocol):
    """The door to every model."""

    def lookup(self, name: str, version: Optional[str] = None) -> Served:
        """The version that answers now."""

    async def reserve(
        self, name: str, version: Optional[str], input_bytes: int, timeout_s: float = 1.0
    ) -> Tuple[Lease, Optional[Lease]]:
        """Slots for the tensors and for the outputs."""

    async def infer(self, request: InferRequest) -> InferResponse:
        """Runs one request."""


class Answer(Protocol):
    """What a model saw in a picture."""

    def as_json(self) -> Dict[str, Any]:
        """As the detect answer has it."""


class Detector(Protocol):
    """A picture in, objects out."""

    async def detect(
        self,
        name: str,
        image: bytes,
        *,
        request_id: str = "",
        source: str = "",
        keep: bool = False,
        deadline: Optional[float] = None,
    ) -> Answer:
        """With `keep`, the answer comes when its row is on disk."""


class Bodies(Protocol):
    """Conversions that would hold up the loop."""

    async def json_to_binary(
        self, data: Buffer, header_length: Optional[int], limit: int, hint: str, hold: Callable[[int], None]
    ) -> Tuple[bytearray, int]:
        """An inference request in the binary form, and how much of it is JSON."""

    async def binary_to_json(self, parts: Sequence[Buffer], header_length: int, binary: Sequence[int]) -> Tuple[bytearray, int]:
        """An inference answer in the JSON form but for some outputs, and how much of it is JSON."""


class Store(Protocol):
    """Rows that nobody waits for."""

    def request_done(self, record: RequestRecord) -> None:
        """One request ended."""

    def event(self, kind: str, subject: str = "", *, code: str = "", args: Mapping[str, Any] = {}, text: str = "") -> object:
        """Something worth telling happened."""


class Connection(Protocol):
    """The broker."""

    @property
    def connected(self) -> bool:
        """Whether messages can be sent and are heard."""

    @property
    def version(self) -> str:
        """Protocol version of the connection."""

    @property
    def unsent(self) -> int:
        """Messages handed over and not yet acknowledged."""

    def listen(self, on_message: Callable[[Message], None], on_change: Callable[[PartStatus], None]) -> None:
        """Say who hears."""

    def subscribe(self, topic_filter: str, qos: int) -> None:
        """Hear these topics."""

    def publish(
        self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, properties: Optional[PublishProperties] = None
    ) -> asyncio.Future[None]:
        """Send now or not at all."""

    def status(self) -> PartStatus:
        """What runs, or why not."""

    async def start(self) -> None:
        """Begin to connect."""

    async def stop(self) -> None:
        """Say goodbye."""
