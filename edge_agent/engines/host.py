"""One engine host: a supervised child with the models it serves. What it had loaded it loads again when it was restarted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Callable, Dict, Optional

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.gpu import GpuFacts
from edge_agent.engines.calls import CallDesk, CallHost, CallMemory
from edge_agent.engines.facts import HostFacts
from edge_agent.engines.hosted import HostedModel, HostOptions, end_code, part_status, process_of
from edge_agent.engines.instance import EngineInstance
from edge_agent.engines.load import LoadOrder
from edge_agent.engines.memory import MemoryBound
from edge_agent.engines.segments import HostSegments
from edge_agent.engines.traffic import Traffic
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.child import Child, ChildSpec
from edge_agent.processes.supervisor import Supervisor, SupervisorState

_log = logging.getLogger(__name__)

_SHARE_TIMEOUT_S = 5.0


class EngineHost:
    """Starts with its first model, ends with its last: then its memory is returned for certain."""

    def __init__(
        self,
        options: HostOptions,
        arena: Arena,
        clock: Clock,
        on_event: Callable[[str, str, str], None] = lambda kind, name, text: None,
        calls: Optional[CallDesk] = None,
    ) -> None:
        self.options = options
        self.models: Dict[str, HostedModel] = {}
        self.on_change: Callable[[HostedModel], None] = lambda model: None
        self._arena = arena
        self._clock = clock
        self._on_event = on_event
        self._segments = HostSegments(arena, "host:" + options.name)
        desk = calls or CallDesk()
        self._memory = CallMemory(arena, options.name, desk.reserves)
        self._calls = CallHost(desk, self._memory, arena, self.share)
        self._traffic = Traffic()
        self._next_instance = 0
        self._stopping = False
        self._told_down = False
        self._loading: Optional[asyncio.Lock] = None
        self._loaded_last: Optional[HostedModel] = None  #: what the process ended of, or while it was loaded
        self._supervisor = Supervisor(
            ChildSpec("host:" + options.name, "edge_agent.engine_host.main", python=options.python, nice=options.nice),
            on_up=self._on_child_up,
            on_down=self._on_child_down,
            on_late_end=self._segments.reaped,
            clock=clock,
        )
        self._facts = HostFacts(self._supervisor, clock)
        self._bound = MemoryBound(options, clock, self._supervisor, self._traffic, self.models.values, on_event, self._facts)

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the process; `load` waits for it."""
        self._loading = asyncio.Lock()
        await self._supervisor.start()
        await self._bound.start(self._loading)

    async def stop(self) -> None:
        """Ends the process."""
        self._stopping = True
        await self._bound.stop()
        await self._supervisor.stop()
        await self._calls.tasks.stop()
        self._memory.retire()
        self._segments.retire()

    @property
    def segment(self) -> Segment:
        """Its own, where its requests' tensors lie."""
        return self._segments.own

    @property
    def up(self) -> bool:
        """Whether the process runs and answers."""
        return self._supervisor.state is SupervisorState.UP

    @property
    def loading(self) -> bool:
        """Whether a model is on its way into it."""
        return self._traffic.loading

    @property
    def supervisor(self) -> Supervisor:
        """For status and tests."""
        return self._supervisor

    @property
    def end_code(self) -> str:
        """Why its process ended the last time."""
        return end_code(self._supervisor)

    async def share(self, segment: Segment, writable: bool = False) -> None:
        """Lets the host map a segment that is not its own, now and after each restart. ModelNotReady."""
        if self._segments.has(segment):
            return
        try:
            child = await self._supervisor.wait_up(_SHARE_TIMEOUT_S)
            await self._segments.share(child, segment, writable)
        except errors.ChildError as error:
            raise errors.ModelNotReady("engine host %s takes no pictures now: %s" % (self.options.name, error)) from error

    async def facts(self, timeout_s: float = 0.0) -> GpuFacts:
        """What it says of TensorRT and its GPU; unavailable, with the reason, also when it ends of it. 0: as long as a load."""
        assert self._loading is not None
        return await self._facts.ask(self._loading, timeout_s or self.options.load_timeout_s)

    # -- models -----------------------------------------------------------------------------------------------------

    async def load(self, order: LoadOrder) -> HostedModel:
        """Loads a version; EngineLoadError says why not. A host that dies of it is tried again, thrice a minute at most."""
        model = HostedModel(order, [self._instance(order) for _ in range(order.instances)])
        with self._traffic.load(), contextlib.ExitStack() as undo:
            undo.callback(model.close)
            while not await self._try_load(model):
                pass
            undo.pop_all()
        self.models[self._key(model)] = model
        for instance in model.instances:
            self._traffic.listen(instance.tell_room)
            instance.open()
        return model

    @staticmethod
    def _key(model: HostedModel) -> str:
        """A version that is loaded anew stands beside its predecessor for a while."""
        return "%s#%d" % (model.order.label, model.instances[0].number)

    async def _try_load(self, model: HostedModel) -> bool:
        """False when the host died, of this model or of another one that was loaded before it."""
        child = await process_of(self._supervisor, self.options.load_timeout_s)
        if model.error is not None:
            raise model.error
        assert self._loading is not None
        async with self._loading:
            if child.gone:
                return False
            try:
                await self._load_into(child, model)
            except errors.ChildGone:
                self._loaded_last = model  # whose doing it was is known when it is known how the process ended
                return False
        return True

    def drop(self, model: HostedModel) -> None:
        """The host lets go of a model that is not wanted after all."""
        self.models.pop(self._key(model), None)
        for instance in model.instances:
            self._traffic.forget(instance.tell_room)
        model.close()

    def lone_death(self, model: HostedModel) -> None:
        """A request of this model, run alone, ended the host: the third in a minute stops the model."""
        self._count_death(model, "a request ended it")

    def _count_death(self, model: HostedModel, reason: str) -> None:
        if model.died(self._clock.monotonic(), reason):
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
            self._calls if order.platform == "python" else None,
            "%s/%d" % (self.options.name, self._next_instance),
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
                await model.load_instance(child, instance, timeout_s)
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
            await self._segments.attach_all(child)
            for model in [model for model in self.models.values() if model.error is None]:
                await self._reload(child, model)
            await self._bound.loaded(child)
        for model in self.models.values():
            for instance in model.instances:
                if model.error is None:
                    instance.open()
            self.on_change(model)
        self._told_down = False
        self._on_event("engine_host.up", self.options.name, "")

    async def _reload(self, child: Child, model: HostedModel) -> None:
        if child.gone:
            raise errors.ChildGone("it ended while another model was loaded")
        try:
            await self._load_into(child, model)
        except errors.EngineLoadError as error:
            model.error = error
            model.close()
        except errors.ChildGone:
            self._loaded_last = model
            raise

    def _on_child_down(self, reason: str, reaped: bool) -> None:
        """The process ended: everything in flight is lost, and all that is told of it goes by what is left."""
        if not reaped:
            self._segments.abandon(self._supervisor.pid or 0)
        killed = self._supervisor.killed_from_outside
        suspect = not self._traffic.loading and not self._bound.ending and not killed
        self._bound.down()
        self._judge_load(reason, killed)
        self._blame(suspect)
        self._traffic.reset()
        instances = [instance for model in self.models.values() for instance in model.instances]
        for instance in instances:
            instance.close()
            instance.use_segment(self.segment)
        for instance in instances:
            instance.lose(reason, suspect)
        for model in list(self.models.values()):
            self.on_change(model)
        if self._stopping or self._told_down:
            return
        self._told_down = True  # one event for each change of state, not for each try
        _log.warning("engine host %s ended: %s", self.options.name, reason, extra={"code": self.end_code})
        self._on_event("engine_host.down", self.options.name, reason)

    def _judge_load(self, reason: str, killed: bool) -> None:
        """The model that was being loaded ended it, unless the kernel or somebody else did."""
        model, self._loaded_last = self._loaded_last, None
        if model is not None and (model.killed if killed else model.died)(self._clock.monotonic(), reason):
            self.on_change(model)

    def _blame(self, suspect: bool) -> None:
        """A Python model is not run again alone to find out whose doing it was: what ran alone by chance is enough."""
        if suspect and self._traffic.held == 1 and not self._stopping:
            for model in self.models.values():
                if model.order.platform == "python" and any(instance.runs_one for instance in model.instances):
                    self.lone_death(model)

    # -- what is shown ----------------------------------------------------------------------------------------------

    def status(self) -> Dict[str, Any]:
        """An entry of `engine_hosts` in `/api/status`."""
        supervisor = self._supervisor
        return {
            "name": self.options.name,
            **part_status(self.options.name, supervisor, self._bound.over).as_json(),
            "pid": supervisor.pid,
            "restarts": supervisor.restarts,
            "models": sorted({model.order.label for model in self.models.values()}),
        }
