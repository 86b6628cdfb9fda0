"""Triton's statistics of one version (kserve.md 1.9): counts and nanoseconds that never fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

from edge_agent.domain.requests import Timing


@dataclass
class Duration:
    """How often, and how long in all."""

    count: int = 0
    ns: int = 0

    def add(self, us: int, times: int = 1) -> None:
        """`times` more, which took `us` microseconds each."""
        self.count += times
        self.ns += us * 1000 * times

    def as_json(self) -> Dict[str, int]:
        """`{count, ns}`."""
        return {"count": self.count, "ns": self.ns}


class BatchStatistics:
    """Executions with one batch size."""

    def __init__(self) -> None:
        self.input = Duration()
        self.infer = Duration()
        self.output = Duration()

    def as_json(self, size: int) -> Dict[str, Any]:
        """An entry of `batch_stats`."""
        return {
            "batch_size": size,
            "compute_input": self.input.as_json(),
            "compute_infer": self.infer.as_json(),
            "compute_output": self.output.as_json(),
        }


class VersionStatistics:
    """What a version did since it was first loaded."""

    def __init__(self) -> None:
        self.last_inference_ms = 0
        self.inferences = 0
        self.executions = 0
        self._success = Duration()
        self._fail = Duration()
        self._queue = Duration()
        self._input = Duration()
        self._infer = Duration()
        self._output = Duration()
        self.cache_hit = Duration()
        self.cache_miss = Duration()
        self._batches: Dict[int, BatchStatistics] = {}

    def succeeded(self, timing: Timing, rows: int, wall_ms: int) -> None:
        """One request was answered by the engine."""
        self.last_inference_ms = wall_ms
        self.inferences += rows
        self._success.add(timing.total_us)
        self._queue.add(timing.queue_us)
        self._input.add(timing.input_us)
        self._infer.add(timing.infer_us)
        self._output.add(timing.output_us)

    def hit(self, total_us: int, lookup_us: int, wall_ms: int) -> None:
        """One request was answered by the cache: a success without compute (Triton counts its queue as well)."""
        self.last_inference_ms = wall_ms
        self._success.add(total_us)
        self._queue.add(0)
        self.cache_hit.add(lookup_us)

    def failed(self, total_us: int) -> None:
        """One request failed."""
        self._fail.add(total_us)

    def ran(self, rows: int, input_us: int, infer_us: int, output_us: int) -> None:
        """The engine ran one batch."""
        self.executions += 1
        batch = self._batches.setdefault(rows, BatchStatistics())
        batch.input.add(input_us)
        batch.infer.add(infer_us)
        batch.output.add(output_us)

    def as_json(self, name: str, version: str) -> Dict[str, Any]:
        """An entry of `model_stats`."""
        return {
            "name": name,
            "version": version,
            "last_inference": self.last_inference_ms,
            "inference_count": self.inferences,
            "execution_count": self.executions,
            "inference_stats": {
                "success": self._success.as_json(),
                "fail": self._fail.as_json(),
                "queue": self._queue.as_json(),
                "compute_input": self._input.as_json(),
                "compute_infer": self._infer.as_json(),
                "compute_output": self._output.as_json(),
                "cache_hit": self.cache_hit.as_json(),
                "cache_miss": self.cache_miss.as_json(),
            },
            "response_stats": {},
            "batch_stats": [batch.as_json(size) for size, batch in sorted(self._batches.items())],
            "memory_usage": [],
        }
