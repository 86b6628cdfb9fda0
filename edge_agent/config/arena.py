"""`[arena]`: the shared memory that tensors lie in."""

from __future__ import annotations

from pydantic import Field

from edge_agent.config.section import Section


class ArenaSection(Section):
    """The bound of the tensor arena."""

    max_bytes: int = Field(
        268_435_456, ge=1_048_576, le=2**40, description="all shared-memory segments together; unused pages are given back"
    )
