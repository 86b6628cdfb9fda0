"""What serves a version that TensorRT should run, and which plan is to be built: decided from facts alone, nothing is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Literal, Optional, Tuple

from edge_agent.domain.gpu import GpuFacts
from edge_agent.domain.status import State
from edge_agent.engines.plans.key import PlanKey
from edge_agent.engines.plans.shelf import Plan
from edge_agent.engines.plans.sidecar import Refusal

#: after these another precision may do what this one could not
_FALLS = ("build.precision_unsupported", "engine.verify_failed", "engine.plan_refused")
#: a plan that failed its check would fail it again
WRONG = "engine.verify_failed"


@dataclass(frozen=True)
class KeyState:
    """What is known of one key: the plan of one precision."""

    precision: str
    key: PlanKey
    plan: Optional[Plan] = None  #: whole and not refused, beside the model or on the shelf
    refusal: Optional[Refusal] = None  #: why there is no plan of it any more
    wait_s: Optional[float] = 0.0  #: until it may be built; None: not in this boot, or never
    tries: int = 0
    code: str = ""  #: why the last try failed
    reason: str = ""

    @property
    def why_not(self) -> Tuple[str, str]:
        """Code and reason of there being no plan."""
        if self.refusal is not None:
            return self.refusal.code, self.refusal.reason
        return self.code, self.reason or ("it was built %d times since the box started" % self.tries if self.tries else "")

    @property
    def may_build(self) -> bool:
        """Whether trying can help, now or later in this boot."""
        return self.wait_s is not None and self.why_not[0] != WRONG


@dataclass(frozen=True)
class Situation:
    """All that the decision is made of."""

    facts: GpuFacts
    has_onnx: bool
    has_plan: bool = False  #: a file that somebody has put there
    trust: str = "alone"  #: models.trust_plans
    foreign: str = ""  #: why that file is not loaded any more
    keys: Tuple[KeyState, ...] = ()  #: by precision, best first; empty without an ONNX model or a GPU
    fault: str = ""  #: why nothing can be built: no place for plans
    fault_code: str = "build.no_space"


@dataclass(frozen=True)
class Decision:
    """`serve` says with what, `state` and so on what is said of it; `work` is the key whose plan is to be made or checked."""

    serve: Literal["plan", "file", "onnx", "nothing"]
    state: State = State.OK
    code: str = ""
    args: Dict[str, Any] = field(default_factory=dict)
    plan: Optional[KeyState] = None
    work: Optional[KeyState] = None


def decide(situation: Situation) -> Decision:
    """A verified plan, else ONNX Runtime and a build where one can help. A plan alone is the operator's own."""
    facts = situation.facts
    if not situation.has_onnx:
        return _alone(situation)
    if not facts.usable:
        return Decision("onnx", State.DEGRADED, "engine.unavailable", {"text": facts.text})
    own = situation.keys[0].plan
    if situation.has_plan and situation.trust == "all" and not situation.foreign and not (own and own.sidecar.verified):
        return Decision("file")
    return _chain(situation)


def _alone(situation: Situation) -> Decision:
    facts = situation.facts
    if situation.trust == "none":
        return _failed("plan.untrusted", "there is no model.onnx beside it, and models.trust_plans is none")
    if not facts.usable:
        return _failed(facts.code or "engine.unavailable", facts.text)
    if situation.foreign:
        return _failed("plan.foreign", situation.foreign)
    return Decision("file")


def _failed(code: str, text: str) -> Decision:
    return Decision("nothing", State.FAILED, code, {"text": text})


def _chain(situation: Situation) -> Decision:
    """The best precision that has a plan, or can get one."""
    asked = situation.keys[0]
    last = asked
    for state in situation.keys:
        last = state
        if state.plan is not None and state.plan.sidecar.verified:
            return Decision("plan", *_good(asked, state), plan=state)
        if state.plan is not None or (state.may_build and not situation.fault):
            return Decision("onnx", State.DEGRADED, "engine.building", _fell(asked, state), work=state)
        if state.why_not[0] not in _FALLS:
            break
    code, reason = last.why_not
    if situation.fault and not code:
        code, reason = situation.fault_code, situation.fault
    shown = code if code in (WRONG, "engine.plan_refused") else "engine.build_failed"
    return Decision("onnx", State.DEGRADED, shown, {"text": reason, "cause": code})


def _good(asked: KeyState, state: KeyState) -> Tuple[State, str, Dict[str, Any]]:
    if state is asked:
        return State.OK, "", {}
    return State.OK, "engine.precision_fell", _fell(asked, state)


def _fell(asked: KeyState, state: KeyState) -> Dict[str, Any]:
    if state is asked:
        return {}
    return {"wanted": asked.precision, "precision": state.precision, "text": asked.why_not[1]}
