"""`[models]`: where the models lie and which of them are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Tuple

from pydantic import BeforeValidator, Field, field_validator
from typing_extensions import Annotated, Literal

from edge_agent.config.section import MODEL_NAME_PATTERN, FolderPath, Section


def _folders(value: Any) -> Any:
    items = value if isinstance(value, (list, tuple)) else [value]
    if items and all(isinstance(item, (str, Path)) for item in items):
        return tuple(str(item) for item in items)
    raise ValueError("should be a folder or a list of folders")


class ModelsSection(Section):
    """The model repository and what of it is served."""

    repository: Annotated[Tuple[FolderPath, ...], BeforeValidator(_folders)] = Field(
        (Path("/var/lib/edge-agent/models"),),
        description="folder of models in Triton's layout, or a list of such folders",
    )
    control_mode: Literal["none", "poll", "explicit"] = Field(
        "poll",
        description="none loads every model at start; poll follows what changes in the folders; explicit loads by request",
    )
    load: Tuple[str, ...] = Field(("*",), description="models that explicit mode loads at start; * is every one")
    poll_interval_s: float = Field(
        5.0, ge=0.1, le=86_400, description="how often poll looks; a change counts at the second look"
    )
    trust_plans: Literal["alone", "all", "none"] = Field(
        "alone",
        description="plans that are loaded though the agent did not build them: a model.plan alone, all, or none",
    )
    plans_max_bytes: int = Field(4_294_967_296, ge=0, description="built plans on disk, all together; 0: unlimited")
    strict_readiness: bool = Field(False, description="ready only when every model is, as Triton has it")

    @field_validator("load")
    @classmethod
    def _names(cls, names: Tuple[str, ...]) -> Tuple[str, ...]:
        for name in names:
            if name != "*" and not MODEL_NAME_PATTERN.match(name):
                raise ValueError("%r is not a model's name (nor *)" % name)
        return names

    def wants(self, name: str) -> bool:
        """Whether the model of this name is loaded at start."""
        return self.control_mode != "explicit" or "*" in self.load or name in self.load
