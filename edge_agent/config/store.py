"""`[store]`: the one SQLite file."""

from __future__ import annotations

from pydantic import Field, field_validator
from typing_extensions import Literal

from edge_agent.config.section import Count, Section


class StoreSection(Section):
    """Where results are kept and how soon they are on disk."""

    path: str = Field("edge-agent.db", min_length=1, description="the database, relative to agent.state_dir")
    commit_interval_ms: int = Field(
        50, ge=1, le=10_000, description="longest wait of a row that nobody waits for; others are written at once"
    )
    request_log: Literal["all", "sampled", "errors", "none"] = Field(
        "all", description="which requests become rows; all is up to 100 a second and source, the rest is counted"
    )
    request_log_per_s: float = Field(
        1.0, gt=0, le=1000, description="rows a second and source when sampled (cameras always are)"
    )
    log_max_rows: Count = Field(20_000, description="rows kept in the log table; 0: no bound")

    @field_validator("path")
    @classmethod
    def _a_file(cls, path: str) -> str:
        if "\0" in path or path.endswith("/") or path.startswith((":", "file:")):
            raise ValueError("should name a file on disk")
        return path
