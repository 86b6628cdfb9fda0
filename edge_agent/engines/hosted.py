"""A model version in an engine host, and what the host is made of."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Deque, List, Optional

from edge_agent.domain.status import PartStatus, State
from edge_agent.engines.instance import EngineInstance
from edge_agent.engines.load import LoadOrder, LoadReport
from edge_agent.errors import ChildCannotStart, EngineError, EngineLoadError
from edge_agent.processes.child import Child
from edge_agent.processes.false_starts import CODE
from edge_agent.processes.supervisor import Supervisor, SupervisorState

CANNOT_START = "engine_host.cannot_start"

#: a model whose loading or lone run ends its host this often within a minute is stopped
_DEATHS_ALLOWED = 3
_DEATH_WINDOW_S = 60.0


@dataclass(frozen=True)
class HostOptions:
    """`[hosts.NAME]`, resolved."""

    name: str
    python: str = ""
    batch_timeout_s: float = 10.0
    load_timeout_s: float = 300.0
    memory_max_bytes: int = 0  #: 0: no bound
    memory_look_s: float = 5.0  #: how often that is looked at
    memory_pause_s: float = 300.0  #: at least between two ends for it
    memory_root: Path = Path("/")  #: where the machine's memory is looked up
    nice: int = 0


@dataclass(eq=False)
class HostedModel:
    """A model version in a host."""

    order: LoadOrder
    instances: List[EngineInstance]
    report: Optional[LoadReport] = None
    error: Optional[EngineError] = None  #: why it cannot be loaded any more
    deaths: Deque[float] = field(default_factory=deque)  #: that it is to blame for
    kills: Deque[float] = field(default_factory=deque)  #: from outside, while it was loaded

    @property
    def ready(self) -> bool:
        """Whether every instance takes batches."""
        return self.error is None and all(instance.loaded for instance in self.instances)

    def died(self, now: float, reason: str) -> bool:
        """Its loading, or a lone run of it, ended its host; True when that was once too often, as `error` says."""
        deaths = _counted(self.deaths, now)
        if deaths < _DEATHS_ALLOWED:
            return False
        text = "%s ended its engine host %d times within a minute; last: %s"
        self.error = EngineLoadError(text % (self.order.label, deaths, reason), code="model.stopped", deaths=deaths)
        return True

    def killed(self, now: float, reason: str) -> bool:
        """Its host was killed while it was loaded, for want of memory most likely: no word about the model. As `died`."""
        if _counted(self.kills, now) < _DEATHS_ALLOWED:
            return False
        text = (
            "the engine host of %s was killed %d times within a minute while it was loaded (is there memory for it?); last: %s"
        )
        self.error = EngineLoadError(text % (self.order.label, len(self.kills), reason), code="model.stopped")
        return True

    async def load_instance(self, child: Child, instance: EngineInstance, timeout_s: float) -> None:
        """Has the host load it once, with a channel of its own. ChildError; EngineLoadError where it is not what it was."""
        sock, theirs = child.instance_channel()
        with contextlib.closing(theirs), contextlib.ExitStack() as undo:
            undo.callback(sock.close)
            fields = self.order.fields(instance.number)
            report = LoadReport.read(await child.call("load", fields, (theirs.fileno(),), timeout_s))
            if self.report is not None and not report.same_model(self.report):
                raise EngineLoadError("%s has other inputs or outputs than before: its file changed" % self.order.label)
            undo.pop_all()
        self.report = report
        instance.connect(sock, report)

    def close(self) -> None:
        """Takes no batches any more; its host, if it runs, frees what it had for them."""
        for instance in self.instances:
            instance.close()


def _counted(ends: Deque[float], now: float) -> int:
    """How many there were in the last minute, with the one now."""
    ends.append(now)
    while ends[0] < now - _DEATH_WINDOW_S:
        ends.popleft()
    return len(ends)


async def process_of(supervisor: Supervisor, timeout_s: float) -> Child:
    """The host's process, once it is up. ChildError; one that cannot be started says so by an engine host's code."""
    try:
        return await supervisor.wait_up(timeout_s)
    except ChildCannotStart as error:
        raise ChildCannotStart(str(error), code=CANNOT_START) from error


def end_code(supervisor: Supervisor) -> str:
    """Why the host's process ended, as an engine host has it."""
    if supervisor.code == CODE:
        return CANNOT_START
    return supervisor.code if supervisor.code.startswith("engine_host.") else "engine_host.died"


def part_status(name: str, supervisor: Supervisor, over: str = "") -> PartStatus:
    """The state of the host itself; `over`: why it runs on although it takes too much memory."""
    reason = over or supervisor.reason
    args = {"host": name, "text": reason, "reason": reason}
    if supervisor.state is SupervisorState.UP:
        if over:
            return PartStatus(State.DEGRADED, supervisor.since, "engine_host.memory", args)
        return PartStatus(State.OK, supervisor.since, args=args)
    if not supervisor.reason:
        return PartStatus(State.DEGRADED, supervisor.since, "engine_host.starting", args)
    return PartStatus(State.FAILED, supervisor.since, end_code(supervisor), args)
