"""What metrics say of builds and of versions that are compared."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from prometheus_client import generate_latest

from edge_agent.domain.clock import Clock
from edge_agent.telemetry.metrics import Metrics
from edge_agent.telemetry.plans import PlanCounts


class Moved(Clock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        super().__init__("boot")
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at


def counted(clock: Optional[Clock] = None) -> Metrics:
    metrics = Metrics()
    metrics.plans = PlanCounts(clock or Clock())
    return metrics


def samples(metrics: Metrics) -> Dict[str, float]:
    lines = generate_latest(metrics.registry).decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs if "engine" in name or "shadow" in name}


def model(*versions: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [{"name": "face", "versions": list(versions)}]


def shadowed(compared: int, agreement: Optional[float]) -> List[Dict[str, Any]]:
    shadow = {"compared": compared, "wanted": 100, "agreement": agreement}
    return model({"version": "2", "engine": "tensorrt", "state": "degraded", "shadow": shadow})


SHADOW = 'edge_agent_shadow_requests_total{agreed="%s",model="face",version="2"}'


def test_before_anything_is_built_there_are_zeros() -> None:
    found = samples(counted())
    for result in ("built", "failed"):
        assert found['edge_agent_engine_builds_total{result="%s"}' % result] == 0
    assert found["edge_agent_engine_build_seconds_count"] == 0


def test_a_build_is_counted_by_its_end_and_timed_from_its_first_try() -> None:
    clock = Moved()
    metrics = counted(clock)
    metrics.plans.event("engine.building", "face/1", {"tries": 1})
    clock.at += 40
    metrics.plans.event("engine.building", "face/1", {"tries": 2})
    clock.at += 60
    metrics.plans.event("engine.built", "face/1", {"precision": "fp16"})
    metrics.plans.event("engine.build_failed", "other/1", {"text": "no Foo"})  # it was never begun in this run
    found = samples(metrics)
    assert found['edge_agent_engine_builds_total{result="built"}'] == 1
    assert found['edge_agent_engine_builds_total{result="failed"}'] == 1
    assert (found["edge_agent_engine_build_seconds_count"], found["edge_agent_engine_build_seconds_sum"]) == (1, 100)
    bucket = 'edge_agent_engine_build_seconds_bucket{le="%s"}'
    assert [found[bucket % bound] for bound in ("60.0", "120.0", "14400.0", "+Inf")] == [0, 1, 1, 1]


def test_what_the_builder_tells_beside_a_try_begins_nothing() -> None:
    clock = Moved()
    metrics = counted(clock)
    metrics.plans.event("engine.building", "face/1", {"text": "its process is up"})
    metrics.plans.event("engine.built", "face/1", {})
    assert samples(metrics)["edge_agent_engine_build_seconds_count"] == 0


def test_builds_that_never_end_do_not_pile_up() -> None:
    metrics = counted()
    for number in range(3000):
        metrics.plans.event("engine.building", "m%d/1" % number, {"tries": 1})
    assert len(metrics.plans._begun) == 1024


def test_what_runs_each_version_is_told_and_what_runs_none_is_not() -> None:
    metrics = counted()
    metrics.plans.status = lambda: model(
        {"version": "3", "engine": "tensorrt", "state": "ok"},
        {"version": "2", "engine": "onnxruntime", "state": "degraded"},
        {"version": "1", "engine": "tensorrt", "state": "failed"},
        {"version": "4", "engine": "", "state": "off"},
    )
    found = {name for name in samples(metrics) if name.startswith("edge_agent_model_engine")}
    assert found == {
        'edge_agent_model_engine{engine="tensorrt",model="face",version="3"}',
        'edge_agent_model_engine{engine="onnxruntime",model="face",version="2"}',
    }


def test_compared_requests_are_counted_once_however_often_somebody_looks() -> None:
    metrics = counted()
    metrics.plans.status = lambda: shadowed(0, None)
    assert samples(metrics)[SHADOW % "true"] == 0
    metrics.plans.status = lambda: shadowed(40, 0.95)
    assert (samples(metrics)[SHADOW % "true"], samples(metrics)[SHADOW % "false"]) == (38, 2)
    metrics.plans.status = model
    metrics.plans.event("model.promoted", "face/2", {"compared": 100, "agreement": 0.97, "errors": 0})
    found = samples(metrics)
    assert (round(found[SHADOW % "true"], 6), round(found[SHADOW % "false"], 6)) == (97, 3)


def test_a_comparison_that_begins_anew_adds_to_what_was_counted() -> None:
    metrics = counted()
    for status in (shadowed(40, 1.0), shadowed(10, 0.5), shadowed(11, 0.5)):
        metrics.plans.status = lambda status=status: status
        found = samples(metrics)
    assert (found[SHADOW % "true"], found[SHADOW % "false"]) == (45.5, 5.5)


def test_a_promotion_by_hand_has_compared_nothing() -> None:
    metrics = counted()
    metrics.plans.event("model.promoted", "face/2", {"text": "an operator promoted it"})
    metrics.plans.event("model.rolled_back", "face/2", {"text": "version 1 serves instead", "serves": 1})
    assert SHADOW % "true" not in samples(metrics)


def test_a_forgotten_version_shows_no_more() -> None:
    metrics = counted()
    metrics.plans.status = lambda: shadowed(40, 1.0)
    assert SHADOW % "true" in samples(metrics)
    metrics.plans.status = lambda: []
    metrics.model_forgotten("face", "2")
    assert SHADOW % "true" not in samples(metrics)
