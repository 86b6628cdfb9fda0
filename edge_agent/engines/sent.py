"""A batch that a host holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from edge_agent.domain.tensors import Lease
from edge_agent.engine_host import wire
from edge_agent.engines.batch import Batch, BatchOwner
from edge_agent.errors import EdgeAgentError


@dataclass(eq=False)
class Sent:
    """From the moment it is sent until every request of it has its answer."""

    number: int
    batch: Batch[Any]
    owner: BatchOwner[Any]
    held: List[Lease]  #: slots that the host may read or write until it has answered
    shapes: Tuple[Any, ...]
    times: Optional[wire.Times] = None  #: set by the last message
    extra: Dict[int, Lease] = field(default_factory=dict)  #: slots given for outputs that did not fit, by place

    @property
    def callers(self) -> FrozenSet[str]:
        """Instances of Python models that wait for it."""
        return frozenset(one for item in self.batch.items for one in item.request.callers)

    @property
    def answered(self) -> bool:
        """Whether nothing is missing."""
        return self.times is not None and None not in self.batch.answers

    def answer_rest(self, error: EdgeAgentError) -> None:
        """Whoever has no answer yet gets this one."""
        self.batch.answers[:] = [error if answer is None else answer for answer in self.batch.answers]

    def let_go(self) -> None:
        """Nobody reads or writes its slots any more."""
        for lease in (*self.held, *self.extra.values()):
            lease.release()
