"""`[version_policy]` of a model: which of its versions are served."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Tuple

from pydantic import Field, model_validator

from edge_agent.config.section import Section


class LatestVersions(Section):
    """The newest ones."""

    num_versions: int = Field(1, ge=1, description="how many of the highest numbers are served")


class AllVersions(Section):
    """Every one."""


class SpecificVersions(Section):
    """Those named."""

    versions: Tuple[int, ...] = Field(min_length=1, description="numbers of the versions that are served")


class VersionPolicy(Section):
    """One of the three; silent is the newest one."""

    latest: Optional[LatestVersions] = Field(None, description="the highest numbers")
    all: Optional[AllVersions] = Field(None, description="every version")
    specific: Optional[SpecificVersions] = Field(None, description="the versions named")

    @model_validator(mode="after")
    def _only_one(self) -> Any:
        if sum(choice is not None for choice in (self.latest, self.all, self.specific)) > 1:
            raise ValueError("takes one of latest, all, specific")
        return self

    def select(self, available: Iterable[int]) -> Tuple[int, ...]:
        """The versions to serve out of those in the folder, lowest first."""
        numbers = sorted(set(available))
        if self.all is not None:
            return tuple(numbers)
        if self.specific is not None:
            wanted = set(self.specific.versions)
            return tuple(number for number in numbers if number in wanted)
        count = self.latest.num_versions if self.latest is not None else 1
        return tuple(numbers[-count:])
