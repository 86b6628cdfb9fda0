"""Makes ensembles, which call the other models through the one door."""

from __future__ import annotations

from typing import Awaitable, Callable, Optional, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.engines.waits import Waits
from edge_agent.processes.arena import Arena
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.ensemble import EnsembleVersion
from edge_agent.serving.ensemble_plan import cycle_through
from edge_agent.serving.ensemble_run import StepDoor
from edge_agent.serving.repository import ModelEntry, VersionEntry
from edge_agent.telemetry.metrics import Metrics


class Ensembles:
    """What all ensembles have in common."""

    def __init__(
        self,
        catalogue: Catalogue,
        arena: Arena,
        clock: Clock,
        metrics: Metrics,
        infer: Callable[[InferRequest], Awaitable[InferResponse]],
        waits: Optional[Waits] = None,
    ) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._metrics = metrics
        self._door = StepDoor(catalogue.lookup, infer, arena, waits or Waits())

    def make(self, entry: ModelEntry, version: VersionEntry) -> EnsembleVersion:
        """One version; its metrics show from now on."""
        self._metrics.model_loaded(entry.name, str(version.number))
        return EnsembleVersion(entry.name, version, entry.config, self._clock, self._door, self._cycle, self._on_run)

    def _cycle(self, name: str) -> Tuple[str, ...]:
        return cycle_through(name, self._catalogue.calls)

    def _on_run(self, name: str, version: str, rows: int) -> None:
        self._metrics.batch_done(name, version, rows, "")
