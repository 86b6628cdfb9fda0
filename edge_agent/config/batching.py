"""`[dynamic_batching]` of a model, with Triton's names, meanings and defaults."""

from __future__ import annotations

from typing import Literal, Tuple

from pydantic import Field, field_validator

from edge_agent.config.section import Count, Section


class QueuePolicy(Section):
    """What may wait, how many and how long."""

    timeout_action: Literal["REJECT"] = Field(
        "REJECT", description="what becomes of a request that waited too long: it is refused"
    )
    default_timeout_microseconds: Count = Field(0, description="longest wait in the queue; 0: no bound")
    allow_timeout_override: bool = Field(False, description="a request's own timeout may shorten the wait")
    max_queue_size: Count = Field(0, description="most requests that wait; 0: as many as the agent allows any model")


class DynamicBatching(Section):
    """When waiting requests are sent as one batch."""

    preferred_batch_size: Tuple[int, ...] = Field(
        (), description="sizes that are sent without waiting for more; empty: max_batch_size"
    )
    max_queue_delay_microseconds: Count = Field(0, description="longest wait for company")
    default_queue_policy: QueuePolicy = Field(default_factory=QueuePolicy, description="what may wait, how many and how long")

    @field_validator("preferred_batch_size")
    @classmethod
    def _positive(cls, sizes: Tuple[int, ...]) -> Tuple[int, ...]:
        if any(size < 1 for size in sizes):
            raise ValueError("each size should be at least 1")
        return tuple(sorted(set(sizes)))
