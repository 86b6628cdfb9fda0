"""One builder child: started, told its order, watched, and ended for certain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Any, Callable, Coroutine, Dict, Mapping, Optional

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.engines.build_order import BuildOrder, BuildProgress, BuildReport
from edge_agent.engines.build_watch import BuildLimits, BuildWatch, Sign, Verdict, available_bytes, cpu_seconds
from edge_agent.errors import BuildFailed
from edge_agent.processes.child import Child, ChildSpec

_MODULE = "edge_agent.engine_host.build.main"
_NICE = 10
_OOM_SCORE_ADJ = 1000  # the kernel's first choice
_OWN_END_S = 2.0  # what a process has to end by itself after its channel closed


class BuildRun:
    """The life of one builder child. When `run` returns it was killed; `gone` says whether the kernel let it go, too."""

    def __init__(
        self,
        python: str,
        order: BuildOrder,
        fields: Mapping[str, Any],
        clock: Clock,
        root: Path,
        limits: BuildLimits,
        on_progress: Callable[[BuildProgress], None],
    ) -> None:
        self.workspace_bytes = 0  #: the size that it tries at present
        self._order = order
        self._fields = fields
        self._clock = clock
        self._root = root
        self._limits = limits
        self._on_progress = on_progress
        self._verdict: Verdict = None
        spec = ChildSpec("build", _MODULE, python=python, oom_score_adj=_OOM_SCORE_ADJ, nice=_NICE)
        self._child = Child(spec, clock, self._hear)

    async def run(self) -> BuildReport:
        """The plan's report; BuildFailed says why there is none."""
        child = self._child
        try:
            child.start()
        except errors.ChildGone as error:
            raise BuildFailed("%s: the builder cannot be started: %s" % (self._order.label, error)) from error
        watching = asyncio.ensure_future(self._watch())
        try:
            return await self._work()
        finally:
            watching.cancel()
            child.kill("its build is over")
            await _to_the_end(child.reaped(self._limits.reap_timeout_s))

    @property
    def gone(self) -> bool:
        """Whether nothing is left of its process; one within a driver's call outlives its SIGKILL until the call returns."""
        self._child.look()
        return self._child.returncode is not None

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._child.pid

    def end(self, reason: str) -> None:
        """Ends it now; `run` raises BuildFailed."""
        self._end("build.killed", reason)

    def _end(self, code: str, reason: str) -> None:
        if self._verdict is None:
            self._verdict = (code, reason)
        self._child.kill(reason)

    async def _work(self) -> BuildReport:
        order, child = self._order, self._child
        try:
            await self._introduce(child)
            return BuildReport.read(await child.call("build", self._fields, timeout_s=order.timeout_s))
        except errors.ChildRefused as error:
            raise _refused(order, error) from error
        except errors.ChildTimeout as error:
            raise self._failed("build.timeout", "it was not done after %g s" % order.timeout_s) from error
        except errors.ChildGone as error:
            raise await self._autopsy() from error
        except errors.InvalidRequest as error:
            raise self._failed("build.failed", str(error), permanent=True) from error
        except (KeyError, TypeError, ValueError) as error:
            raise self._failed("build.failed", "the builder's report cannot be read: %r" % error) from error

    async def _introduce(self, child: Child) -> None:
        try:
            await child.call("ping", timeout_s=self._limits.start_timeout_s)
        except errors.ChildTimeout as error:
            text = "the builder did not start within %g s" % self._limits.start_timeout_s
            raise self._failed("build.killed", text) from error

    async def _watch(self) -> None:
        """Looks at the machine's memory and at the child's life until it has to end."""
        watch, child = BuildWatch(self._limits, self._order.memory_floor_bytes), self._child
        asked = 0
        while True:
            await asyncio.sleep(self._limits.look_s)
            child.look()
            if child.gone:
                return
            verdict = watch.look(
                Sign(self._clock.monotonic(), child.pongs, cpu_seconds(child.pid), available_bytes(self._root))
            )
            if verdict is not None:
                self._end(*verdict)
            elif child.pongs >= asked:
                asked = child.pongs + 1
                with contextlib.suppress(errors.ChildGone):  # `_work` hears of its end
                    child.ping()

    def _hear(self, event: str, fields: Dict[str, Any]) -> None:
        if event != "progress":
            return
        try:
            progress, self.workspace_bytes = _progress(fields), int(fields["workspace_bytes"])
        except (KeyError, TypeError, ValueError) as error:
            self._end("build.failed", "it told progress that cannot be read: %r" % error)
            return
        self._on_progress(progress)

    async def _autopsy(self) -> BuildFailed:
        """Why it ended: what it was ended for, or the kernel's deed, or its own."""
        child = self._child
        if self._verdict is not None:
            return self._failed(*self._verdict)
        if not await child.reaped(_OWN_END_S):
            return self._failed("build.killed", "it closed its channel")
        if child.returncode == -signal.SIGKILL:
            text = "the kernel ended it (%s), most likely for lack of memory" % child.reason()
            return self._failed("build.out_of_memory", text)
        return self._failed("build.killed", child.reason())

    def _failed(self, code: str, text: str, permanent: bool = False) -> BuildFailed:
        return BuildFailed("%s: %s" % (self._order.label, text), code, permanent)


async def _to_the_end(work: Coroutine[Any, Any, Any]) -> None:
    """Awaits work that is bounded, however often the caller is cancelled meanwhile."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def _refused(order: BuildOrder, error: errors.ChildRefused) -> BuildFailed:
    """What the child said itself; an answer that is none of a builder's is no fault of the model."""
    code = error.refusal if error.refusal.startswith("build.") else "build.failed"
    return BuildFailed("%s: %s" % (order.label, error), code, bool(error.detail.get("permanent", False)))


def _progress(fields: Mapping[str, Any]) -> BuildProgress:
    eta_s: Optional[float] = None if fields.get("eta_s") is None else float(fields["eta_s"])
    percent = min(max(float(fields["percent"]), 0.0), 100.0)
    return BuildProgress(str(fields["phase"]), percent, eta_s, str(fields.get("text") or ""))
