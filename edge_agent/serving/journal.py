"""What serving tells the store; the store's own methods fit."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Protocol

from edge_agent.domain.requests import InferRequest, Timing
from edge_agent.domain.results import RequestRecord
from edge_agent.errors import EdgeAgentError, EngineError, UnavailableError


class Journal(Protocol):
    """Rows that nobody waits for."""

    def request_done(self, record: RequestRecord, sampled: bool = False) -> None:
        """One request ended."""

    def event(
        self,
        kind: str,
        subject: str = "",
        actor: str = "self",
        code: str = "",
        args: Optional[Mapping[str, Any]] = None,
        text: str = "",
    ) -> object:
        """Something worth telling happened."""

    def model_version(
        self,
        name: str,
        version: str,
        platform: str,
        sha256: str,
        state: str,
        load_ms: int,
        error: str,
        metrics: Optional[Mapping[str, Any]] = None,
    ) -> object:
        """A version's state changed; `metrics` are the figures of its check."""


def record(
    request: InferRequest, version: str, received_at: str, timing: Timing, batch_size: int, status: str = "ok", error: str = ""
) -> RequestRecord:
    """The row of one request."""
    return RequestRecord(
        request_id=request.id,
        model=request.model,
        version=version,
        source=request.source,
        received_at=received_at,
        input_bytes=sum(tensor.nbytes for tensor in request.inputs),
        batch_size=batch_size,
        queue_us=timing.queue_us,
        compute_us=timing.compute_us,
        total_us=timing.total_us,
        status=status,
        error=error,
    )


def failure_reason(error: EdgeAgentError) -> str:
    """Triton's word for why a request failed."""
    if isinstance(error, UnavailableError):
        return "REJECTED"
    return "BACKEND" if isinstance(error, EngineError) else "OTHER"
