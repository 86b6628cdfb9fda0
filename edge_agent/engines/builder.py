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
from typing import Any, Callable, Dict, List, Set, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.engines.build_order import MIB, BuildOrder, BuildProgress, BuildReport
from edge_agent.engines.build_run import BuildRun
from edge_agent.engines.build_watch import BuildLimits, available_bytes, has_little, shortage
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
        self._lingering: List[BuildRun] = []  # killed, and not gone yet
        self._stopped = False
        self._too_large: OrderedDict[str, int] = OrderedDict()  # label: workspace at which memory ended its builder
        self._took: OrderedDict[str, float] = OrderedDict()  # label: seconds

    async def stop(self) -> None:
        """Ends the builds that run; none is begun any more. Idempotent."""
        self._stopped = True
        for run in list(self._runs):
            run.end("the agent stops")

    async def build(self, order: BuildOrder, on_progress: OnProgress) -> BuildReport:
        """One plan at `order.output_path`; cancelling it ends the child at once. Where `wait` says why, it is too early."""
        if self._stopped:
            raise BuildFailed("%s: the agent stops" % order.label, "build.killed")
        lingers = self.lingers()
        if lingers:
            raise BuildFailed("%s: %s" % (order.label, lingers), "build.killed")
        with contextlib.ExitStack() as undo:
            undo.callback(_remove, order.output_path)
            undo.callback(_remove, order.timing_temporary)
            await asyncio.get_running_loop().run_in_executor(None, _look_for_room, order)
            report = await self._run(order, on_progress)
            undo.pop_all()
        return report

    async def wait(self, order: BuildOrder) -> str:
        """Why its build had better not begin yet; empty when it may. One that memory is too short for only costs time."""
        return self.lingers() or await asyncio.get_running_loop().run_in_executor(None, self._short, order)

    def lingers(self) -> str:
        """Says so while a former builder is still there, with all the memory that it has."""
        self._lingering = [run for run in self._lingering if not run.gone]
        pids = ", ".join(str(run.pid) for run in self._lingering)
        return "a former builder (process %s) was killed and has not ended yet" % pids if pids else ""

    def _short(self, order: BuildOrder) -> str:
        share = self._limits.memory_share_bytes + 2 * _model_bytes(order)
        return shortage(available_bytes(self._root), order.memory_floor_bytes, share)

    async def _run(self, order: BuildOrder, on_progress: OnProgress) -> BuildReport:
        label = order.label
        order = replace(order, expected_s=order.expected_s or self._took.get(label, 0.0))
        run = BuildRun(
            self._python,
            order,
            self._fields(order),
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
            self._linger(run)
        self._too_large.pop(label, None)
        _keep(self._took, label, report.seconds)
        return report

    def _linger(self, run: BuildRun) -> None:
        if run.pid and not run.gone:
            self._lingering.append(run)
            _log.error("%s", self.lingers(), extra={"code": "build.killed"})

    def _fields(self, order: BuildOrder) -> Dict[str, Any]:
        """More memory than asked for only where none was short yet and the machine has it to spare."""
        short = has_little(self._root) or order.label in self._too_large
        available = available_bytes(self._root)
        spare = 2 * order.larger_workspace_bytes + order.memory_floor_bytes
        larger = 0 if short or (available is not None and available < spare) else order.larger_workspace_bytes
        return order.fields(self._workspaces(order), larger, short)

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


def _look_for_room(order: BuildOrder) -> None:
    """BuildFailed when the disk could not hold its plan."""
    folder = os.path.dirname(order.output_path) or "."
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise BuildFailed(
            "%s: %s cannot be written to: %s" % (order.label, folder, error.strerror), "build.not_kept"
        ) from error
    need = _model_bytes(order) + _PLAN_MARGIN_BYTES
    if free < need:
        text = "%s: the plan may take %d MB, %s has %d MB left"
        raise BuildFailed(text % (order.label, need // MIB, folder, free // MIB), "build.no_space")


def _look_at(order: BuildOrder) -> None:
    """BuildFailed when there is no plan after all."""
    try:
        size = os.stat(order.output_path).st_size
    except OSError as error:
        raise BuildFailed("%s: the builder left no plan: %s" % (order.label, error)) from error
    if not size:
        raise BuildFailed("%s: the builder left an empty plan" % order.label)
