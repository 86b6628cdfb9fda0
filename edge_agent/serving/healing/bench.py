"""Where plans are built: one order for the builder, and what it leaves brought onto the shelf."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.engines.build_order import BuildOrder, BuildProgress
from edge_agent.engines.builder import Builder
from edge_agent.engines.plans import plan_files
from edge_agent.engines.plans.digest import onnx_digest
from edge_agent.engines.plans.onnx_files import external_files
from edge_agent.engines.plans.shelf import Plan
from edge_agent.engines.plans.sidecar import Sidecar
from edge_agent.serving.healing import recipe
from edge_agent.serving.healing.job import Job
from edge_agent.serving.healing.places import Places
from edge_agent.serving.healing.plan_store import PlanStore
from edge_agent.serving.journal import Journal
from edge_agent.serving.threads import in_thread

_log = logging.getLogger(__name__)

_SAME = "the build gave the very plan that was put aside before"


class Built(NamedTuple):
    """A plan that is not on the shelf yet, or is there unverified."""

    path: Path
    sidecar: Sidecar
    plan: Optional[Plan]  #: on the shelf


class Changed(Exception):
    """The model's files are not those any more that the plan should be made of."""


class Bench:
    """A builder for each interpreter."""

    def __init__(self, plans: PlanStore, places: Places, clock: Clock, journal: Journal, root: Path) -> None:
        self._plans = plans
        self._places = places
        self._clock = clock
        self._journal = journal
        self._root = root
        self._builders: Dict[str, Builder] = {}

    async def stop(self) -> None:
        """Ends what builds."""
        for builder in self._builders.values():
            await builder.stop()

    async def wait(self, job: Job) -> str:
        """Why its build had better not begin yet: memory is short, or a builder that was killed is still there."""
        lingers = next((text for text in (builder.lingers() for builder in self._builders.values()) if text), "")
        try:
            return lingers or await self._builder(self._python(job)).wait(await self._order(job))
        except OSError:
            return ""  # the model went: the build says so

    async def build(self, job: Job, beside: bool) -> Built:
        """One try. BuildFailed, StoreError, OSError. `beside`: not onto the shelf, where a plan lies that serves meanwhile."""
        version, onnx = job.first, job.first.entry.onnx
        assert onnx is not None
        before = await self._made_of(job, onnx)
        order = await self._order(job)
        temporary, builder = Path(order.output_path), self._builder(self._python(job))
        report = await builder.build(order, lambda progress: _told(job, progress))
        try:
            if await self._made_of(job, onnx) != before:
                raise Changed
        except Changed:
            await in_thread(plan_files.discard, temporary)
            raise
        for warning in report.warnings:
            _log.warning("build of %s: %s", version.label, warning, extra={"code": "model.warning"})
        sidecar = Sidecar.of(job.key, version.label, report.precision, self._clock.now(), report.io, report.as_json())
        if beside:
            return Built(temporary, sidecar, None)
        plan = await self._plans.add(temporary, sidecar)
        if plan.sidecar.sha256 in plan.sidecar.refused_plans:
            await self._plans.quarantine(plan, "engine.plan_refused", _SAME)
            raise errors.BuildFailed("%s: %s" % (version.label, _SAME), "engine.plan_refused")
        return Built(plan.path, plan.sidecar, plan)

    async def _made_of(self, job: Job, onnx: Path) -> Tuple[object, ...]:
        """What tells the files apart from all that could have been put in their place meanwhile. Changed."""
        calibration = recipe.calibration_file(job.first.config, onnx, job.precision)

        def look() -> Tuple[object, ...]:
            digest = recipe.file_sha256(calibration) if calibration is not None else ""
            if onnx_digest(onnx) != job.key.model or digest != job.key.recipe.calibration:
                raise Changed
            files = [onnx, *external_files(onnx), *([calibration] if calibration is not None and calibration.exists() else [])]
            return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in map(os.stat, map(str, files)))

        try:
            return await in_thread(look)
        except (errors.EngineLoadError, OSError) as error:  # it goes or changes in this moment
            raise Changed from error

    async def _order(self, job: Job) -> BuildOrder:
        temporary, timing_cache = await self._plans.paths(job.key)
        version = job.first
        onnx = version.entry.onnx
        assert onnx is not None
        size = await in_thread(_model_bytes, onnx)
        return recipe.order(version.label, onnx, version.config, job.precision, temporary, timing_cache, size)

    def _python(self, job: Job) -> str:
        return self._places.python(job.first.config)

    def _builder(self, python: str) -> Builder:
        if python not in self._builders:
            self._builders[python] = Builder(python, self._clock, self._root, self._on_builder)
        return self._builders[python]

    def _on_builder(self, kind: str, label: str, text: str) -> None:
        self._journal.event(kind, label, code="engine.building", args={"model": label, "text": text}, text=text)


def _told(job: Job, progress: BuildProgress) -> None:
    status = job.status
    if status.state != "building":
        return  # its last word, after the job was ended
    status.phase, status.percent, status.eta_s, status.text = (
        progress.phase,
        progress.percent,
        progress.eta_s,
        progress.text,
    )


def _model_bytes(onnx: Path) -> int:
    total = os.stat(str(onnx)).st_size
    with contextlib.suppress(errors.EngineLoadError, OSError):
        total += sum(os.stat(str(file)).st_size for file in external_files(onnx))
    return total
