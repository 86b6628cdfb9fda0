"""What each JetPack brings, out of `matrix.toml`: L4T releases, SoCs, versions, and what of it was checked."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Tuple

from edge_agent.config import toml

#: within the package, so that a wheel holds it; `jetpack/matrix.toml` is a link to it
MATRIX = Path(__file__).with_name("matrix.toml")

Numbers = Tuple[int, ...]


@dataclass(frozen=True)
class Soc:
    """One chip, by the word in the device tree."""

    name: str
    boards: Tuple[str, ...]
    sm: int  #: 87 is compute capability 8.7
    fp16: bool
    int8: bool
    dla_cores: int  #: at most


@dataclass(frozen=True)
class Family:
    """One JetPack major: the Linux and the Pythons under it."""

    jetpack: str
    l4t_majors: Tuple[int, ...]
    ubuntu: str
    kernel: str
    glibc: str
    systemd: int
    python: str  #: of TensorRT and OpenCV
    agent_python: str
    agent_constraints: str
    host_constraints: str


@dataclass(frozen=True)
class Release:
    """One JetPack."""

    jetpack: str
    l4t: Tuple[str, ...]  #: 38.2 stands for each 38.2.x
    socs: Tuple[str, ...]
    cuda: str
    cudnn: str
    tensorrt: str
    opencv: str
    verified: str  #: contract-tested or untested
    contract: str  #: the TensorRT bindings or list of names it was checked against

    def has(self, l4t: Numbers) -> bool:
        """Whether it is the JetPack of that L4T."""
        return any(_covers(numbers(known), l4t) for known in self.l4t)


@dataclass(frozen=True)
class Matrix:
    """The whole table."""

    socs: Tuple[Soc, ...]
    families: Tuple[Family, ...]
    releases: Tuple[Release, ...]

    def soc(self, name: Optional[str]) -> Optional[Soc]:
        """The chip of that name."""
        return next((soc for soc in self.socs if soc.name == name), None)

    def family(self, major: int) -> Optional[Family]:
        """The family of an L4T major."""
        return next((family for family in self.families if major in family.l4t_majors), None)

    def release(self, l4t: Numbers) -> Optional[Release]:
        """The JetPack of exactly that L4T."""
        return next((release for release in self.releases if release.has(l4t)), None)

    def nearest(self, l4t: Numbers) -> Tuple[str, Release]:
        """The newest known L4T not above it with the same major, else the oldest of that major; the major must be known."""
        known = sorted((numbers(text), text, release) for release, text in self._all() if numbers(text)[0] == l4t[0])
        below = [row for row in known if row[0] <= l4t]
        _, text, release = below[-1] if below else known[0]
        return text, release

    def _all(self) -> Tuple[Tuple[Release, str], ...]:
        return tuple((release, text) for release in self.releases for text in release.l4t)


def numbers(l4t: str) -> Numbers:
    """`36.4.3` as (36, 4, 3); raises ValueError for anything but numbers and dots."""
    return tuple(int(part) for part in l4t.split("."))


@functools.lru_cache(maxsize=None)
def matrix() -> Matrix:
    """The table that came with this version of the agent."""
    return parse(MATRIX.read_text(encoding="utf-8"))


def parse(text: str) -> Matrix:
    """A table of that form."""
    tables = toml.parse(text)
    return Matrix(
        socs=tuple(Soc(**_frozen(row)) for row in tables["soc"]),
        families=tuple(Family(**_frozen(row)) for row in tables["family"]),
        releases=tuple(Release(**_frozen(row)) for row in tables["release"]),
    )


def _frozen(row: Any) -> Any:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def _covers(known: Numbers, l4t: Numbers) -> bool:
    """36.4 is the release 36.4.0 and nothing else, except where the table itself says two numbers only."""
    if len(known) < 3:
        return l4t[: len(known)] == known
    return known == l4t + (0,) * (len(known) - len(l4t))
