"""Has TensorRT plans built, each in a child of its own that may be killed at any moment without harm."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Set, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.engines.build_order import MIB, BuildOrder, BuildProgress, BuildReport
from edge_agent.engines.build_run import BuildRun
from edge_agent.engines.build_watch import BuildLimits, available_bytes, shortage
from edge_agent.engines.plans.onnx_files import external_files
from edge_agent.errors import BuildFailed, EngineError

_log = logging.getLogger(__name__)

_PLAN_MARGIN_BYTES = 32 * MIB  # a plan holds kernels beside the weights; the timing cache needs room too
_KEPT = 64  # models of which it is known how their last build went
_DEFAULT_LIMITS = BuildLimits()

OnProgress = Callable[[BuildProgress], None]


class Builder:
    """Builds plans. Raises nothing but BuildFailed, and leaves nothing behind when it fails or is cancelled.

    `python` is the interpreter that has TensorRT (empty: the agent's own), `root` where /proc/meminfo is looked for.
    """

    def __init__(
        self,
        python: str,
        clock: Clock,
        root: Path = Path("/"),
        on_event: Callable[[str, str, str], None] = lambda kind, name, text: None,
        limits: BuildLimits = _DEFAULT_LIMITS,
    ) -> None:
        self._python = python
        self._clock = clock
        self._root = root
        self._on_event = on_event
        self._limits = limits
        self._runs: Set[BuildRun] = set()
        self._stopped = False
        self._too_large: OrderedDict[str, int] = OrderedDict()  # label: workspace at which memory ended its builder
        self._took: OrderedDict[str, float] = OrderedDict()  # label: seconds

    async def stop(self) -> None:
        """Ends the builds that run; none is begun any more. Idempotent."""
        self._stopped = True
        for run in list(self._runs):
            run.end("the agent stops")

    async def build(self, order: BuildOrder, on_progress: OnProgress) -> BuildReport:
        """One plan at `order.output_path`; cancelling it ends the child at once."""
        self._refuse_when_stopped(order)
        with contextlib.ExitStack() as undo:
            undo.callback(_remove, order.output_path)
            undo.callback(_remove, order.timing_temporary)
            model_bytes = await asyncio.get_running_loop().run_in_executor(None, _look_for_room, order)
            await self._admit(order, model_bytes, on_progress)
            report = await self._run(order, on_progress)
            undo.pop_all()
        return report

    def _refuse_when_stopped(self, order: BuildOrder) -> None:
        if self._stopped:
            raise BuildFailed("%s: the agent stops" % order.label, "build.killed")

    async def _admit(self, order: BuildOrder, model_bytes: int, on_progress: OnProgress) -> None:
        """Waits for memory: a build that would be ended for lack of it only costs time."""
        share = self._limits.memory_share_bytes + 2 * model_bytes
        deadline = self._clock.monotonic() + order.timeout_s
        told = False
        while True:
            short = shortage(available_bytes(self._root), order.memory_floor_bytes, share)
            if not short:
                return
            if self._clock.monotonic() > deadline:
                raise BuildFailed("%s: after %g s %s" % (order.label, order.timeout_s, short), "build.out_of_memory")
            on_progress(BuildProgress("waiting", text=short))
            if not told:
                self._on_event("engine.building", order.label, short)
                told = True
            await asyncio.sleep(self._limits.look_s)
            self._refuse_when_stopped(order)

    async def _run(self, order: BuildOrder, on_progress: OnProgress) -> BuildReport:
        label = order.label
        order = replace(order, expected_s=order.expected_s or self._took.get(label, 0.0))
        run = BuildRun(
            self._python,
            order,
            self._workspaces(order),
            self._clock,
            self._root,
            self._limits,
            self._telling(order, on_progress),
        )
        self._runs.add(run)
        try:
            report = await run.run()
            _look_at(order)
        except BuildFailed as error:
            if error.code == "build.out_of_memory":
                _keep(self._too_large, label, run.workspace_bytes)
            raise
        finally:
            self._runs.discard(run)
        self._too_large.pop(label, None)
        _keep(self._took, label, report.seconds)
        return report

    def _workspaces(self, order: BuildOrder) -> Tuple[int, ...]:
        """Largest first; after one that has ended a builder of this model only smaller ones, or the smallest again."""
        sizes = tuple(sorted(set(order.workspace_bytes), reverse=True))
        limit = self._too_large.get(order.label, 0)
        return tuple(size for size in sizes if not limit or size < limit) or sizes[-1:]

    def _telling(self, order: BuildOrder, on_progress: OnProgress) -> OnProgress:
        """Progress goes to who asked; what is done again is an event too, once."""
        told = ""

        def tell(progress: BuildProgress) -> None:
            nonlocal told
            if progress.text and progress.text != told:
                told = progress.text
                _log.info("build of %s: %s", order.label, told)
                self._on_event("engine.building", order.label, told)
            on_progress(progress)

        return tell


def _keep(kept: OrderedDict[str, Any], label: str, value: Any) -> None:
    """Newest last; the oldest goes when there are too many."""
    kept.pop(label, None)
    kept[label] = value
    while len(kept) > _KEPT:
        kept.popitem(last=False)


def _remove(path: str) -> None:
    if path:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _model_bytes(order: BuildOrder) -> int:
    """Of the file with its external data; what cannot be read the builder has to say."""
    if order.model_bytes:
        return order.model_bytes
    path = Path(order.onnx_path)
    size = 0
    with contextlib.suppress(OSError, EngineError):
        size = path.stat().st_size
        size += sum(file.stat().st_size for file in external_files(path))
    return size


def _look_for_room(order: BuildOrder) -> int:
    """The model's bytes; BuildFailed when the disk could not hold its plan."""
    folder = os.path.dirname(order.output_path) or "."
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise BuildFailed("%s: %s cannot be written to: %s" % (order.label, folder, error), "build.no_space") from error
    model_bytes = _model_bytes(order)
    need = model_bytes + _PLAN_MARGIN_BYTES
    if free < need:
        text = "%s: the plan may take %d MB, %s has %d MB left"
        raise BuildFailed(text % (order.label, need // MIB, folder, free // MIB), "build.no_space")
    return model_bytes


def _look_at(order: BuildOrder) -> None:
    """BuildFailed when there is no plan after all."""
    try:
        size = os.stat(order.output_path).st_size
    except OSError as error:
        raise BuildFailed("%s: the builder left no plan: %s" % (order.label, error)) from error
    if not size:
        raise BuildFailed("%s: the builder left an empty plan" % order.label)
