"""When a batch is sent and how much of the queue is in it: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple

from edge_agent.batching.policy import BatchPolicy

#: a batch is sent this long before a member would expire: what a wake-up may come late on a busy board
_EARLY_S = 0.005


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


def decide(
    policy: BatchPolicy,
    rows: Sequence[int],
    oldest_at: float,
    now: float,
    others_wait: bool = False,
    send_by: float = float("inf"),
) -> Decision:
    """What to do for requests of one shape, in the order in which they are served; an instance has room.

    Args:
        policy: the model's.
        rows: rows of each waiting request; at least one, none over `max_batch_size`.
        oldest_at: when the oldest of them came, monotonic seconds.
        now: monotonic seconds.
        others_wait: requests of another shape wait behind these, so company for these is not waited for.
        send_by: when the first of them would have waited too long, monotonic seconds.
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
    due, early = oldest_at + policy.max_queue_delay_s, send_by - _EARLY_S
    if now >= min(due, early):
        return Decision(count, "delay" if now >= due else "deadline")
    return Decision(wait_until=min(due, early))
