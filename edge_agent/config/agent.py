"""`[agent]`: who this agent is and where it keeps its things."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator
from typing_extensions import Literal

from edge_agent.config.section import FolderPath, Name, Section

DEFAULT_STATE_DIR = Path("/var/lib/edge-agent")


class AgentSection(Section):
    """Identity, state directory, logs."""

    id: Name = Field("auto", description="identity; auto: 12 hex digits made from the board's serial, else from the machine-id")
    title: str = Field("", max_length=200, description="what people see as this agent's name, in any language")
    state_dir: FolderPath = Field(
        DEFAULT_STATE_DIR, description="folder of the database, the tokens and the last good configuration"
    )
    stop_timeout_s: float = Field(30.0, gt=0, le=600, description="longest time for an orderly stop")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level of what is logged")
    log_format: Literal["text", "json"] = Field("text", description="lines for people, or one JSON object a line")

    @field_validator("title")
    @classmethod
    def _one_line(cls, title: str) -> str:
        if title.isprintable():
            return title
        raise ValueError("should be one line of printable text")
