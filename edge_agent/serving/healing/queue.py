"""Builds one after another over all models, in the order in which they were wished for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Callable, Coroutine, Dict, List, Optional, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.engines.plans.key import PlanKey
from edge_agent.serving.healing.job import Job
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)

_MAX_JOBS = 1024
_LEFT = "nobody wants this plan any more"
_OVER = "its build ended before its plan could be used"

#: does a job; None when it is over, else the seconds until it is looked at again
Work = Callable[[Job], Coroutine[Any, Any, Optional[float]]]
#: ends a job whose work raised
Broken = Callable[[Job, BaseException], Coroutine[Any, Any, None]]


class BuildQueue:
    """One job runs at a time. A job that nobody wants any more ends, also while it runs."""

    def __init__(self, work: Work, broken: Broken, clock: Clock) -> None:
        self.refused = 0  #: wishes that were one too many
        self._work = work
        self._broken = broken
        self._clock = clock
        self._jobs: Dict[Tuple[str, str], Job] = {}  #: by the key's digest and the demands: each is checked for itself
        self._running: Optional[asyncio.Task[Any]] = None
        self._job: Optional[Job] = None
        self._wake: Optional[asyncio.Event] = None
        self._tasks = Tasks(self._died)
        self._work_tasks = Tasks()
        self._stopped = False

    async def stop(self) -> None:
        """Ends what runs; nothing is begun any more."""
        self._stopped = True
        for job in self._jobs.values():
            job.status.end("the agent stops")
        self._jobs.clear()
        await self._tasks.stop()
        await self._work_tasks.stop()

    def want(
        self, version: ServedVersion, key: PlanKey, precision: str, forced: bool = False, demands: str = ""
    ) -> Optional[Job]:
        """The job that makes this plan, joined or new; the version leaves any other one. None where too many wait.

        `demands`: digest of what the plan must fulfil for this version; who demands something else has another job.
        """
        slot = (key.digest, demands)
        self.leave(version, but=slot)
        job = self._jobs.get(slot)
        if job is None or job.ending:
            if len(self._jobs) >= _MAX_JOBS or self._stopped:
                self.refused += 1
                return None
            job = self._jobs[slot] = Job(key, precision, demands=demands, slot=slot)
        job.forced = job.forced or forced
        if forced:
            job.due = 0.0
        job.versions[version] = None
        self._nudge()
        return job

    def leave(self, version: ServedVersion, but: Tuple[str, str] = ("", "")) -> None:
        """The version wants no plan any more, `but` perhaps that of this digest and these demands."""
        for slot, job in list(self._jobs.items()):
            if slot == but or version not in job.versions or job.ending:
                continue
            del job.versions[version]
            if not job.versions:
                del self._jobs[slot]
                job.status.end(_LEFT)
                if job is self._job and self._running is not None:
                    self._running.cancel()

    def jobs(self) -> List[Job]:
        """What waits and runs, in order."""
        return list(self._jobs.values())

    def job(self, digest: str, demands: str = "") -> Optional[Job]:
        """What makes the plan of this key for these demands, if something does."""
        return self._jobs.get((digest, demands))

    # -- one after another ------------------------------------------------------------------------------------------

    def _nudge(self) -> None:
        if self._wake is None:
            self._begin()
        else:
            self._wake.set()

    def _begin(self) -> None:
        self._wake = asyncio.Event()
        self._tasks.spawn(self._one_by_one(self._wake), "builds")

    def _died(self, error: BaseException) -> None:
        """Whatever happened here, builds go on."""
        if not self._stopped:
            self._begin()

    async def _one_by_one(self, wake: asyncio.Event) -> None:
        while True:
            wake.clear()
            job = min(self._jobs.values(), key=lambda one: one.due, default=None)
            pause_s = None if job is None else job.due - self._clock.monotonic()
            if job is None or (pause_s is not None and pause_s > 0):
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(wake.wait(), pause_s)
                continue
            await self._do(job)

    async def _do(self, job: Job) -> None:
        self._job = job
        self._running = self._work_tasks.spawn(self._work(job), "build:" + job.first.label)
        try:
            await asyncio.wait({self._running})
            done = self._running
        finally:
            self._job = self._running = None
        error = None if done.cancelled() else done.exception()
        again_s = None if done.cancelled() or error is not None else done.result()
        if error is not None and job.versions and not self._stopped:
            job.ending = True  # whoever wants it from now on gets a new one
            await asyncio.wait({self._work_tasks.spawn(self._broken(job, error), "broken:" + job.first.label)})
        if again_s is None or self._jobs.get(job.slot) is not job:
            job.status.end(_OVER if job.versions else _LEFT)  # a step that was cancelled may have said something else meanwhile
        if self._jobs.get(job.slot) is not job:
            return
        if again_s is None:
            del self._jobs[job.slot]
        else:
            job.due = self._clock.monotonic() + again_s
