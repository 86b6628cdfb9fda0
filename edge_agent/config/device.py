"""`[device]`: the board that the agent runs on."""

from __future__ import annotations

from pydantic import Field
from typing_extensions import Literal

from edge_agent.config.section import Section


class DeviceSection(Section):
    """Where temperature, memory and load are read."""

    stats: Literal["auto", "sysfs", "off"] = Field(
        "auto", description="reader of the board's values; auto takes sysfs; off reads none"
    )
