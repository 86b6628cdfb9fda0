"""A vision child's answer as a domain value."""

from __future__ import annotations

from typing import Any, Mapping

from edge_agent.domain.frames import FilledFrame, Geometry


def filled_frame(reply: Mapping[str, Any]) -> FilledFrame:
    """What `fill` and `prepare` answer."""
    geometry = Geometry(
        width=reply["width"],
        height=reply["height"],
        scale_x=reply["scale_x"],
        scale_y=reply["scale_y"],
        pad_x=reply["pad_x"],
        pad_y=reply["pad_y"],
    )
    return FilledFrame(reply["sequence"], reply["captured_ns"], geometry, reply["decode_us"], reply["fill_us"])
