"""One plan that somebody wants: to be built, checked and swapped in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Tuple

from edge_agent.engines.plans.key import PlanKey
from edge_agent.serving.build_status import BuildStatus
from edge_agent.serving.version import ServedVersion


@dataclass(eq=False)
class Job:
    """Wanted by versions whose models, settings, sizes and demands are the same."""

    key: PlanKey
    precision: str
    forced: bool = False  #: built although there is a plan
    versions: Dict[ServedVersion, None] = field(default_factory=dict)  #: first come, first named
    status: BuildStatus = field(default_factory=BuildStatus)
    due: float = 0.0  #: monotonic seconds
    ending: bool = False  #: it is being swapped in: versions that go now go for it
    waits: bool = False  #: for memory, which was told
    unable: int = 0  #: checks that could not be made, or in a slow moment
    demands: str = ""  #: digest of what its plan must fulfil
    slot: Tuple[str, str] = ("", "")  #: digest of the key, and the demands that its versions had in common when they came

    @property
    def first(self) -> ServedVersion:
        """Who it is done for, where one must be named."""
        return next(iter(self.versions))

    def labels(self) -> List[str]:
        """`NAME/VERSION` of all."""
        return [version.label for version in self.versions]

    def unnamed(self, reason: str) -> str:
        """The reason without the name of the one that it was done for: it is told of all that want this plan."""
        for label in self.labels():
            if reason.startswith(label + ": "):
                return reason[len(label) + 2 :]
        return reason
