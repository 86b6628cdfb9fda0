"""Which file of somebody's is meant: what an operator, a start or a change of the repository has brought up, and no other."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import Awaitable, Callable, Dict

from edge_agent import errors
from edge_agent.engines.plans.shelf import Plan
from edge_agent.serving.healing.decision import Decision, decide
from edge_agent.serving.healing.outlook import Outlook
from edge_agent.serving.version import ServedVersion

_MOST = 4096  #: versions

#: nobody asked for the load that goes on: it brings back what was there
_unasked: ContextVar[bool] = ContextVar("unasked", default=False)


class Meant:
    """Plans that are loaded as they lie in the repository, by the SHA-256 that each version came up with."""

    def __init__(self) -> None:
        self._sha256: Dict[str, str] = {}

    def came(self, version: ServedVersion, plan: Plan) -> None:
        """The version serves from this plan."""
        self._sha256.pop(version.label, None)
        self._sha256[version.label] = plan.sidecar.sha256
        while len(self._sha256) > _MOST:
            del self._sha256[next(iter(self._sha256))]

    def decide(self, version: ServedVersion, outlook: Outlook, of_itself: bool = False) -> Decision:
        """As `decide`, but for plans that were changed and that nobody has asked for.

        `of_itself`: nobody has asked. EngineLoadError (plan.changed) where there is nothing else.
        """
        decision, plan = decide(outlook.situation), outlook.foreign
        if decision.serve != "file" or plan is None or not (of_itself or _unasked.get()):
            return decision
        if self._sha256.get(version.label, plan.sidecar.sha256) == plan.sidecar.sha256:
            return decision
        text = "%s is not the plan that was loaded; `edge-agent models load %s` takes it" % (plan.path, version.name)
        if version.entry.onnx is None:
            raise errors.EngineLoadError(text, code="plan.changed")
        return decide(replace(outlook.situation, foreign=text))


def unasked(again: Callable[[str, str], Awaitable[None]]) -> Callable[[str, str], Awaitable[None]]:
    """The same, of its own accord: what somebody has put in a plan's place meanwhile is not taken for it."""

    async def of_itself(name: str, number: str) -> None:
        before = _unasked.set(True)
        try:
            await again(name, number)
        finally:
            _unasked.reset(before)

    return of_itself
