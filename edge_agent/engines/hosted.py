"""A model version in an engine host, and what the host is made of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Deque, List, Optional

from edge_agent.domain.status import PartStatus, State
from edge_agent.engines.instance import EngineInstance
from edge_agent.engines.load import LoadOrder, LoadReport
from edge_agent.errors import EngineError
from edge_agent.processes.supervisor import Supervisor, SupervisorState


@dataclass(frozen=True)
class HostOptions:
    """`[hosts.NAME]`, resolved."""

    name: str
    python: str = ""
    batch_timeout_s: float = 10.0
    load_timeout_s: float = 300.0


@dataclass(eq=False)
class HostedModel:
    """A model version in a host."""

    order: LoadOrder
    instances: List[EngineInstance]
    report: Optional[LoadReport] = None
    error: Optional[EngineError] = None  #: why it cannot be loaded any more
    deaths: Deque[float] = field(default_factory=deque)

    @property
    def ready(self) -> bool:
        """Whether every instance takes batches."""
        return self.error is None and all(instance.loaded for instance in self.instances)

    def close(self) -> None:
        """Takes no batches any more; its host, if it runs, frees what it had for them."""
        for instance in self.instances:
            instance.close()


def part_status(name: str, supervisor: Supervisor) -> PartStatus:
    """The state of the host itself."""
    args = {"host": name, "text": supervisor.reason, "reason": supervisor.reason}
    if supervisor.state is SupervisorState.UP:
        return PartStatus(State.OK, supervisor.since, args=args)
    if not supervisor.reason:
        return PartStatus(State.DEGRADED, supervisor.since, "engine_host.starting", args)
    return PartStatus(State.FAILED, supervisor.since, "engine_host.died", args)
