"""What an operator asks of plans: built anew, or compared now."""

from __future__ import annotations

from typing import Any, Callable, Dict

from edge_agent import errors
from edge_agent.serving.healing import recipe
from edge_agent.serving.healing.decision import WRONG, KeyState
from edge_agent.serving.healing.outlook import Lookout
from edge_agent.serving.healing.places import Places
from edge_agent.serving.healing.plan_store import PlanStore
from edge_agent.serving.healing.proof import Prover
from edge_agent.serving.loading import Loader
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion


class ByHand:
    """`want` queues a build, which is made although there is a plan where the last argument says so; `again` loads anew."""

    def __init__(
        self,
        lookout: Lookout,
        plans: PlanStore,
        prover: Prover,
        places: Places,
        loader: Loader,
        want: Callable[[ServedVersion, KeyState, str, bool], None],
        again: Callable[[ServedVersion], None],
        loaded: Callable[[ServedVersion], bool],
    ) -> None:
        self._lookout = lookout
        self._plans = plans
        self._prover = prover
        self._places = places
        self._loader = loader
        self._want = want
        self._again = again
        self._loaded = loaded

    async def build(self, version: ServedVersion) -> None:
        """Has its plan built anew now, whatever failed before. Returns at once.

        Unsupported, EngineLoadError; StoreError, StoreFull where the plan could not be kept.
        """
        outlook = await self._lookout.look(version)
        await self._loader.end_idle_hosts()  # one that was only asked for its facts
        keys = outlook.situation.keys
        if version.entry.onnx is None:
            raise errors.Unsupported("%s has no model.onnx that a plan could be built of" % version.label)
        if not keys:
            raise errors.Unsupported("no plan can be built here: %s" % outlook.situation.facts.text)
        await self._plans.look()
        await self._plans.cleared(*[state.key for state in keys])
        self._want(version, keys[0], outlook.demands, True)

    async def verify(self, version: ServedVersion) -> Dict[str, Any]:
        """Compares the plan that serves, loaded a second time aside, with golden or ONNX Runtime outputs now.

        One that this agent has built and that is wrong is put aside; the version comes back without it. One that is
        only slow, here and now, goes on. Unsupported where no plan serves; ModelNotReady where it is unloaded meanwhile.
        """
        plan = version.plan
        if version.engine != "tensorrt" or plan is None:
            raise errors.Unsupported("%s is not served from a TensorRT plan" % version.label)
        demands = await in_thread(recipe.demands, version.config, version.entry.path.parent.parent)
        proof = await self._prover.prove(self._places.candidate(version, plan.path, plan.sidecar, version.truth_digest), None)
        if proof.good is None and not self._loaded(version):
            raise errors.ModelNotReady("%s was unloaded before the check of its plan was over" % version.label)
        own = bool(plan.sidecar.sha256) and plan.sidecar.precision != "as it is"
        if proof.good:
            version.verified, version.figures = True, proof.figures
            if own:
                version.plan = await self._plans.good(plan, demands, proof.figures)
        elif proof.good is False and own and not proof.slow:
            if proof.code == WRONG:
                await self._plans.wrong(plan, demands, proof.figures, proof.reason)
            else:
                await self._plans.quarantine(plan, proof.code, proof.reason)
                await self._plans.failed(plan.sidecar.key, proof.code, proof.reason, permanent=False)
            self._again(version)
        return {"good": proof.good, "code": proof.code, "reason": proof.reason, **proof.figures}
