"""How each request ended: in the version's statistics, the metrics and the request log."""

from __future__ import annotations

from typing import Optional

from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.serving.journal import Journal, record
from edge_agent.serving.servable import Servable
from edge_agent.telemetry.metrics import Metrics


class Accounts:
    """Counts; decides nothing."""

    def __init__(self, metrics: Metrics, journal: Journal, clock: Clock) -> None:
        self._metrics = metrics
        self._journal = journal
        self._clock = clock

    def succeeded(self, request: InferRequest, served: Servable, received_at: str, response: InferResponse) -> None:
        """It was answered, by the model or by the response cache."""
        timing, wall_ms = response.timing, int(self._clock.wall() * 1000)
        if response.cached:
            self._metrics.cache_hit(request.model, served.version, timing.total_us)
            served.statistics.hit(timing.total_us, timing.total_us, wall_ms)
        else:
            rows = request.inputs[0].shape[0] if served.max_batch_size and request.inputs else 1
            self._metrics.request_done(request.model, served.version, True, "", timing, rows)
            served.statistics.succeeded(timing, rows, wall_ms)
        sampled = request.source.startswith("camera/")
        self._journal.request_done(record(request, served.version, received_at, timing, response.batch_size), sampled)

    def failed(
        self,
        request: InferRequest,
        served: Optional[Servable],
        received_at: str,
        started: float,
        reason: str,
        code: str,
        text: str,
    ) -> None:
        """It got an error, or its caller left; `reason` is Triton's word."""
        total_us = int((self._clock.monotonic() - started) * 1e6)
        if served is not None:
            self._metrics.request_done(request.model, served.version, False, reason)
            served.statistics.failed(total_us)
        number = served.version if served is not None else request.version or ""
        self._journal.request_done(record(request, number, received_at, Timing(total_us=total_us), 0, code, text))
