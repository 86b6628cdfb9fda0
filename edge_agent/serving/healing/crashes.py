"""What becomes of versions that end their host again and again: their plan goes."""

from __future__ import annotations

from typing import Awaitable, Callable, Optional

from edge_agent import errors
from edge_agent.engines.plans.shelf import Plan
from edge_agent.serving.healing.decision import KeyState
from edge_agent.serving.healing.plan_store import PlanStore
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.tasks import Tasks

#: the version, what is known of its key, its plan, why
PutAside = Callable[[ServedVersion, Optional[KeyState], Plan, errors.EdgeAgentError], Awaitable[None]]


class Crashes:
    """`put_aside` sees to it that the plan is never loaded again, `again` loads the version anew; `otherwise` has the rest."""

    def __init__(
        self,
        tasks: Tasks,
        put_aside: PutAside,
        plans: PlanStore,
        again: Callable[[ServedVersion], Awaitable[None]],
        otherwise: Callable[[ServedVersion], None],
    ) -> None:
        self._tasks = tasks
        self._put_aside = put_aside
        self._plans = plans
        self._again = again
        self._otherwise = otherwise

    def crashed(self, version: ServedVersion) -> None:
        """It comes back without its plan, where that is to blame."""
        plan, hosted = version.plan, version.hosted
        if version.aside or version.engine != "tensorrt" or plan is None or version.entry.onnx is None or hosted is None:
            self._otherwise(version)
            return
        self._tasks.spawn(self._without_plan(version, plan, str(hosted.error)), "crashed:" + version.label)

    async def _without_plan(self, version: ServedVersion, plan: Plan, reason: str) -> None:
        await self._put_aside(version, None, plan, errors.EngineLoadError(reason, deaths=1))
        await self._plans.failed(plan.sidecar.key, "engine.plan_refused", reason, permanent=False)
        await self._again(version)
