"""Turns the plain numbers into Prometheus families, Triton's names where Triton has one."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from edge_agent.telemetry.counts import ModelCounts

ModelKey = Tuple[str, str]  #: name, version
Models = Mapping[ModelKey, ModelCounts]

_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)

_TRITON_COUNTERS: Tuple[Tuple[str, str, Callable[[ModelCounts], int]], ...] = (
    ("nv_inference_request_success", "Requests answered", lambda c: c.success),
    ("nv_inference_count", "Inferences done; a batch of n counts n", lambda c: c.inferences),
    ("nv_inference_exec_count", "Model executions; a batch counts once", lambda c: c.executions),
    ("nv_inference_request_duration_us", "Cumulative time of requests, microseconds", lambda c: c.request_us),
    ("nv_inference_queue_duration_us", "Cumulative time in the queue, microseconds", lambda c: c.queue_us),
    ("nv_inference_compute_input_duration_us", "Cumulative time of preparing inputs, microseconds", lambda c: c.input_us),
    ("nv_inference_compute_infer_duration_us", "Cumulative time of running the model, microseconds", lambda c: c.infer_us),
    ("nv_inference_compute_output_duration_us", "Cumulative time of outputs, microseconds", lambda c: c.output_us),
    ("nv_cache_num_hits_per_model", "Requests answered by the response cache", lambda c: c.cache_hits),
    ("nv_cache_num_misses_per_model", "Requests the response cache had no answer for", lambda c: c.cache_misses),
    ("nv_cache_hit_duration_per_model", "Cumulative time of cache hits, microseconds", lambda c: c.cache_hit_us),
    ("nv_cache_miss_duration_per_model", "Cumulative time of looking and keeping, microseconds", lambda c: c.cache_miss_us),
)


class _TritonName(str):
    """Triton's counters have no `_total`; prometheus_client would put it into their HELP and TYPE lines."""

    def __add__(self, other: str) -> str:
        return str(self) if other == "_total" else str(self) + other


def _triton_counter(name: str, documentation: str) -> Metric:
    family = Metric(name, documentation, "counter")
    family.name = _TritonName(name)
    return family


def _labels(key: ModelKey, **more: str) -> Dict[str, str]:
    return {"model": key[0], "version": key[1], **more}


def triton_families(models: Models, pending: Mapping[ModelKey, int]) -> Iterator[Metric]:
    """The nv_inference_ and nv_cache_ families; every known model has a sample in each, zeros included."""
    for name, documentation, value_of in _TRITON_COUNTERS:
        family = _triton_counter(name, documentation)
        for key, counts in models.items():
            family.add_sample(name, _labels(key), value_of(counts))
        yield family
    yield _failures(models)
    waiting = GaugeMetricFamily("nv_inference_pending_request_count", "Requests in the queue")
    load = GaugeMetricFamily("nv_model_load_duration_secs", "How long the model took to load, seconds")
    for key, counts in models.items():
        waiting.add_sample(waiting.name, _labels(key), pending.get(key, 0))
        load.add_sample(load.name, _labels(key), counts.load_s)
    yield waiting
    yield load


def _failures(models: Models) -> Metric:
    family = _triton_counter("nv_inference_request_failure", "Requests that got an error, by reason")
    for key, counts in models.items():
        for reason, count in counts.failure.items():
            family.add_sample("nv_inference_request_failure", _labels(key, reason=reason), count)
    return family


def batch_families(models: Models) -> Iterator[Metric]:
    """How large batches were, and why each was sent when it was."""
    sizes = HistogramMetricFamily("edge_agent_batch_size", "Rows of a batch", labels=["model", "version"])
    reasons = CounterMetricFamily("edge_agent_batch_reason", "Why a batch was sent", labels=["model", "version", "reason"])
    for (model, version), counts in models.items():
        rows = sum(size * count for size, count in counts.batch_sizes.items())
        sizes.add_metric([model, version], _buckets(counts.batch_sizes), rows)
        for reason, count in sorted(counts.batch_reasons.items()):
            reasons.add_metric([model, version, reason], count)
    yield sizes
    yield reasons


def _buckets(sizes: Mapping[int, int]) -> List[Tuple[str, float]]:
    """Cumulative counts by upper bound, as the format asks."""
    bounds = [(str(float(bound)), float(sum(n for size, n in sizes.items() if size <= bound))) for bound in _BUCKETS]
    return [*bounds, ("+Inf", float(sum(sizes.values())))]


def counter(name: str, documentation: str, labels: List[str], values: Mapping[Tuple[str, ...], float]) -> Metric:
    """A counter of the agent's own; `_total` is added to the name."""
    family = CounterMetricFamily(name, documentation, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(list(key), value)
    return family


def gauge(name: str, documentation: str, value: Optional[float]) -> Iterator[Metric]:
    """A gauge without labels; nothing at all where the value is unknown."""
    if value is not None:
        yield GaugeMetricFamily(name, documentation, value=value)
