"""Plain numbers that the hot path adds to; nothing here knows a format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict

from edge_agent.domain.requests import Timing

#: Triton's words for why a request failed
FAILURE_REASONS = ("REJECTED", "CANCELED", "BACKEND", "OTHER")


@dataclass
class ModelCounts:
    """What one version of one model has done since the agent started."""

    success: int = 0
    failure: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAILURE_REASONS, 0))
    inferences: int = 0  #: rows of successful requests
    executions: int = 0  #: batches run
    request_us: int = 0
    queue_us: int = 0
    input_us: int = 0
    infer_us: int = 0
    output_us: int = 0
    batch_sizes: Dict[int, int] = field(default_factory=dict)  #: rows -> batches
    batch_reasons: Dict[str, int] = field(default_factory=dict)  #: why a batch was sent -> batches
    load_s: float = 0.0
    cache_hits: int = 0
    cache_hit_us: int = 0
    cache_misses: int = 0
    cache_miss_us: int = 0

    def succeeded(self, timing: Timing, rows: int) -> None:
        """One request answered; `rows` of it are inferences."""
        self.success += 1
        self.inferences += rows
        self.request_us += timing.total_us
        self.queue_us += timing.queue_us
        self.input_us += timing.input_us
        self.infer_us += timing.infer_us
        self.output_us += timing.output_us

    def hit(self, total_us: int) -> None:
        """One request answered by the response cache: a success without an inference."""
        self.success += 1
        self.request_us += total_us
        self.cache_hits += 1
        self.cache_hit_us += total_us

    def missed(self, us: int) -> None:
        """One request that the response cache had no answer for; it took so long to look and to keep the answer."""
        self.cache_misses += 1
        self.cache_miss_us += us

    def failed(self, reason: str) -> None:
        """One request that got an error; a reason that is not Triton's counts as OTHER."""
        self.failure[reason if reason in self.failure else "OTHER"] += 1

    def ran(self, rows: int, reason: str) -> None:
        """One batch of so many rows, sent for that reason; none where nothing was joined (an ensemble)."""
        self.executions += 1
        self.batch_sizes[rows] = self.batch_sizes.get(rows, 0) + 1
        if not reason:
            return
        self.batch_reasons[reason] = self.batch_reasons.get(reason, 0) + 1
