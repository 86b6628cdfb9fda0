"""What is counted; cheap to add to, turned into Prometheus' format only when somebody asks."""

from __future__ import annotations

from collections import defaultdict
from typing import Callable, DefaultDict, Dict, Iterator, Mapping, Optional, Tuple

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import Timing
from edge_agent.telemetry import procfs
from edge_agent.telemetry.counts import ModelCounts
from edge_agent.telemetry.families import ModelKey, batch_families, counter, gauge, triton_families
from edge_agent.telemetry.loop_lag import LoopLag
from edge_agent.telemetry.plans import PlanCounts

_NO_TIME = Timing()


class Metrics(Collector):
    """Counts of one agent with a registry of their own; used on the loop only."""

    def __init__(
        self,
        loop_lag: Optional[LoopLag] = None,
        pending: Optional[Callable[[], Mapping[ModelKey, int]]] = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.plans = PlanCounts(Clock())
        self._loop_lag = loop_lag
        self._pending = pending
        self._models: Dict[ModelKey, ModelCounts] = {}
        self._restarts: DefaultDict[Tuple[str, ...], int] = defaultdict(int)
        self._frames: DefaultDict[Tuple[str, ...], int] = defaultdict(int)
        self._dropped: DefaultDict[Tuple[str, ...], int] = defaultdict(int)
        self._cpu = procfs.CpuLoad()
        self.registry.register(self)

    def watch_pending(self, pending: Callable[[], Mapping[ModelKey, int]]) -> None:
        """Asks `pending` at each scrape how many requests wait for each model."""
        self._pending = pending

    def model_loaded(self, model: str, version: str, load_s: float = 0.0) -> None:
        """The model shows from now on, with zeros at first."""
        self._counts(model, version).load_s = load_s

    def model_forgotten(self, model: str, version: str) -> None:
        """The model shows no more; so that removed ones do not pile up."""
        self._models.pop((model, version), None)
        self.plans.forgotten(model, version)

    def request_done(
        self,
        model: str,
        version: str,
        ok: bool,
        reason: str = "",
        timing: Timing = _NO_TIME,
        rows: int = 1,
    ) -> None:
        """One request ended; `reason` (REJECTED, CANCELED, BACKEND, OTHER) where not ok."""
        counts = self._counts(model, version)
        if ok:
            counts.succeeded(timing, rows)
        else:
            counts.failed(reason)

    def cache_hit(self, model: str, version: str, total_us: int) -> None:
        """One request ended well, answered by the response cache."""
        self._counts(model, version).hit(total_us)

    def cache_missed(self, model: str, version: str, us: int) -> None:
        """The response cache had no answer; `us` went into looking and keeping."""
        self._counts(model, version).missed(us)

    def batch_done(self, model: str, version: str, rows: int, reason: str) -> None:
        """One batch ran; `reason` says why it was sent when it was."""
        self._counts(model, version).ran(rows, reason)

    def child_restarted(self, child: str) -> None:
        """A child was started again."""
        self._restarts[(child,)] += 1

    def camera_frames(self, camera: str, kind: str, count: int = 1) -> None:
        """Frames of a camera; `kind` is captured, inferred, skipped or failed."""
        self._frames[(camera, kind)] += count

    def dropped(self, queue: str, count: int = 1) -> None:
        """Something was dropped from a full queue."""
        self._dropped[(queue,)] += count

    def collect(self) -> Iterator[Metric]:
        """The families, for the registry."""
        models = dict(self._models)
        yield from triton_families(models, self._pending() if self._pending is not None else {})
        yield from batch_families(models)
        yield from self.plans.families()
        yield counter("edge_agent_child_restarts", "Child processes started again", ["child"], self._restarts)
        yield counter("edge_agent_camera_frames", "Frames of a camera by what became of them", ["camera", "kind"], self._frames)
        yield counter("edge_agent_dropped", "Entries dropped from full queues", ["queue"], self._dropped)
        yield from self._lag()
        yield from self._machine()

    def _counts(self, model: str, version: str) -> ModelCounts:
        key = (model, version)
        counts = self._models.get(key)
        if counts is None:
            counts = self._models[key] = ModelCounts()
        return counts

    def _lag(self) -> Iterator[Metric]:
        if self._loop_lag is None:
            return
        family = GaugeMetricFamily(
            "edge_agent_loop_lag_seconds", "How late the event loop was in the last minute", labels=["quantile"]
        )
        family.add_metric(["0.5"], self._loop_lag.p50_ms / 1e3)
        family.add_metric(["0.99"], self._loop_lag.p99_ms / 1e3)
        yield family

    def _machine(self) -> Iterator[Metric]:
        memory = procfs.memory_bytes()
        total, available = memory["total"], memory["available"]
        used = None if total is None or available is None else total - available
        yield from gauge("nv_cpu_utilization", "Busy share of the processors since the last scrape, 0 to 1", self._cpu.read())
        yield from gauge("nv_cpu_memory_total_bytes", "Memory of the machine", total)
        yield from gauge("nv_cpu_memory_used_bytes", "Memory of the machine in use", used)
        yield from gauge("process_resident_memory_bytes", "Resident memory of the agent's main process", procfs.rss_bytes())
