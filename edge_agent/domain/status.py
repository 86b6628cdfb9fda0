"""The state of a part as `/api/status` shows it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping

from edge_agent.domain import codes


class State(enum.Enum):
    """ok: does its job; degraded: does it worse; failed: does not; off: not asked to."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"
    OFF = "off"


@dataclass(frozen=True)
class PartStatus:
    """State of one part since a moment, with the code that says why."""

    state: State
    since: str = ""  #: RFC 3339 UTC
    code: str = ""  #: a key of domain/codes.py; empty when ok
    args: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> Dict[str, Any]:
        """`{state, since, code, args, reason, cure}`; reason and cure in English."""
        return {
            "state": self.state.value,
            "since": self.since,
            "code": self.code,
            "args": dict(self.args),
            "reason": codes.reason(self.code, self.args),
            "cure": codes.cure(self.code, self.args),
        }
