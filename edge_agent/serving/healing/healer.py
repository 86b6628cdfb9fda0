"""Serves versions that TensorRT should run, with what there is, and has made what is missing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Awaitable, Callable, Collection, Dict, Optional, Tuple

from edge_agent import errors
from edge_agent.config.models import ModelsSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import State
from edge_agent.engines.plans.shelf import Plan
from edge_agent.processes.arena import Arena
from edge_agent.serving.build_status import BuildStatus
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.healing.by_hand import ByHand
from edge_agent.serving.healing.crashes import Crashes
from edge_agent.serving.healing.decision import WRONG, Decision, KeyState
from edge_agent.serving.healing.doubts import Doubts
from edge_agent.serving.healing.golden import GOLDEN_UNREADABLE
from edge_agent.serving.healing.late_gpu import LateGpu
from edge_agent.serving.healing.meant import Meant, unasked
from edge_agent.serving.healing.on_duty import OnDuty
from edge_agent.serving.healing.outlook import Lookout, Outlook
from edge_agent.serving.healing.places import Places
from edge_agent.serving.healing.plan_store import PlanStore
from edge_agent.serving.healing.proof import Prover, cannot_run, refuses
from edge_agent.serving.healing.queue import BuildQueue
from edge_agent.serving.healing.surroundings import Surroundings
from edge_agent.serving.healing.workshop import Workshop
from edge_agent.serving.journal import Journal
from edge_agent.serving.loading import Loader, load_code
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)

#: how a load fails: for the file's sake, or the host's
_NOT_UP = (errors.EngineError, errors.ChildError)
_MAX_PLANS = 4  #: that one load tries before ONNX Runtime serves


class Healer:
    """`connect` gives it the ways to load anew; the loader asks it to load what TensorRT should run."""

    def __init__(
        self,
        section: ModelsSection,
        loader: Loader,
        catalogue: Catalogue,
        arena: Arena,
        clock: Clock,
        journal: Journal,
        state_dir: Optional[Path],
        surroundings: Surroundings,
    ) -> None:
        self.plans = PlanStore(state_dir, section.plans_max_bytes, clock, surroundings.tries_clock)
        self._loader = loader
        self._catalogue = catalogue
        self._journal = journal
        self._places = Places(loader)
        self._lookout = Lookout(loader, self._places, self.plans, section.trust_plans, surroundings)
        self._prover = Prover(loader, arena, clock)
        trusts = section.trust_plans != "none"
        on_duty = OnDuty(catalogue)
        self._workshop = Workshop(self.plans, self._prover, self._places, on_duty, clock, journal, surroundings, trusts)
        self._workshop.review, self._workshop.again_later = self._review, self._again_later
        self._queue = BuildQueue(self._workshop.work, self._workshop.broken, clock)
        self._doubts = Doubts(self.plans)
        self._meant = Meant()
        self._tasks = Tasks()
        self._late = LateGpu(loader, self._places, catalogue, self._again, surroundings.late_s)
        self.by_hand = ByHand(
            self._lookout, self.plans, self._prover, self._places, loader, self._want, self._again_later, self._late.serves
        )

    def connect(
        self,
        again: Callable[[str, str], Awaitable[None]],
        pinned: Callable[[], Collection[Tuple[str, str]]],
    ) -> None:
        """`again` loads one version anew. `pinned`: name and number of those whose plans are kept whatever their bound."""
        self._workshop.again, self._workshop.pinned = unasked(again), pinned

    def crashes(self, otherwise: Callable[[ServedVersion], None]) -> Callable[[ServedVersion], None]:
        """What becomes of versions that end their host again and again; `otherwise` where no plan is to blame."""
        return Crashes(self._tasks, self._put_aside, self.plans, self._again, otherwise).crashed

    async def stop(self) -> None:
        """Ends builds and checks; nothing is begun any more."""
        await self._queue.stop()
        await self._workshop.stop()
        await self._late.stop()
        await self._tasks.stop()

    def close(self) -> None:
        """After the last engine ended."""
        self.plans.close()

    # -- loading ----------------------------------------------------------------------------------------------------

    async def load(self, version: ServedVersion) -> None:
        """Brings the version up with the best that there is now. EngineLoadError, ConfigError."""
        version.on_gone = lambda: self._queue.leave(version)
        for _ in range(_MAX_PLANS):
            outlook = await self._lookout.look(version)
            version.truth_digest = outlook.truth_digest
            decision = self._meant.decide(version, outlook)
            if decision.serve == "nothing":
                raise errors.EngineLoadError(str(decision.args["text"]), code=decision.code)
            if decision.serve == "onnx":
                await self._serve_onnx(version, decision, outlook.demands)
                return
            if await self._serve_plan(version, outlook, decision):
                return
        raise errors.EngineLoadError("%d plans of it were refused one after another" % _MAX_PLANS)

    async def _serve_plan(self, version: ServedVersion, outlook: Outlook, decision: Decision) -> bool:
        """False where the plan was no good: it is put aside then, and what is left is to be looked at."""
        state = decision.plan
        plan = state.plan if state is not None else outlook.foreign
        assert plan is not None
        try:
            await self._bring(version, plan)
        except _NOT_UP as error:
            return await self._not_loaded(version, outlook, state, plan, error)
        self._late.came(version)
        self._doubts.over(plan)
        if state is None and not version.aside:
            self._meant.came(version, plan)
        job = self._queue.job(plan.sidecar.key, outlook.demands)
        version.build = job.status if job is not None else None
        version.plan, version.verified, version.figures = plan, plan.sidecar.verified, dict(plan.sidecar.figures)
        if decision.code:
            _log.warning("%s: %s", version.label, decision.args, extra={"code": decision.code})
        version.rest(decision.state, decision.code, **decision.args)
        return True

    async def _bring(self, version: ServedVersion, plan: Plan) -> None:
        host = self._places.gpu(version.config)
        await self._loader.bring(version, "tensorrt", plan.path, host, sha256=plan.sidecar.sha256)

    async def _not_loaded(
        self, version: ServedVersion, outlook: Outlook, state: Optional[KeyState], plan: Plan, error: errors.EdgeAgentError
    ) -> bool:
        """The plan's own fault, or that of the moment."""
        if load_code(error) == "plan.changed":
            _log.error("%s: %s", version.label, error, extra={"code": "plan.changed"})
            return False  # the shelf gives no plan out whose digest is not the sidecar's
        alone = self._loader.is_empty(self._places.gpu(version.config))
        if load_code(error) == "plan.foreign" or (refuses(error) and alone):
            await self._put_aside(version, state, plan, error)
            if version.entry.onnx is None:
                raise error
            return False
        if refuses(error) and state is not None and await self._doubts.of(version, plan, error):
            return False
        if version.entry.onnx is None:
            raise error
        _log.error("%s: its plan cannot be loaded now: %s", version.label, error, extra={"code": load_code(error)})
        decision = Decision("onnx", State.DEGRADED, "engine.unavailable", {"text": str(error)})
        await self._serve_onnx(version, decision, outlook.demands)
        return True

    async def _put_aside(
        self, version: ServedVersion, state: Optional[KeyState], plan: Plan, error: errors.EdgeAgentError
    ) -> None:
        """Never again. Somebody's file that TensorRT does not take is asked again after a restart; one that kills is not."""
        reason = str(error)
        if state is not None or error.args_by_name.get("deaths"):
            await self.plans.quarantine(plan, "engine.plan_refused", reason)
        if state is not None:
            await self.plans.failed(state.key.digest, "engine.plan_refused", reason, permanent=False)
        else:
            self._lookout.refuse(plan, reason)
        _log.error("%s: plan put aside: %s", version.label, reason, extra={"code": "engine.plan_refused"})
        args = {"model": version.label, "text": reason}
        self._journal.event("engine.plan_refused", version.label, code="engine.plan_refused", args=args, text=reason)

    async def _serve_onnx(self, version: ServedVersion, decision: Decision, demands: str) -> None:
        onnx = version.entry.onnx
        assert onnx is not None
        try:
            await self._loader.bring(version, "onnxruntime", onnx, self._places.onnx())
        except _NOT_UP as error:
            if decision.work is None:
                raise
            await self._without_onnx(version, decision.work, error, demands)
            return
        version.plan, version.verified, version.figures = None, False, {}
        self._say(version, decision)
        self._wish(version, decision, demands)
        if decision.code == "engine.unavailable":
            self._late.expect(version)
        await self._loader.end_idle_hosts()  # the one that was only asked for its facts

    async def _without_onnx(self, version: ServedVersion, work: KeyState, error: errors.EdgeAgentError, demands: str) -> None:
        """Nothing serves until there is a plan; one that nothing ever can be compared with serves as it is, and says so."""
        plan = work.plan
        if plan is None or not cannot_run(error):
            self._want(version, work, demands)
            what = "is built" if plan is None else "has passed its check"
            text = "ONNX Runtime cannot serve it (%s); it is ready when its TensorRT plan %s" % (error, what)
            raise errors.EngineLoadError(text) from error
        proof = await self._prover.prove(self._places.candidate(version, plan.path, plan.sidecar, work.key.model), None)
        if proof.good is False and not proof.slow:
            if proof.code == WRONG:
                await self.plans.wrong(plan, demands, proof.figures, proof.reason)
            else:
                await self.plans.quarantine(plan, proof.code, proof.reason)
                await self.plans.failed(work.key.digest, proof.code, proof.reason, permanent=False)
            raise errors.EngineLoadError("ONNX Runtime cannot serve it (%s), nor its plan: %s" % (error, proof.reason))
        if proof.good:
            plan = await self.plans.good(plan, demands, proof.figures)
        elif proof.code == GOLDEN_UNREADABLE:  # somebody must see to these files
            version.build = BuildStatus("failed", code=proof.code, reason=proof.reason)
            raise errors.EngineLoadError(proof.reason, code=proof.code)
        elif not proof.incomparable:
            self._want(version, work, demands)  # it is checked again soon
            raise errors.EngineLoadError("its plan cannot be checked: %s" % proof.reason)
        await self._bring(version, plan)
        version.plan, version.verified, version.figures = plan, bool(proof.good), proof.figures
        if proof.good:
            version.rest(State.OK)
            return
        _log.warning("%s: its plan is served without a check: %s", version.label, error, extra={"code": "engine.unverified"})
        version.rest(State.DEGRADED, "engine.unverified", text=str(error))

    # -- what is said and wished ------------------------------------------------------------------------------------

    async def _review(self, version: ServedVersion) -> None:
        """What is known has changed while the version serves: another plan may help, or it says why none does."""
        demands = ""
        try:
            outlook = await self._lookout.look(version)
            decision, demands = self._meant.decide(version, outlook, of_itself=True), outlook.demands
        except errors.EdgeAgentError as error:  # its files went
            decision = Decision("onnx", State.DEGRADED, "engine.build_failed", {"text": str(error)})
        await self._loader.end_idle_hosts()  # one that was only asked for its facts
        if version.unused is not None and (decision.work is not None or decision.serve == "plan"):
            code, text = version.unused
            cause = code if code in (WRONG, GOLDEN_UNREADABLE) else "engine.unverified"
            decision = Decision("onnx", State.DEGRADED, code, {"text": text, "cause": cause})
        if version.hosted is not None and version.engine == "tensorrt":
            return
        if decision.serve == "plan":
            self._again_later(version)
        elif decision.serve == "onnx":
            self._say(version, decision)
            self._wish(version, decision, demands)

    def _again_later(self, version: ServedVersion) -> None:
        self._tasks.spawn(self._again(version), "again:" + version.label)

    async def _again(self, version: ServedVersion) -> None:
        try:
            await self._workshop.again(version.name, version.version)
        except errors.EdgeAgentError as error:
            _log.error("%s: %s", version.label, error, extra={"code": error.code})

    def _say(self, version: ServedVersion, decision: Decision) -> None:
        if version.hosted is not None:
            version.rest(decision.state, decision.code, **decision.args)
        else:
            version.become(State.FAILED, decision.code, **decision.args)

    def _wish(self, version: ServedVersion, decision: Decision, demands: str) -> None:
        if decision.work is not None:
            self._want(version, decision.work, demands)
            if decision.args:
                self._fell(version, decision.args)
            return
        self._queue.leave(version)
        cause = str(decision.args.get("cause", ""))
        if cause:
            version.build = BuildStatus("failed", code=cause, reason=str(decision.args.get("text", "")))

    def _want(self, version: ServedVersion, work: KeyState, demands: str, forced: bool = False) -> None:
        job = self._queue.want(version, work.key, work.precision, forced, demands)
        version.build = BuildStatus("failed", reason="too many builds wait") if job is None else job.status
        if job is not None:
            job.status.tries = work.tries

    def _fell(self, version: ServedVersion, args: Dict[str, Any]) -> None:
        _log.warning("%s: %s", version.label, args, extra={"code": "engine.precision_fell"})
        self._journal.event(
            "engine.precision_fell", version.label, code="engine.precision_fell", args=args, text=str(args.get("text", ""))
        )

    # -- what happens to a plan that serves -------------------------------------------------------------------------

    def lost(self, version: ServedVersion) -> None:
        """Its host came back without it: it comes up with what there is."""
        if not version.aside and version.engine == "tensorrt" and version.entry.onnx is not None:
            self._again_later(version)
