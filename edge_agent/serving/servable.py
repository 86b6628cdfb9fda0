"""What the door needs of whatever answers for a version of a model: an engine's version, or an ensemble."""

from __future__ import annotations

from typing import Any, Dict, Optional, Protocol, Tuple

from edge_agent.config.model_config import ModelConfig
from edge_agent.domain.frames import Preprocess
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.status import PartStatus
from edge_agent.domain.tensors import TensorSpec
from edge_agent.errors import EdgeAgentError
from edge_agent.processes.arena import Segment
from edge_agent.serving.room import RoomWish
from edge_agent.serving.statistics import VersionStatistics


class Servable(Protocol):
    """One version of a model."""

    name: str
    version: str
    platform: str
    engine: str
    config: ModelConfig
    inputs: Tuple[TensorSpec, ...]
    outputs: Tuple[TensorSpec, ...]
    max_batch_size: int
    preprocess: Optional[Preprocess]
    statistics: VersionStatistics
    sha256: str

    @property
    def part(self) -> PartStatus:
        """Its state."""

    @property
    def label(self) -> str:
        """`NAME/VERSION`."""

    @property
    def decodes(self) -> bool:
        """Whether it answers with detections when asked to."""

    @property
    def ready(self) -> bool:
        """Whether requests are taken now."""

    @property
    def settled(self) -> bool:
        """Not loading any more."""

    @property
    def load_ms(self) -> int:
        """How long its loading took."""

    @property
    def pending(self) -> int:
        """Requests that wait."""

    @property
    def segment(self) -> Segment:
        """Where the tensors of its requests must lie, if they do not lie in a shared segment."""

    @property
    def room_is_known(self) -> bool:
        """Whether `room_for` is exact."""

    def room_for(self, input_bytes: int) -> int:
        """Bytes to keep for the outputs of a request of `input_bytes`."""

    def room_wish(self, input_bytes: int) -> RoomWish:
        """All slots that such a request needs beside its input's."""

    def room_at(self, now: float) -> float:
        """When one more request would begin to run, monotonic seconds."""

    async def share(self, segment: Segment, writable: bool = False) -> None:
        """Lets it read tensors that lie in `segment`, or write them, too."""

    async def infer(self, request: InferRequest) -> InferResponse:
        """Runs one request."""

    def close(self, error: EdgeAgentError) -> None:
        """No new requests; those that wait end with `error`."""

    async def retire(self) -> None:
        """Ends what runs, then gives back what it holds."""

    def as_json(self) -> Dict[str, Any]:
        """An entry of `versions` in `/api/status`."""

    def config_json(self) -> Dict[str, Any]:
        """The completed ModelConfig in Triton's JSON form."""
