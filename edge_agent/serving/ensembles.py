"""Makes ensembles, which call the other models through the one door."""

from __future__ import annotations

from typing import Awaitable, Callable, Optional, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.engines.waits import Waits
from edge_agent.processes.arena import Arena
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.ensemble import ChainFault, EnsembleVersion, Look
from edge_agent.serving.ensemble_plan import cycle_through, nested_over
from edge_agent.serving.ensemble_run import StepDoor
from edge_agent.serving.repository import ModelEntry, VersionEntry
from edge_agent.telemetry.metrics import Metrics

_NESTED_MAX = 16  #: each level multiplies the steps of one request


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
        self._look = Look()
        self._door = StepDoor(catalogue.lookup, infer, arena, waits or Waits())

    def make(self, entry: ModelEntry, version: VersionEntry) -> EnsembleVersion:
        """One version; its metrics show from now on."""
        self._metrics.model_loaded(entry.name, str(version.number))
        statistics = self._catalogue.model(entry.name).statistics_of(str(version.number))
        return EnsembleVersion(
            entry.name, version, entry.config, self._clock, self._door, self._chain_fault, self._look, self._on_run, statistics
        )

    def _chain_fault(self, name: str) -> ChainFault:
        """Code and text where the chain of calls has no end, or one too far away."""
        calls = self._catalogue.calls
        cycle = cycle_through(name, calls)
        if cycle:
            return "model.cycle", " -> ".join(cycle)
        if nested_over(name, calls, _NESTED_MAX) and nested_over(name, self._calls_out_of_circles, _NESTED_MAX):
            return "model.config_rejected", "ensembles call each other over more than %d levels: join some" % _NESTED_MAX
        return "", ""

    def _calls_out_of_circles(self, name: str) -> Tuple[str, ...]:
        """A circle below it is the fault of those in it, not depth."""
        calls = self._catalogue.calls
        return () if cycle_through(name, calls) else calls(name)

    def _on_run(self, name: str, version: str, rows: int) -> None:
        self._metrics.batch_done(name, version, rows, "")
