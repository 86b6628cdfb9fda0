"""How a version's TensorRT plan comes to be, as the status shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional


@dataclass
class BuildStatus:
    """Changed in place while it goes on."""

    state: str = "queued"  #: queued | building | checking | failed | done
    phase: str = ""  #: waiting | parse | build | serialize | load | compare | time
    percent: float = 0.0
    eta_s: Optional[float] = None  #: None where nothing tells
    tries: int = 0  #: in this start
    code: str = ""  #: of the table: why the last try failed
    reason: str = ""
    text: str = ""  #: what it waits for, or does again

    @property
    def pending(self) -> bool:
        """Whether a plan may come of it yet."""
        return self.state in ("queued", "building", "checking")

    def end(self, reason: str) -> None:
        """Its job is over, in whatever way: where nothing else was said, for this reason."""
        if self.pending:
            self.state, self.phase, self.percent, self.eta_s, self.text = "failed", "", 0.0, None, ""
            self.reason = self.reason or reason

    def as_json(self) -> Dict[str, Any]:
        """The `build` of a version in `/api/status`."""
        return {
            "state": self.state,
            "phase": self.phase,
            "percent": round(self.percent, 1),
            "eta_s": None if self.eta_s is None else round(self.eta_s, 1),
            "tries": self.tries,
            "code": self.code,
            "reason": self.reason,
            "text": self.text,
        }
