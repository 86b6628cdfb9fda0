"""How one model batches, in Triton's words: a model's `dynamic_batching`, resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from edge_agent.errors import ConfigError

#: requests that may wait at one level where the model's config sets no bound of its own
MAX_QUEUE_SIZE = 1024
MAX_REQUESTS = 4096
_DELAY = ("DELAY", 1)  #: the name and the number of Triton's enumeration


@dataclass(frozen=True)
class QueuePolicy:
    """What may wait at one level, how many and how long."""

    max_queue_size: int = MAX_QUEUE_SIZE  #: requests; one more is refused
    timeout_us: int = 0  #: longest wait; 0 is no bound
    allow_override: bool = False  #: a request may shorten the wait
    delays: bool = False  #: who waited too long is served after the others of its level, instead of refused

    def wait_s(self, asked_us: int) -> Optional[float]:
        """How long a request may wait that asked for `asked_us` (0: for nothing); None is for ever."""
        if not self.timeout_us:
            return None
        shorter = self.allow_override and 0 < asked_us < self.timeout_us
        return (asked_us if shorter else self.timeout_us) / 1e6


@dataclass(frozen=True)
class BatchPolicy:
    """Sizes are rows, times seconds."""

    max_batch_size: int = 1
    preferred_batch_sizes: Tuple[int, ...] = ()
    max_queue_delay_s: float = 0.0
    max_requests: int = MAX_REQUESTS  #: that can be handed over as one batch, whatever their rows
    default_queue_policy: QueuePolicy = QueuePolicy()
    priority_levels: int = 0  #: 0: all requests are alike
    default_priority_level: int = 1
    queue_policies: Mapping[int, QueuePolicy] = field(default_factory=dict)  #: of the levels that have one of their own
    preserve_ordering: bool = False  #: answers leave in the order in which their requests came

    def __post_init__(self) -> None:
        if self.max_batch_size < 1:
            raise ValueError("max_batch_size must be at least 1, not %d" % self.max_batch_size)

    def level_of(self, priority: int) -> int:
        """The level of a request that asks for `priority`; 0 asks for nothing, as does one out of range."""
        if not self.priority_levels:
            return 1
        return priority if 1 <= priority <= self.priority_levels else self.default_priority_level

    def queue_policy(self, level: int) -> QueuePolicy:
        """What may wait at a level."""
        return self.queue_policies.get(level, self.default_queue_policy)

    @classmethod
    def from_config(
        cls, table: Optional[Mapping[str, Any]], max_batch_size: int, max_requests: int = MAX_REQUESTS
    ) -> BatchPolicy:
        """From the plain values of `dynamic_batching`; without it what waits is joined but nobody waits for company.

        Args:
            table: Triton's keys; those that are missing have Triton's defaults.
            max_batch_size: what the model takes; 0 is a model without batch dimension.
            max_requests: most requests in one batch.

        Raises:
            ConfigError: the keys contradict each other.
        """
        size = max(1, max_batch_size)
        if table is None:
            return cls(size, max_requests=max_requests)
        levels = table.get("priority_levels", 0)
        own: Dict[int, Mapping[str, Any]] = {}
        if levels:
            own = {int(level): policy for level, policy in table.get("priority_queue_policy", {}).items()}
        policy = cls(
            size,
            tuple(preferred for preferred in table.get("preferred_batch_size", ()) if preferred <= size),
            table.get("max_queue_delay_microseconds", 0) / 1e6,
            max_requests,
            _queue_policy(table.get("default_queue_policy", {})),
            levels,
            table.get("default_priority_level", 0) if levels else 1,
            {level: _queue_policy(values) for level, values in own.items()},
            table.get("preserve_ordering", False),
        )
        faults = _faults(policy)
        if faults:
            raise ConfigError(faults)
        return policy


def _queue_policy(table: Mapping[str, Any]) -> QueuePolicy:
    return QueuePolicy(
        table.get("max_queue_size", 0) or MAX_QUEUE_SIZE,
        table.get("default_timeout_microseconds", 0),
        table.get("allow_timeout_override", False),
        table.get("timeout_action", "REJECT") in _DELAY,
    )


def _faults(policy: BatchPolicy) -> List[Tuple[str, str, str]]:
    """What Triton refuses too, as ConfigError takes it."""
    faults = []
    levels = policy.priority_levels
    if levels and not 1 <= policy.default_priority_level <= levels:
        wrong = "is %d, but the levels are 1 to %d" % (policy.default_priority_level, levels)
        faults.append(("dynamic_batching.default_priority_level", wrong, "name one of the levels"))
    for level in policy.queue_policies:
        if not 1 <= level <= levels:
            path = "dynamic_batching.priority_queue_policy.%d" % level
            faults.append((path, "there is no such level", "raise priority_levels or remove the policy"))
    if policy.preserve_ordering and levels > 1:
        wrong = "cannot be kept with %d priority levels" % levels
        faults.append(("dynamic_batching.preserve_ordering", wrong, "set one of the two"))
    if policy.preserve_ordering and any(p.delays for p in (policy.default_queue_policy, *policy.queue_policies.values())):
        wrong = "cannot be kept while a queue policy has timeout_action DELAY"
        faults.append(("dynamic_batching.preserve_ordering", wrong, "set timeout_action to REJECT, or remove this key"))
    return faults
