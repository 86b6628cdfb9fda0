"""Looks at everything that a decision needs: the host, the files, the shelf, the tries."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Optional, Tuple

from edge_agent import errors
from edge_agent.config.model_config import ModelConfig
from edge_agent.device.board import read_board
from edge_agent.domain.gpu import GpuFacts
from edge_agent.engines.plans.digest import onnx_digest
from edge_agent.engines.plans.key import PlanTarget
from edge_agent.engines.plans.shelf import Plan
from edge_agent.serving.healing import recipe
from edge_agent.serving.healing.decision import Situation
from edge_agent.serving.healing.places import Places
from edge_agent.serving.healing.plan_store import PlanStore
from edge_agent.serving.healing.surroundings import Surroundings
from edge_agent.serving.loading import Loader
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion

_MAX_FOREIGN = 256


@dataclass(frozen=True)
class Outlook:
    """A situation with what it takes to act on it."""

    situation: Situation
    truth_digest: str = ""
    foreign: Optional[Plan] = None  #: somebody's plan, as far as it may be loaded
    demands: str = ""  #: digest of what a plan must fulfil


@dataclass
class _Refused:
    """Somebody's plans that TensorRT did not take, by their keys; while the agent runs."""

    reasons: Dict[str, str] = field(default_factory=dict)


class Lookout:
    """Facts of hosts are asked anew each time: a GPU may come late."""

    def __init__(self, loader: Loader, places: Places, plans: PlanStore, trust: str, surroundings: Surroundings) -> None:
        self._loader = loader
        self._places = places
        self._plans = plans
        self._trust = trust
        self._surroundings = surroundings
        self._refused = _Refused()

    def refuse(self, plan: Plan, reason: str) -> None:
        """Somebody's plan was not taken: it is not tried again until the agent starts anew or the file is another."""
        self._refused.reasons[plan.sidecar.key] = reason
        while len(self._refused.reasons) > _MAX_FOREIGN:
            del self._refused.reasons[next(iter(self._refused.reasons))]

    async def look(self, version: ServedVersion) -> Outlook:
        """EngineLoadError where files cannot be read."""
        entry = version.entry
        wanted = entry.onnx is not None or self._trust != "none"
        facts = await self._loader.facts(self._places.gpu(version.config)) if wanted else GpuFacts()
        onnx = entry.onnx
        if not facts.usable:
            return Outlook(Situation(facts, onnx is not None, entry.plan is not None, self._trust))
        target = PlanTarget.of(facts, await in_thread(self._l4t))
        foreign, reason = await self._foreign(version, target)
        if onnx is None:
            return Outlook(Situation(facts, False, True, self._trust, reason), foreign=foreign)
        digest = await in_thread(onnx_digest, onnx)
        keys = recipe.keys(version.config, facts, target, digest, await in_thread(_calibration, version.config, onnx))
        demands = await in_thread(recipe.demands, version.config, entry.path.parent.parent)
        states = await self._plans.states(onnx, keys, demands, self._trust != "none")
        has_plan = entry.plan is not None
        return Outlook(
            Situation(facts, True, has_plan, self._trust, reason, states, self._plans.fault, self._plans.fault_code),
            digest,
            foreign,
            demands,
        )

    async def _foreign(self, version: ServedVersion, target: PlanTarget) -> Tuple[Optional[Plan], str]:
        """The plan that lies in the repository, where it may be loaded as it is, and why it is not."""
        path = version.entry.plan
        if path is None or (version.entry.onnx is not None and self._trust != "all"):
            return None, ""
        try:
            plan, reason = await self._plans.foreign(path, target)
        except OSError as error:
            raise errors.EngineLoadError("%s cannot be read: %s" % (path, error.strerror)) from error
        return plan, reason or self._refused.reasons.get(plan.sidecar.key, "")

    def _l4t(self) -> str:
        return read_board(self._surroundings.root).l4t or ""


def _calibration(config: ModelConfig, onnx: Path) -> str:
    """Digest of the calibration cache; empty where none is named. What is missing is the builder's to tell."""
    file = recipe.calibration_file(config, onnx, "int8")
    return "" if file is None else recipe.file_sha256(file)
