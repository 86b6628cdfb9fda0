"""Counts of builds and of compared versions, out of what serving tells and shows: nothing is counted on the hot path."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Callable, DefaultDict, Dict, Iterator, List, Mapping, Tuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

from edge_agent.domain.clock import Clock
from edge_agent.telemetry.families import ModelKey, counter

_MAX_BUILDS = 1024
_BUCKETS_S = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
_RESULTS = {"engine.built": "built", "engine.build_failed": "failed"}

Status = Callable[[], List[Dict[str, Any]]]


class PlanCounts:
    """`event` is given every event, `status` answers the models of `/api/status`; used on the loop only."""

    def __init__(self, clock: Clock) -> None:
        self.status: Status = list
        self._clock = clock
        self._begun: Dict[str, float] = {}  #: by NAME/VERSION: since when its plan is being made
        self._results: DefaultDict[Tuple[str, ...], int] = defaultdict(int, {(word,): 0 for word in _RESULTS.values()})
        self._seconds: List[float] = [0.0] * (len(_BUCKETS_S) + 1)
        self._seconds_sum = 0.0
        self._seen: Dict[ModelKey, Tuple[float, float]] = {}  #: of a comparison that goes on: compared, agreed
        self._shadow: DefaultDict[Tuple[str, ...], float] = defaultdict(float)

    def event(self, kind: str, subject: str, args: Mapping[str, Any]) -> None:
        """Something happened."""
        if kind == "engine.building" and "tries" in args:
            self._begin(subject)
        elif kind in _RESULTS:
            self._end(subject, _RESULTS[kind])
        elif kind in ("model.promoted", "model.rolled_back") and "compared" in args:
            key = _key(subject)
            self._compared(key, args)
            self._seen.pop(key, None)

    def _begin(self, label: str) -> None:
        """The first try counts: the pauses between tries are a part of it."""
        self._begun.setdefault(label, self._clock.monotonic())
        while len(self._begun) > _MAX_BUILDS:
            del self._begun[next(iter(self._begun))]

    def _end(self, label: str, result: str) -> None:
        self._results[(result,)] += 1
        begun = self._begun.pop(label, None)
        if begun is None:
            return
        seconds = self._clock.monotonic() - begun
        self._seconds_sum += seconds
        place = next((at for at, bound in enumerate(_BUCKETS_S) if seconds <= bound), len(_BUCKETS_S))
        self._seconds[place] += 1

    def _compared(self, key: ModelKey, shadow: Mapping[str, Any]) -> None:
        """What came since it was seen last; one that began anew is counted from its beginning."""
        compared = float(shadow["compared"])
        agreed = compared * float(shadow["agreement"] or 0.0)
        before, agreed_before = self._seen.get(key, (0.0, 0.0))
        if compared < before:
            before = agreed_before = 0.0
        self._seen[key] = (compared, agreed)
        new, new_agreed = compared - before, max(0.0, agreed - agreed_before)
        self._shadow[(*key, "true")] += new_agreed
        self._shadow[(*key, "false")] += max(0.0, new - new_agreed)

    def forgotten(self, model: str, version: str) -> None:
        """The version is not known any more."""
        self._seen.pop((model, version), None)
        self._begun.pop("%s/%s" % (model, version), None)
        for agreed in ("true", "false"):
            self._shadow.pop((model, version, agreed), None)

    def families(self) -> Iterator[Metric]:
        """For the registry."""
        engines = GaugeMetricFamily(
            "edge_agent_model_engine", "1 for what runs a version", labels=["model", "version", "engine"]
        )
        for model in self.status():
            for version in model["versions"]:
                key = (model["name"], version["version"])
                if version["state"] in ("ok", "degraded") and version["engine"]:
                    engines.add_metric([*key, version["engine"]], 1)
                if "shadow" in version:
                    self._compared(key, version["shadow"])
        yield engines
        yield counter("edge_agent_engine_builds", "Builds of TensorRT plans by how they ended", ["result"], self._results)
        yield self._build_seconds()
        yield counter(
            "edge_agent_shadow_requests",
            "Requests that a new version was compared on; one that agrees in part counts in parts",
            ["model", "version", "agreed"],
            self._shadow,
        )

    def _build_seconds(self) -> Metric:
        family = HistogramMetricFamily(
            "edge_agent_engine_build_seconds", "From the first try of a build to its end, with its check"
        )
        bounds = [*(str(float(bound)) for bound in _BUCKETS_S), "+Inf"]
        totals = [sum(self._seconds[: at + 1]) for at in range(len(bounds))]
        family.add_metric([], list(zip(bounds, totals)), self._seconds_sum)
        return family


def _key(label: str) -> ModelKey:
    name, _, version = label.rpartition("/")
    return name, version
