"""One engine host: a supervised child with the models it serves. What it had loaded it loads again when it was restarted."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, Optional

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.engines.instance import EngineInstance
from edge_agent.engines.load import LoadOrder, LoadReport
from edge_agent.engines.traffic import Traffic
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.child import Child, ChildSpec
from edge_agent.processes.supervisor import Supervisor, SupervisorState

_log = logging.getLogger(__name__)

#: a model whose loading or lone run ends its host this often within a minute is stopped
_DEATHS_ALLOWED = 3
_DEATH_WINDOW_S = 60.0
_SHARE_TIMEOUT_S = 5.0


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
    error: Optional[errors.EngineError] = None  #: why it cannot be loaded any more
    deaths: Deque[float] = field(default_factory=deque)

    @property
    def ready(self) -> bool:
        """Whether every instance takes batches."""
        return self.error is None and all(instance.loaded for instance in self.instances)


class EngineHost:
    """Starts with its first model, ends with its last: then its memory is returned for certain."""

    def __init__(
        self,
        options: HostOptions,
        arena: Arena,
        clock: Clock,
        on_event: Callable[[str, str, str], None] = lambda kind, name, text: None,
    ) -> None:
        self.options = options
        self.segment: Segment = arena.segment("host:" + options.name)
        self.models: Dict[str, HostedModel] = {}
        self.on_change: Callable[[HostedModel], None] = lambda model: None
        self._arena = arena
        self._clock = clock
        self._on_event = on_event
        self._segments: Dict[int, Segment] = {self.segment.number: self.segment}
        self._traffic = Traffic()
        self._next_instance = 0
        self._stopping = False
        self._loading: Optional[asyncio.Lock] = None
        self._supervisor = Supervisor(
            ChildSpec("host:" + options.name, "edge_agent.engine_host.main", python=options.python),
            on_up=self._on_child_up,
            on_down=self._on_child_down,
            clock=clock,
        )

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the process; `load` waits for it."""
        self._loading = asyncio.Lock()
        await self._supervisor.start()

    async def stop(self) -> None:
        """Ends the process."""
        self._stopping = True
        await self._supervisor.stop()
        self._arena.retire(self.segment)

    @property
    def up(self) -> bool:
        """Whether the process runs and answers."""
        return self._supervisor.state is SupervisorState.UP

    @property
    def supervisor(self) -> Supervisor:
        """For status and tests."""
        return self._supervisor

    async def share(self, segment: Segment) -> None:
        """Lets the host read a segment of a camera or of the image child, now and after each restart."""
        if segment.number in self._segments:
            return
        child = await self._supervisor.wait_up(_SHARE_TIMEOUT_S)
        await child.attach(segment, writable=False)
        self._segments[segment.number] = segment

    def forget(self, segment: Segment) -> None:
        """The segment is gone; the host is not given it again."""
        self._segments.pop(segment.number, None)

    # -- models -----------------------------------------------------------------------------------------------------

    async def load(self, order: LoadOrder) -> HostedModel:
        """Loads a version; EngineLoadError says why not. A host that dies of it is tried again, thrice a minute at most."""
        instances = [self._instance(order) for _ in range(order.instances)]
        model = HostedModel(order, instances)
        assert self._loading is not None
        while True:
            child = await self._supervisor.wait_up(self.options.load_timeout_s)
            async with self._loading:
                try:
                    await self._load_into(child, model)
                except errors.ChildGone as error:
                    self._count_death(model, str(error))
                except errors.EngineLoadError as error:
                    model.error = error
            if model.error is not None:
                raise model.error
            if model.report is not None:
                self.models[order.label] = model
                for instance in model.instances:
                    self._traffic.listen(instance.tell_room)
                    instance.open()
                return model

    def lone_death(self, model: HostedModel) -> None:
        """A request of this model, run alone, ended the host: the third in a minute stops the model."""
        self._count_death(model, "a request ended it")

    def _count_death(self, model: HostedModel, reason: str) -> None:
        now = self._clock.monotonic()
        model.deaths.append(now)
        while model.deaths[0] < now - _DEATH_WINDOW_S:
            model.deaths.popleft()
        if len(model.deaths) >= _DEATHS_ALLOWED:
            model.error = errors.EngineLoadError(
                "%s ended its engine host %d times within a minute; last: %s" % (model.order.label, len(model.deaths), reason)
            )
            self.on_change(model)

    def _instance(self, order: LoadOrder) -> EngineInstance:
        self._next_instance += 1
        return EngineInstance(
            self._next_instance,
            order.label,
            self._arena,
            self.segment,
            self._traffic,
            self._clock,
            self.options.batch_timeout_s,
            self.options.load_timeout_s,
            self._on_hang,
            self._on_busy,
        )

    def _on_hang(self, text: str) -> None:
        self._supervisor.restart("engine_host.hung", text)

    def _on_busy(self, instance: int, until: float) -> None:
        """A batch runs until `until` at most, or (0) none does: a ping that stays out counts only then."""
        if until:
            self._supervisor.busy(until, str(instance))
        else:
            self._supervisor.idle(str(instance))

    async def _load_into(self, child: Child, model: HostedModel) -> None:
        timeout_s = self.options.load_timeout_s
        self._supervisor.busy(self._clock.monotonic() + timeout_s)
        try:
            for instance in model.instances:
                sock, theirs = child.instance_channel()
                try:
                    reply = await child.call("load", model.order.fields(instance.number), (theirs.fileno(),), timeout_s)
                except errors.EdgeAgentError:
                    sock.close()
                    raise
                finally:
                    theirs.close()
                model.report = LoadReport.read(reply)
                instance.connect(sock, model.report)
        except errors.ChildRefused as error:
            raise errors.EngineLoadError(str(error), **error.detail) from error
        except errors.ChildTimeout as error:
            text = "loading %s took more than %g s" % (model.order.label, timeout_s)
            self._supervisor.restart("engine_host.hung", text)
            raise errors.EngineLoadError(text) from error
        finally:
            self._supervisor.idle()

    # -- the child --------------------------------------------------------------------------------------------------

    async def _on_child_up(self, child: Child) -> None:
        """A new process: gives it the segments and the models that its predecessor had."""
        assert self._loading is not None
        async with self._loading:
            for segment in list(self._segments.values()):
                await child.attach(segment, writable=segment is self.segment)
            for model in [model for model in self.models.values() if model.error is None]:
                await self._reload(child, model)
        for model in self.models.values():
            for instance in model.instances:
                if model.error is None:
                    instance.open()
            self.on_change(model)
        self._on_event("engine_host.up", self.options.name, "")

    async def _reload(self, child: Child, model: HostedModel) -> None:
        try:
            await self._load_into(child, model)
        except errors.EngineLoadError as error:
            model.error = error
        except errors.ChildGone as error:
            self._count_death(model, str(error))
            raise

    def _on_child_down(self, reason: str, reaped: bool) -> None:
        """The process ended: everything in flight is lost; its slots come back only if it was reaped."""
        if not reaped:
            self._arena.abandon(self.segment)
            self._segments.pop(self.segment.number, None)
            self.segment = self._arena.segment("host:" + self.options.name)
            self._segments[self.segment.number] = self.segment
        self._traffic.reset()
        for model in list(self.models.values()):
            for instance in model.instances:
                instance.disconnect(reason, reaped)
                instance.use_segment(self.segment)
            self.on_change(model)
        if self._stopping:
            return
        _log.warning("engine host %s ended: %s", self.options.name, reason, extra={"code": "engine_host.died"})
        self._on_event("engine_host.down", self.options.name, reason)

    def status(self) -> Dict[str, Any]:
        """An entry of `engine_hosts` in `/api/status`."""
        supervisor = self._supervisor
        return {
            "name": self.options.name,
            **self._part(supervisor).as_json(),
            "pid": supervisor.pid,
            "restarts": supervisor.restarts,
            "models": sorted(self.models),
        }

    def _part(self, supervisor: Supervisor) -> PartStatus:
        args = {"host": self.options.name, "text": supervisor.reason, "reason": supervisor.reason}
        if self.up:
            return PartStatus(State.OK, supervisor.since, args=args)
        if not supervisor.reason:
            return PartStatus(State.DEGRADED, supervisor.since, "engine_host.starting", args)
        return PartStatus(State.FAILED, supervisor.since, "engine_host.died", args)
