"""`[vision]`: the processes that read cameras and decode pictures."""

from __future__ import annotations

from pydantic import Field

from edge_agent.config.section import Section


class VisionSection(Section):
    """Camera and image children."""

    python: str = Field("", description="interpreter with OpenCV for camera and image processes; empty is the agent's own")
