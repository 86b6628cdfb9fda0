"""When a batch is sent and how much of the queue is in it: pure, in Triton's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple


@dataclass(frozen=True)
class BatchPolicy:
    """A model's `dynamic_batching`, resolved. Sizes are rows, times seconds."""

    max_batch_size: int = 1
    preferred_batch_sizes: Tuple[int, ...] = ()
    max_queue_delay_s: float = 0.0
    max_queue_size: int = 1024  #: requests; one more is refused
    max_requests: int = 4096  #: that can be handed over as one batch, whatever their rows

    def __post_init__(self) -> None:
        if self.max_batch_size < 1:
            raise ValueError("max_batch_size must be at least 1, not %d" % self.max_batch_size)


@dataclass(frozen=True)
class Decision:
    """Send the first `take` requests (reason says why), or look again at `wait_until`."""

    take: int = 0
    reason: str = ""
    wait_until: Optional[float] = None


def _fitting(rows: Sequence[int], limit: int) -> Tuple[int, int]:
    """How many leading requests fit into `limit` rows, and their rows."""
    total = 0
    for count, size in enumerate(rows):
        if total + size > limit:
            return count, total
        total += size
    return len(rows), total


def _preferred(policy: BatchPolicy, rows: Sequence[int]) -> int:
    """Requests that make the largest preferred size exactly; 0 when none is met."""
    total, best = 0, 0
    for count, size in enumerate(rows, 1):
        total += size
        if total > policy.max_batch_size:
            break
        if total in policy.preferred_batch_sizes:
            best = count
    return best


def decide(policy: BatchPolicy, rows: Sequence[int], oldest_at: float, now: float, others_wait: bool = False) -> Decision:
    """What to do for requests of one shape, oldest first; an instance has room.

    Args:
        policy: the model's.
        rows: rows of each waiting request; at least one, none over `max_batch_size`.
        oldest_at: when the first of them came, monotonic seconds.
        now: monotonic seconds.
        others_wait: requests of another shape wait behind these, so company for these is not waited for.
    """
    rows = rows[: policy.max_requests]
    count, total = _fitting(rows, policy.max_batch_size)
    if total == policy.max_batch_size or count < len(rows) or count == policy.max_requests:
        return Decision(count, "full")
    preferred = _preferred(policy, rows)
    if preferred:
        return Decision(preferred, "preferred")
    if policy.max_queue_delay_s <= 0:
        return Decision(count, "idle")
    if others_wait:
        return Decision(count, "other_shape")
    due = oldest_at + policy.max_queue_delay_s
    if now >= due:
        return Decision(count, "delay")
    return Decision(wait_until=due)
