"""`[response_cache]`: the bounds of the answers that are kept for equal requests; a model asks for it in its own config."""

from __future__ import annotations

from pydantic import Field

from edge_agent.config.section import Section


class ResponseCacheSection(Section):
    """How much is kept of models with `response_cache { enable: true }`."""

    memory_max_bytes: int = Field(33_554_432, ge=0, le=2**40, description="answers in memory; 0: none")
    disk_max_bytes: int = Field(
        67_108_864, ge=0, le=2**40, description="answers in the database, for after a restart; 0: none, spares the card"
    )
