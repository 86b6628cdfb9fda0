from __future__ import annotations

import time
from typing import Dict

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from edge_agent.domain.requests import Timing
from edge_agent.telemetry.loop_lag import LoopLag
from edge_agent.telemetry.metrics import Metrics

TIMING = Timing(queue_us=1, input_us=2, infer_us=3, output_us=4, total_us=10)


def _samples(metrics: Metrics) -> Dict[str, float]:
    """Every line of the exposition: `name{labels}` -> value, labels in alphabetical order."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


def test_triton_counters_keep_tritons_names() -> None:
    metrics = Metrics()
    metrics.request_done("face", "1", ok=True, timing=TIMING, rows=2)
    metrics.batch_done("face", "1", rows=2, reason="full")
    text = generate_latest(metrics.registry).decode()
    for name in ("request_success", "count", "exec_count", "request_duration_us", "queue_duration_us", "request_failure"):
        assert f"# TYPE nv_inference_{name} counter\n" in text
    assert "nv_inference" in text
    assert not [line for line in text.splitlines() if "nv_inference" in line and "_total" in line]


def test_requests_batches_and_times_add_up() -> None:
    metrics = Metrics()
    metrics.request_done("face", "1", ok=True, timing=TIMING, rows=2)
    metrics.request_done("face", "1", ok=True, timing=TIMING, rows=1)
    metrics.batch_done("face", "1", rows=3, reason="full")
    samples = _samples(metrics)
    here = '{model="face",version="1"}'
    assert samples["nv_inference_request_success" + here] == 2
    assert samples["nv_inference_count" + here] == 3
    assert samples["nv_inference_exec_count" + here] == 1
    assert samples["nv_inference_request_duration_us" + here] == 20
    assert samples["nv_inference_queue_duration_us" + here] == 2
    assert samples["nv_inference_compute_input_duration_us" + here] == 4
    assert samples["nv_inference_compute_infer_duration_us" + here] == 6
    assert samples["nv_inference_compute_output_duration_us" + here] == 8


def test_a_cache_hit_is_a_success_without_an_inference_and_a_miss_is_no_request() -> None:
    metrics = Metrics()
    metrics.cache_hit("face", "1", 7)
    metrics.cache_missed("face", "1", 3)
    samples = _samples(metrics)
    here = '_per_model{model="face",version="1"}'
    assert [samples["nv_cache_num_%s%s" % (kind, here)] for kind in ("hits", "misses")] == [1, 1]
    assert [samples["nv_cache_%s_duration%s" % (kind, here)] for kind in ("hit", "miss")] == [7, 3]
    inference = 'nv_inference_%s{model="face",version="1"}'
    names = ("request_success", "request_duration_us", "queue_duration_us", "count", "exec_count")
    assert [samples[inference % name] for name in names] == [1, 7, 0, 0, 0]


def test_failures_count_by_tritons_reasons_and_the_rest_as_other() -> None:
    metrics = Metrics()
    metrics.request_done("face", "1", ok=False, reason="REJECTED")
    metrics.request_done("face", "1", ok=False, reason="no such reason")
    samples = _samples(metrics)
    counts = {
        reason: samples[f'nv_inference_request_failure{{model="face",reason="{reason}",version="1"}}']
        for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER")
    }
    assert counts == {"REJECTED": 1, "CANCELED": 0, "BACKEND": 0, "OTHER": 1}


def test_a_loaded_model_shows_zeros_and_a_forgotten_one_nothing() -> None:
    metrics = Metrics()
    metrics.model_loaded("face", "1", load_s=0.25)
    samples = _samples(metrics)
    assert samples['nv_inference_count{model="face",version="1"}'] == 0
    assert samples['nv_model_load_duration_secs{model="face",version="1"}'] == 0.25
    metrics.model_forgotten("face", "1")
    assert not [name for name in _samples(metrics) if "face" in name]


def test_batch_sizes_make_a_cumulative_histogram() -> None:
    metrics = Metrics()
    for rows in (1, 1, 3, 200):
        metrics.batch_done("face", "1", rows=rows, reason="full" if rows > 1 else "idle")
    samples = _samples(metrics)
    bucket = 'edge_agent_batch_size_bucket{{le="{}",model="face",version="1"}}'
    assert [samples[bucket.format(bound)] for bound in ("1.0", "2.0", "4.0", "128.0", "+Inf")] == [2, 2, 3, 3, 4]
    assert samples['edge_agent_batch_size_sum{model="face",version="1"}'] == 205
    assert samples['edge_agent_batch_reason_total{model="face",reason="idle",version="1"}'] == 2


def test_pending_is_asked_at_the_scrape() -> None:
    waiting = {("face", "1"): 0}
    metrics = Metrics()
    metrics.watch_pending(lambda: waiting)
    metrics.model_loaded("face", "1")
    waiting[("face", "1")] = 7
    assert _samples(metrics)['nv_inference_pending_request_count{model="face",version="1"}'] == 7


def test_children_frames_and_drops_are_counted() -> None:
    metrics = Metrics()
    metrics.child_restarted("host:cpu")
    metrics.camera_frames("dock", "skipped", 3)
    metrics.dropped("log")
    samples = _samples(metrics)
    assert samples['edge_agent_child_restarts_total{child="host:cpu"}'] == 1
    assert samples['edge_agent_camera_frames_total{camera="dock",kind="skipped"}'] == 3
    assert samples['edge_agent_dropped_total{queue="log"}'] == 1


def test_names_from_outside_are_escaped() -> None:
    metrics = Metrics()
    metrics.camera_frames('a"b\\c\nd', "captured")
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    labels = [sample.labels for family in families for sample in family.samples if "frames" in sample.name]
    assert labels == [{"camera": 'a"b\\c\nd', "kind": "captured"}]


def test_the_machine_and_the_loop_show() -> None:
    samples = _samples(Metrics(loop_lag=LoopLag()))
    assert samples["nv_cpu_memory_total_bytes"] > samples["nv_cpu_memory_used_bytes"] > 0
    assert samples["process_resident_memory_bytes"] > 0
    assert 'edge_agent_loop_lag_seconds{quantile="0.99"}' in samples


def test_two_agents_in_one_process_do_not_share_counts() -> None:
    one, two = Metrics(), Metrics()
    one.child_restarted("x")
    assert not [name for name in _samples(two) if "restarts" in name]


def test_counting_costs_a_few_microseconds() -> None:
    metrics = Metrics()
    begun = time.perf_counter()
    for _ in range(10_000):
        metrics.request_done("face", "1", ok=True, timing=TIMING)
    assert (time.perf_counter() - begun) / 10_000 < 50e-6
