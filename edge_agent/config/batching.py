"""`[dynamic_batching]` of a model, with Triton's names, meanings and defaults."""

from __future__ import annotations

from typing import Any, Dict, Literal, Tuple

from pydantic import Field, field_validator, model_validator

from edge_agent.config.section import Int32, Section, Uint32, Uint64

_MAX_LEVELS = 1024


class QueuePolicy(Section):
    """What may wait, how many and how long."""

    timeout_action: Literal["REJECT", "DELAY"] = Field(
        "REJECT", description="what becomes of a request that waited too long: it is refused, or comes after all others"
    )
    default_timeout_microseconds: Uint64 = Field(0, description="longest wait in the queue; 0: no bound")
    allow_timeout_override: bool = Field(False, description="a request's own timeout may shorten the wait")
    max_queue_size: Uint32 = Field(0, description="most requests that wait; 0: as many as the agent allows any model")


class DynamicBatching(Section):
    """When waiting requests are sent as one batch."""

    preferred_batch_size: Tuple[Int32, ...] = Field(
        (), description="sizes that are sent without waiting for more; empty: max_batch_size"
    )
    max_queue_delay_microseconds: Uint64 = Field(0, description="longest wait for company")
    preserve_ordering: bool = Field(False, description="answers leave in the order in which the requests came")
    priority_levels: int = Field(0, ge=0, le=_MAX_LEVELS, description="levels of priority, 1 is the highest; 0: none")
    default_priority_level: Uint64 = Field(0, description="level of requests that name none")
    default_queue_policy: QueuePolicy = Field(default_factory=QueuePolicy, description="what may wait, how many and how long")
    priority_queue_policy: Dict[int, QueuePolicy] = Field(default_factory=dict, description="the same for single levels")

    @field_validator("preferred_batch_size")
    @classmethod
    def _positive(cls, sizes: Tuple[int, ...]) -> Tuple[int, ...]:
        if any(size < 1 for size in sizes):
            raise ValueError("each size should be at least 1")
        return tuple(sorted(set(sizes)))

    @model_validator(mode="after")
    def _levels(self) -> Any:
        levels = self.priority_levels
        if levels and not 1 <= self.default_priority_level <= levels:
            raise ValueError("default_priority_level should be from 1 to priority_levels, which is %d" % levels)
        wrong = [level for level in self.priority_queue_policy if not 1 <= level <= levels]
        if wrong:
            raise ValueError(
                "priority_queue_policy: level %d is not from 1 to priority_levels, which is %d" % (wrong[0], levels)
            )
        return self

    def policy(self, level: int) -> QueuePolicy:
        """The queue policy of a priority level; 0 where there are no levels."""
        return self.priority_queue_policy.get(level, self.default_queue_policy)
