"""Where plans are built: one order for the builder, and what it leaves brought onto the shelf."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Dict, NamedTuple, Optional

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.engines.build_order import BuildProgress
from edge_agent.engines.builder import Builder
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

    async def build(self, job: Job, beside: bool) -> Built:
        """One try. BuildFailed, StoreError, OSError. `beside`: not onto the shelf, where a plan lies that serves meanwhile."""
        temporary, timing_cache = await self._plans.paths(job.key)
        version = job.first
        onnx = version.entry.onnx
        assert onnx is not None
        size = await in_thread(_model_bytes, onnx)
        order = recipe.order(version.label, onnx, version.config, job.precision, temporary, timing_cache, size)
        builder = self._builder(self._places.python(version.config))
        report = await builder.build(order, lambda progress: _told(job, progress))
        for warning in report.warnings:
            _log.warning("build of %s: %s", version.label, warning, extra={"code": "model.warning"})
        sidecar = Sidecar.of(job.key, version.label, report.precision, self._clock.now(), report.io, report.as_json())
        if beside:
            return Built(temporary, sidecar, None)
        plan = await self._plans.add(temporary, sidecar)
        if plan.sidecar.sha256 in plan.sidecar.refused_plans:
            await self._plans.quarantine(plan, "engine.plan_refused", _SAME)
            raise errors.BuildFailed("%s: %s" % (version.label, _SAME), "engine.plan_refused", permanent=True)
        return Built(plan.path, plan.sidecar, plan)

    def _builder(self, python: str) -> Builder:
        if python not in self._builders:
            self._builders[python] = Builder(python, self._clock, self._root, self._on_builder)
        return self._builders[python]

    def _on_builder(self, kind: str, label: str, text: str) -> None:
        self._journal.event(kind, label, code="engine.building", args={"model": label, "text": text}, text=text)


def _told(job: Job, progress: BuildProgress) -> None:
    status = job.status
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
