"""What an operator asks of plans: built anew, or compared now."""

from __future__ import annotations

from typing import Any, Callable, Dict

from edge_agent import errors
from edge_agent.serving.healing.decision import KeyState
from edge_agent.serving.healing.outlook import Lookout
from edge_agent.serving.healing.places import Places
from edge_agent.serving.healing.plan_store import PlanStore
from edge_agent.serving.healing.proof import Prover
from edge_agent.serving.version import ServedVersion


class ByHand:
    """`want` queues a build, which is made although there is a plan where the last argument says so; `again` loads anew."""

    def __init__(
        self,
        lookout: Lookout,
        plans: PlanStore,
        prover: Prover,
        places: Places,
        want: Callable[[ServedVersion, KeyState, bool], None],
        again: Callable[[ServedVersion], None],
    ) -> None:
        self._lookout = lookout
        self._plans = plans
        self._prover = prover
        self._places = places
        self._want = want
        self._again = again

    async def build(self, version: ServedVersion) -> None:
        """Has its plan built anew now, whatever failed before. Returns at once. Unsupported, EngineLoadError."""
        outlook = await self._lookout.look(version)
        keys = outlook.situation.keys
        if version.entry.onnx is None:
            raise errors.Unsupported("%s has no model.onnx that a plan could be built of" % version.label)
        if not keys:
            raise errors.EngineLoadError("no plan can be built here: %s" % outlook.situation.facts.text)
        await self._plans.cleared(*[state.key for state in keys])
        self._want(version, keys[0], True)

    async def verify(self, version: ServedVersion) -> Dict[str, Any]:
        """Compares the plan that serves with golden or ONNX Runtime outputs now. Unsupported where no plan serves.

        One that this agent has built and that is wrong is put aside; the version comes back without it.
        """
        plan = version.plan
        if version.engine != "tensorrt" or plan is None:
            raise errors.Unsupported("%s is not served from a TensorRT plan" % version.label)
        proof = await self._prover.compare(self._places.candidate(version, plan.path, plan.sidecar), version)
        own = bool(plan.sidecar.sha256) and plan.sidecar.precision != "as it is"
        if proof.good:
            version.verified, version.figures = True, proof.figures
            if own:
                version.plan = await self._plans.verified(plan, proof.figures)
        elif proof.good is False and own:
            await self._plans.quarantine(plan, proof.code, proof.reason)
            await self._plans.failed(plan.sidecar.key, proof.code, proof.reason, permanent=proof.code == "engine.verify_failed")
            self._again(version)
        return {"good": proof.good, "code": proof.code, "reason": proof.reason, **proof.figures}
