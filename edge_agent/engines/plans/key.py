"""What a plan is good for: the model, the box and how it was built. Another value of any of them is another plan."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Sequence, Tuple

from edge_agent.domain.gpu import GpuFacts

#: raised when this agent's builder makes other plans of the same order
BUILDER_VERSION = 2

_DIGITS = 32
_TIMING_DIGITS = 16

#: {input: {"min" | "opt" | "max": shape}}
Profile = Mapping[str, Mapping[str, Sequence[int]]]


@dataclass(frozen=True)
class PlanTarget:
    """The box that a plan is made for."""

    tensorrt: str  #: with its build, as in 10.3.0.26
    cuda_driver: int
    compute_capability: Tuple[int, int]
    device: str
    multiprocessors: int  #: boards of one generation differ in it
    cuda_runtime: int = 0
    l4t: str = ""  #: as in 36.4.3; empty where it is no Jetson
    plugins: Tuple[str, ...] = ()  #: SHA-256 of each plugin library

    @classmethod
    def of(cls, facts: GpuFacts, l4t: str = "") -> PlanTarget:
        """As the engine host says what it runs on."""
        major, minor = facts.compute_capability
        return cls(
            tensorrt=facts.tensorrt,
            cuda_driver=facts.cuda_driver,
            compute_capability=(major, minor),
            device=facts.device,
            multiprocessors=facts.multiprocessors,
            cuda_runtime=facts.cuda_runtime,
            l4t=l4t,
            plugins=tuple(sorted(facts.plugins)),
        )


@dataclass(frozen=True)
class PlanRecipe:
    """How a plan is built."""

    precision: str  #: fp32, fp16, int8
    strongly_typed: bool = False
    calibration: str = ""  #: SHA-256 of the calibration cache; empty without one
    profiles: Tuple[Profile, ...] = ()  #: as given; empty where they follow from the two below
    max_batch_size: int = 0
    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict)  #: declared shapes by name
    workspace_mb: int = 0
    optimization_level: int = -1  #: -1: the library's own
    flags: Tuple[str, ...] = ()
    dla_core: int = -1
    gpu_fallback: bool = True


@dataclass(frozen=True)
class PlanKey:
    """Names a plan. `model` is `onnx_digest`."""

    model: str
    target: PlanTarget
    recipe: PlanRecipe

    @functools.cached_property
    def digest(self) -> str:
        """32 hex digits: the plan's name on the shelf."""
        return _digest(self.fields(), _DIGITS)

    @functools.cached_property
    def timing_name(self) -> str:
        """Name of the timing cache: what was measured on this box serves every model."""
        recipe = self.fields()["recipe"]
        own = ("precision", "strongly_typed", "workspace_mb", "optimization_level", "flags", "dla_core", "gpu_fallback")
        fields = {**self.fields(), "model": "", "recipe": {name: recipe[name] for name in own}}
        return "timing-%s.cache" % _digest(fields, _TIMING_DIGITS)

    def fields(self) -> Dict[str, Any]:
        """Everything that counts, as JSON has it."""
        recipe = dataclasses.asdict(self.recipe)
        recipe["flags"] = sorted(recipe["flags"])
        target = dataclasses.asdict(self.target)
        fields: Dict[str, Any] = json.loads(
            _text({"builder": BUILDER_VERSION, "model": self.model, "target": target, "recipe": recipe})
        )
        return fields


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _digest(fields: Mapping[str, Any], digits: int) -> str:
    return hashlib.sha256(_text(fields).encode("ascii")).hexdigest()[:digits]
