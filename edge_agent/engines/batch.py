"""What passes between the batcher and the instances that run batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, List, Optional, Protocol, Sequence, Tuple, TypeVar, Union

from edge_agent.domain.requests import InferRequest
from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import Lease, Tensor
from edge_agent.errors import EdgeAgentError


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


class BatchItem(Protocol):
    """A request in a batch."""

    @property
    def request(self) -> InferRequest:
        """What is asked."""

    @property
    def rows(self) -> int:
        """Its share of the batch dimension."""


Item = TypeVar("Item", bound=BatchItem)
Answer = Union[Outcome, EdgeAgentError]


@dataclass(eq=False)
class Batch(Generic[Item]):
    """Requests that run together. A request with an answer is never run again."""

    items: Sequence[Item]
    reason: str
    sent_at: float
    rows: int = field(init=False)
    answers: List[Optional[Answer]] = field(init=False)  #: by place in `items`

    def __post_init__(self) -> None:
        self.rows = sum(item.rows for item in self.items)
        self.answers = [None] * len(self.items)


class BatchOwner(Protocol[Item]):
    """Whom an instance tells how a batch ended: once, by one of the two."""

    def finished(self, batch: Batch[Item], ran: Ran) -> None:
        """The batch ran; every place has its answer."""

    def lost(self, batch: Batch[Item], reason: str, suspect: bool = True) -> None:
        """The host ended first; places without an answer did not get one. Not `suspect`: that was not this batch's doing."""
