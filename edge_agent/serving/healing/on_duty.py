"""Which versions serve now, and with what, of those that a plan is about."""

from __future__ import annotations

from typing import List, Optional

from edge_agent.engines.plans.shelf import Plan
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.healing.job import Job
from edge_agent.serving.version import ServedVersion


class OnDuty:
    """Looks, and changes nothing."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def now(self, version: ServedVersion) -> Optional[ServedVersion]:
        """What is loaded in its place, itself perhaps."""
        model = self._catalogue.get(version.name)
        served = None if model is None else model.loaded(version.version)
        return served if isinstance(served, ServedVersion) else None

    def by_onnx(self, job: Job) -> Optional[ServedVersion]:
        """What answers by ONNX Runtime now, from the very files that the plan is made of."""
        for served in map(self.now, job.versions):
            if served is None or served.truth_digest != job.key.model:
                continue
            if served.ready and served.engine == "onnxruntime":
                return served
        return None

    def is_on_onnx(self, job: Job) -> bool:
        """Whether something answers that is known to be right."""
        now = [self.now(version) for version in job.versions]
        return any(version is not None and version.engine == "onnxruntime" and version.hosted is not None for version in now)

    def keys(self) -> List[str]:
        """Of the plans that run."""
        return [version.plan.sidecar.key for version in self._running() if version.plan is not None]

    def on_former(self, plan: Plan) -> List[ServedVersion]:
        """Versions that run what lay in the file of this plan before: their hosts could not load it again."""
        return [
            version
            for version in self._running()
            if version.plan is not None
            and version.plan.path == plan.path
            and version.plan.sidecar.sha256 != plan.sidecar.sha256
        ]

    def _running(self) -> List[ServedVersion]:
        return [version for version in self._catalogue.running() if isinstance(version, ServedVersion)]
