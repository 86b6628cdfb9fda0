"""What a model saw in a picture, and the row that is kept of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

Box = Tuple[float, float, float, float]  #: x1, y1, x2, y2 in pixels


@dataclass(frozen=True)
class Detection:
    """One object (box set) or one class of the whole picture (box None)."""

    label: str
    score: float
    box: Optional[Box] = None
    extra: Mapping[str, Any] = field(default_factory=dict)  #: whatever else a decoder adds

    def as_json(self) -> Dict[str, Any]:
        """The object as `result.objects` and the detect answer hold it."""
        box = None if self.box is None else [round(v, 2) for v in self.box]
        return {"label": self.label, "score": round(self.score, 4), "box": box, **self.extra}


@dataclass(frozen=True)
class Instant:
    """A moment on this machine: wall clock for people, monotonic for order (design.md section 8)."""

    at: str  #: RFC 3339 UTC with milliseconds
    clock_synced: bool
    boot_id: str
    monotonic_ns: int


@dataclass(frozen=True)
class Result:
    """One kept result: becomes a row of table `result`."""

    source: str  #: camera/NAME, http/NAME, mqtt/MODEL
    model: str
    version: str
    captured: Instant
    width: int
    height: int
    objects: Tuple[Detection, ...]  #: boxes in pixels of the source picture
    stages_us: Mapping[str, int]
    latency_us: int
    request_id: str = ""
    media_id: Optional[str] = None


@dataclass(frozen=True)
class RequestRecord:
    """One served or refused request: becomes a row of table `request_log`."""

    request_id: str
    model: str
    version: str
    source: str
    received_at: str
    input_bytes: int
    batch_size: int
    queue_us: int
    compute_us: int
    total_us: int
    status: str  #: "ok", or the error's code
    error: str = ""
