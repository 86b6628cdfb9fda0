"""What the store is told about itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StoreOptions:
    """`[store]` as this room needs it, with whose rows they are."""

    path: Path
    agent_id: str
    board_serial: str = ""
    commit_interval_ms: int = 50
    request_log: str = "all"  #: all | sampled | errors | none
    request_log_per_s: float = 1.0
    log_max_rows: int = 20000
    response_cache_max_bytes: int = 0  #: 0 keeps no answers
    stop_limit_s: float = 10.0
