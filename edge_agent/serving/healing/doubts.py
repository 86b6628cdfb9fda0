"""Plans that were loaded when a host with others in it ended again and again: each is checked anew, alone, once."""

from __future__ import annotations

import logging
from typing import Dict

from edge_agent import errors
from edge_agent.engines.plans.shelf import Plan
from edge_agent.serving.healing.plan_store import PlanStore
from edge_agent.serving.loading import load_code
from edge_agent.serving.version import ServedVersion

_log = logging.getLogger(__name__)

_MOST = 256


class Doubts:
    """By what is in the plan: another one of the same key is not in doubt."""

    def __init__(self, plans: PlanStore) -> None:
        self._plans = plans
        self._doubted: Dict[str, None] = {}

    async def of(self, version: ServedVersion, plan: Plan, error: errors.EdgeAgentError) -> bool:
        """Has the plan checked anew. False where that was done, and it came to the same: the check had nothing against it."""
        sha256 = plan.sidecar.sha256
        if sha256 in self._doubted:
            return False
        self._doubted[sha256] = None
        while len(self._doubted) > _MOST:
            del self._doubted[next(iter(self._doubted))]
        _log.error("%s: its plan is checked anew: %s", version.label, error, extra={"code": load_code(error)})
        await self._plans.doubt(plan.sidecar.key)
        return True

    def over(self, plan: Plan) -> None:
        """It was checked, and runs among the others."""
        self._doubted.pop(plan.sidecar.sha256, None)
