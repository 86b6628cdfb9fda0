"""What passes between the batcher and whoever runs batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional, Protocol, Tuple

from edge_agent.batching.queue import Pending
from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import Lease, Tensor


@dataclass(frozen=True)
class Outcome:
    """One request's part of a batch that ran."""

    outputs: Tuple[Tensor, ...] = ()
    detections: Optional[Tuple[Detection, ...]] = None
    kept: Tuple[Lease, ...] = ()  #: slots given for outputs that did not fit the request's own


@dataclass(frozen=True)
class Ran:
    """A whole batch as the host timed it, seconds."""

    input_s: float
    infer_s: float
    output_s: float


@dataclass(eq=False)
class Batch:
    """Requests that run together. `answers` fills as they come; a request that has one is never run again."""

    items: List[Pending]
    reason: str
    sent_at: float
    rows: int = field(init=False)
    answers: List[Optional[object]] = field(init=False)  #: Outcome or exception, by place

    def __post_init__(self) -> None:
        self.rows = sum(item.rows for item in self.items)
        self.answers = [None] * len(self.items)


class BatchOwner(Protocol):
    """Whom an instance tells how its batches end: each exactly once, by one of the two."""

    def finished(self, batch: Batch, ran: Ran) -> None:
        """The batch ran; `batch.answers` holds an Outcome or an EdgeAgentError for each place."""

    def lost(self, batch: Batch, reason: str) -> None:
        """The host ended first; places without an answer did not get one."""

    def room(self) -> None:
        """The instance may take a batch again (it came up, or one ended)."""


class Instance(Protocol):
    """One execution context in a host, seen from the batcher."""

    @property
    def up(self) -> bool:
        """Whether it takes batches."""

    def send(self, batch: Batch, owner: BatchOwner) -> None:
        """Hands over a batch; never blocks. An error to send is a `lost`, later."""
