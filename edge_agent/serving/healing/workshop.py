"""Does one job: has the plan built, tries it, and has it swapped in. What fails is remembered, so that it ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Awaitable, Callable, Collection, Dict, Optional, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.engines.plans import plan_files
from edge_agent.engines.plans.shelf import Plan
from edge_agent.serving.build_status import BuildStatus
from edge_agent.serving.healing import recipe
from edge_agent.serving.healing.bench import Bench, Built, Changed
from edge_agent.serving.healing.decision import WRONG, KeyState
from edge_agent.serving.healing.golden import GOLDEN_UNREADABLE
from edge_agent.serving.healing.job import Job
from edge_agent.serving.healing.on_duty import OnDuty
from edge_agent.serving.healing.places import Places
from edge_agent.serving.healing.plan_store import PlanStore, store_code
from edge_agent.serving.healing.proof import Proof, Prover
from edge_agent.serving.healing.surroundings import Surroundings
from edge_agent.serving.journal import Journal
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion

_log = logging.getLogger(__name__)

_UNABLE_MAX = 3

Tell = Callable[[str, str, str, Dict[str, Any]], None]  #: kind of the event, subject, code, args


class Workshop:
    """`review` says anew what a version serves with and wants; `again` loads a version anew, up or not, `again_later` soon."""

    def __init__(
        self,
        plans: PlanStore,
        prover: Prover,
        places: Places,
        on_duty: OnDuty,
        clock: Clock,
        journal: Journal,
        surroundings: Surroundings,
        trusts: bool,
    ) -> None:
        self.review: Callable[[ServedVersion], Awaitable[None]]
        self.again: Callable[[str, str], Awaitable[None]]
        self.again_later: Callable[[ServedVersion], None]
        self.pinned: Callable[[], Collection[Tuple[str, str]]]
        self._plans = plans
        self._prover = prover
        self._places = places
        self._on_duty = on_duty
        self._journal = journal
        self._surroundings = surroundings
        self._trusts = trusts  #: plans beside their models, as far as their sidecars fit
        self._bench = Bench(plans, places, clock, journal, surroundings.root)

    async def stop(self) -> None:
        """Ends what builds."""
        await self._bench.stop()

    async def work(self, job: Job) -> Optional[float]:
        """One step of the job; None when it is over, else the seconds until the next."""
        onnx = job.first.entry.onnx
        assert onnx is not None
        job.demands = await in_thread(recipe.demands, job.first.config, job.first.entry.path.parent.parent)
        (state,) = await self._plans.states(onnx, [(job.precision, job.key)], job.demands, self._trusts)
        job.status.tries = state.tries
        if state.plan is None or job.forced:
            if not job.forced and (not state.may_build or self._plans.fault):
                await self._conclude(job)
                return None
            if not job.forced and state.wait_s:
                _show(job.status, "queued", "waiting", eta_s=state.wait_s)
                return min(state.wait_s, self._surroundings.look_s)
            short = await self._bench.wait(job)
            if short:
                return self._wait(job, short)
            try:
                await self._plans.look()
                built = await self._build(job, state)
            except errors.StoreError as error:
                self._show_failure(job, store_code(error), str(error))
                await self._conclude(job)
                return None
            except Changed:
                await self._plans.cancelled(job.key.digest)
                await self._look_again(job)
                return None
            if built is None:
                return await self._after_failure(job, keeps=state.plan is not None)
        else:
            built = Built(state.plan.path, state.plan.sidecar, state.plan)
        return await self._check(job, built)

    # -- building ---------------------------------------------------------------------------------------------------

    def _wait(self, job: Job, why: str) -> float:
        """No try is lost by waiting, and other builds go first meanwhile."""
        _show(job.status, "queued", "waiting")
        job.status.text = why
        if not job.waits:
            job.waits = True
            _log.info("%s: the build waits: %s", ", ".join(job.labels()), why)
            self._tell("engine.building", job, "engine.building", {"text": why})
        return self._surroundings.look_s

    async def _build(self, job: Job, state: KeyState) -> Optional[Built]:
        """None where that failed; it is written down then."""
        job.status.tries = await self._plans.begin(job.key.digest)
        job.waits = False
        _show(job.status, "building", "parse")
        self._tell("engine.building", job, "engine.building", {"tries": job.status.tries})
        try:
            built = await self._bench.build(job, beside=state.plan is not None)
        except errors.BuildFailed as error:
            await self._failed(job, error.code, str(error), error.permanent)
            return None
        except (errors.StoreError, OSError) as error:  # or the model went meanwhile
            await self._failed(job, store_code(error), str(error), False)
            return None
        except asyncio.CancelledError:
            await self._plans.cancelled(job.key.digest)
            raise
        if built.plan is not None:
            await self._kept(job, built.plan)
        return built

    async def _after_failure(self, job: Job, keeps: bool) -> Optional[float]:
        """`keeps`: the plan that was to be replaced serves on, and that was all. Else there may be another try."""
        job.forced = False
        if not keeps:
            return 0.0
        await self._conclude(job)
        return None

    async def broken(self, job: Job, error: BaseException) -> None:
        """Something that nobody foresaw ended a step of the job: it is over, and its versions say so."""
        reason = "%s: %s" % (type(error).__name__, error)
        await self._failed(job, "build.failed", reason, False)
        for version in job.versions:
            version.unused = ("engine.build_failed", reason)
        await self._conclude(job)

    async def _failed(self, job: Job, code: str, reason: str, permanent: bool) -> None:
        reason = job.unnamed(reason)
        await self._plans.failed(job.key.digest, code, reason, permanent)
        self._show_failure(job, code, reason)

    @staticmethod
    def _show_failure(job: Job, code: str, reason: str) -> None:
        _log.error("%s: %s", ", ".join(job.labels()), reason, extra={"code": code})
        status = job.status
        status.code, status.reason, status.percent, status.eta_s = code, reason, 0.0, None

    # -- checking ---------------------------------------------------------------------------------------------------

    async def _check(self, job: Job, built: Built) -> Optional[float]:
        try:
            if built.plan is None or not built.plan.sidecar.verified:
                proof = await self._prove(job, built)
                if not proof.good and not (proof.incomparable and not self._on_duty.is_on_onnx(job)):
                    return await self._not_taken(job, built, proof)
                await self._taken(job, built, proof)
        except asyncio.CancelledError:
            await self._plans.cancelled(job.key.digest)
            raise
        except errors.StoreError as error:
            await self._failed(job, store_code(error), str(error), False)
            return await self._after_failure(job, keeps=built.plan is None)
        finally:
            if built.plan is None:
                await in_thread(plan_files.discard, built.path)
        await self._swap_in(job)
        return None

    async def _prove(self, job: Job, built: Built) -> Proof:
        _show(job.status, "checking", "load")

        def told(phase: str, percent: float) -> None:
            _show(job.status, "checking", phase, percent)

        version = job.first
        candidate = self._places.candidate(version, built.path, built.sidecar, job.key.model)
        return await self._prover.prove(candidate, self._on_duty.by_onnx(job), told)

    async def _taken(self, job: Job, built: Built, proof: Proof) -> None:
        """Good, or with nothing to compare it with: then it stays unverified, and is served only where nothing else can."""
        plan = built.plan or await self._plans.add(built.path, built.sidecar)
        if proof.good:
            await self._plans.good(plan, job.demands, proof.figures)
        if built.plan is None:
            await self._kept(job, plan)

    async def _not_taken(self, job: Job, built: Built, proof: Proof) -> Optional[float]:
        if proof.good is None or proof.slow:
            return await self._unable(job, built, proof)
        if proof.code != WRONG:
            if built.plan is not None:
                await self._plans.quarantine(built.plan, proof.code, proof.reason)
            await self._failed(job, proof.code, proof.reason, permanent=False)
        else:
            if built.plan is not None:
                await self._plans.wrong(built.plan, job.demands, proof.figures, proof.reason)
            await self._plans.succeeded(job.key.digest)  # the build did; what came of it is remembered with the plan
            self._show_failure(job, proof.code, proof.reason)
        self._tell("engine.plan_refused", job, proof.code, {"text": proof.reason, **proof.figures})
        return await self._after_failure(job, keeps=built.plan is None)

    async def _unable(self, job: Job, built: Built, proof: Proof) -> Optional[float]:
        """The check itself failed, or the box was too busy: it is made again a few times, and then at the next load.

        Golden files do not mend themselves.
        """
        job.unable += 1
        job.status.code, job.status.reason = proof.code, proof.reason
        _log.warning("the plan of %s is not taken yet: %s", ", ".join(job.labels()), proof.reason)
        files = proof.code == GOLDEN_UNREADABLE
        if not (proof.incomparable or files) and job.unable < _UNABLE_MAX and built.plan is not None:
            pause_s = self._surroundings.slow_s if proof.slow else self._surroundings.unable_s
            _show(job.status, "queued", "waiting", eta_s=pause_s)
            return pause_s
        await self._plans.cancelled(job.key.digest)
        own = proof.slow or files
        for version in job.versions:
            why = proof.reason if own else "its plan could not be checked: %s" % proof.reason
            version.unused = (proof.code if own else "engine.build_failed", why)
        await self._conclude(job)
        return None

    # -- ending -----------------------------------------------------------------------------------------------------

    async def _swap_in(self, job: Job) -> None:
        job.ending = True
        await self._plans.succeeded(job.key.digest)
        for version in list(job.versions):
            why = await self._again(version)
            served = self._on_duty.now(version)
            if why:
                _show(job.status, "failed")
                job.status.code, job.status.reason = "engine.plan_refused", why
                _log.error("%s goes on as it is: %s", version.label, why, extra={"code": "engine.plan_refused"})
                if served is version:
                    version.unused = ("engine.build_failed", "its plan could not be swapped in: %s" % why)
                    await self.review(version)
            elif served is not None and served.engine == "tensorrt":
                _show(job.status, "done", percent=100.0)
                job.status.code = job.status.reason = ""
                served.build = job.status
                args = {"model": version.label, "precision": job.precision, "verified": served.verified}
                self._journal.event("engine.built", version.label, code="engine.built", args={**args, **served.figures})
                _log.info("%s runs on TensorRT (%s): %s", version.label, job.precision, served.figures)

    async def _again(self, version: ServedVersion) -> str:
        """Why the version did not come up anew, or empty."""
        try:
            await self.again(version.name, version.version)
        except errors.EdgeAgentError as error:
            return str(error)
        return ""

    async def _conclude(self, job: Job) -> None:
        """Nothing more is tried here: another precision may be, and what serves says why."""
        _show(job.status, "failed")
        if job.status.code:
            self._tell("engine.build_failed", job, job.status.code, {"text": job.status.reason})
        await self._look_again(job)

    async def _look_again(self, job: Job) -> None:
        """The job is over; what its versions want now may be another one."""
        job.ending = True
        for version in list(job.versions):
            await self.review(version)

    async def _kept(self, job: Job, plan: Plan) -> None:
        """It lies on the shelf. Others that run what lay in its place follow; old plans over the bound go.

        This one, what serves and what served before stays.
        """
        for version in self._on_duty.on_former(plan):
            if version not in job.versions:
                self.again_later(version)
        await self._plans.trim([job.key.digest, *self._on_duty.keys()], ["%s/%s" % pair for pair in self.pinned()])

    def _tell(self, kind: str, job: Job, code: str, args: Dict[str, Any]) -> None:
        for label in job.labels():
            self._journal.event(kind, label, code=code, args={"model": label, **args}, text=str(args.get("text", "")))


def _show(status: BuildStatus, state: str, phase: str = "", percent: float = 0.0, eta_s: Optional[float] = None) -> None:
    status.state, status.phase, status.percent, status.eta_s, status.text = state, phase, percent, eta_s, ""
