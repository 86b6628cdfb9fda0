"""What the batcher needs of whoever runs its batches (engines/instance.py does)."""

from __future__ import annotations

from typing import Any, Protocol

from edge_agent.engines.batch import Batch, BatchOwner


class Instance(Protocol):
    """One execution context in a host."""

    @property
    def up(self) -> bool:
        """Whether it takes batches."""

    def may_run_alone(self) -> bool:
        """Whether a batch with reason "retry" can be sent now; if not, the batcher's `room` is called when it can."""

    def send(self, batch: Batch[Any], owner: BatchOwner[Any]) -> None:
        """Hands over a batch; never blocks and never calls the owner before it returns."""
