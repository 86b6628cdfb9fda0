"""What serves and what is built, from facts alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest

from edge_agent.domain.gpu import GpuFacts
from edge_agent.domain.status import State
from edge_agent.engines.plans.key import PlanKey, PlanRecipe, PlanTarget
from edge_agent.engines.plans.shelf import Plan
from edge_agent.engines.plans.sidecar import Refusal, Sidecar
from edge_agent.serving.healing.decision import KeyState, Situation, decide

GPU = GpuFacts(True, tensorrt="10.3.0", compute_capability=(8, 7))
NO_GPU = GpuFacts(code="engine.no_driver", text="no driver")


def key(precision: str) -> PlanKey:
    return PlanKey("model", PlanTarget.of(GPU), PlanRecipe(precision))


def state(
    precision: str = "fp16", plan: str = "", refused: str = "", wait_s: Optional[float] = 0.0, code: str = "", reason: str = ""
) -> KeyState:
    one = key(precision)
    found = Plan(Path("p"), Sidecar(one.digest, "m/1", precision, "", verified=plan == "verified")) if plan else None
    refusal = Refusal(refused, reason, "") if refused else None
    return KeyState(precision, one, found, refusal, wait_s, 0, code, reason)


def chosen(*keys: KeyState, **more: Any) -> Any:
    return decide(Situation(GPU, True, keys=keys, **more))


def test_a_verified_plan_serves() -> None:
    one = state(plan="verified")
    decision = chosen(one)
    assert (decision.serve, decision.state, decision.code, decision.plan, decision.work) == ("plan", State.OK, "", one, None)


@pytest.mark.parametrize("one", [state(), state(plan="unverified"), state(wait_s=30.0), state(refused="engine.plan_refused")])
def test_what_can_come_to_be_is_worked_on_while_onnx_runtime_serves(one: KeyState) -> None:
    decision = chosen(one)
    assert (decision.serve, decision.state, decision.code, decision.work) == ("onnx", State.DEGRADED, "engine.building", one)


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (state(wait_s=None, code="build.parse_failed", reason="why"), "engine.build_failed"),
        (state(wait_s=None, code="build.killed", reason="why"), "engine.build_failed"),
        (state(wait_s=None, code="engine.plan_refused", reason="why"), "engine.plan_refused"),
        (state(refused="engine.verify_failed", reason="why"), "engine.verify_failed"),
        (state(wait_s=None, refused="engine.plan_refused", reason="why"), "engine.plan_refused"),
    ],
)
def test_what_cannot_leaves_onnx_runtime_and_the_reason(one: KeyState, code: str) -> None:
    decision = chosen(one)
    assert (decision.serve, decision.state, decision.code, decision.work) == ("onnx", State.DEGRADED, code, None)
    assert decision.args["text"] == "why"


def test_no_place_for_plans_is_a_reason_too() -> None:
    decision = chosen(state(), fault="no room")
    assert (decision.serve, decision.code, decision.work) == ("onnx", "engine.build_failed", None)
    assert decision.args == {"text": "no room", "cause": "build.no_space"}
    assert chosen(state(plan="verified"), fault="no room").serve == "plan"


@pytest.mark.parametrize("code", ["build.precision_unsupported", "engine.verify_failed", "engine.plan_refused"])
def test_the_next_precision_comes_after_one_that_cannot_be_had(code: str) -> None:
    asked, next_one = state("int8", wait_s=None, code=code, reason="why"), state("fp16")
    decision = chosen(asked, next_one)
    assert decision.work is next_one
    assert decision.args == {"wanted": "int8", "precision": "fp16", "text": "why"}
    decision = chosen(asked, state("fp16", plan="verified"))
    assert (decision.serve, decision.state, decision.code) == ("plan", State.OK, "engine.precision_fell")


@pytest.mark.parametrize("code", ["build.parse_failed", "build.no_profile", "build.timeout", "build.killed"])
def test_what_another_precision_cannot_mend_ends_the_chain(code: str) -> None:
    decision = chosen(state("int8", wait_s=None, code=code), state("fp16"))
    assert (decision.serve, decision.work, decision.code) == ("onnx", None, "engine.build_failed")


def test_a_better_precision_that_can_still_come_is_waited_for() -> None:
    asked = state("int8", wait_s=60.0)
    assert chosen(asked, state("fp16", plan="verified")).work is asked


def test_without_a_gpu_onnx_runtime_serves_and_nothing_is_built() -> None:
    decision = decide(Situation(NO_GPU, True))
    assert (decision.serve, decision.state, decision.code) == ("onnx", State.DEGRADED, "engine.unavailable")
    assert decision.args == {"text": "no driver"}
    assert decision.work is None


@pytest.mark.parametrize(
    ("facts", "trust", "foreign", "serve", "code"),
    [
        (GPU, "alone", "", "file", ""),
        (GPU, "all", "", "file", ""),
        (GPU, "none", "", "nothing", "plan.untrusted"),
        (GPU, "alone", "it killed", "nothing", "plan.foreign"),
        (NO_GPU, "alone", "", "nothing", "engine.no_driver"),
        (GpuFacts(), "alone", "", "nothing", "engine.unavailable"),
    ],
)
def test_a_plan_alone_is_the_operators_own(facts: GpuFacts, trust: str, foreign: str, serve: str, code: str) -> None:
    decision = decide(Situation(facts, False, True, trust, foreign))
    assert (decision.serve, decision.code) == (serve, code)


@pytest.mark.parametrize(
    ("trust", "foreign", "serve"),
    [("alone", "", "onnx"), ("none", "", "onnx"), ("all", "", "file"), ("all", "foreign", "onnx")],
)
def test_somebodys_plan_beside_the_model_is_used_where_all_are_trusted(trust: str, foreign: str, serve: str) -> None:
    assert chosen(state(), has_plan=True, trust=trust, foreign=foreign).serve == serve
    assert chosen(state(plan="verified"), has_plan=True, trust=trust, foreign=foreign).serve == "plan"
