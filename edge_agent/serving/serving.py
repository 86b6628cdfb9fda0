"""The one door to every model: infer(request) -> response."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from edge_agent.config.models import ModelsSection
from edge_agent.config.response_cache import ResponseCacheSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.status import PartStatus, State
from edge_agent.domain.tensors import Lease
from edge_agent.processes.arena import Arena, Segment
from edge_agent.serving.accounts import Accounts
from edge_agent.serving.cache import ResponseCache
from edge_agent.serving.cache_shelf import Shelf
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.control import Control
from edge_agent.serving.ensembles import Ensembles
from edge_agent.serving.healing.healer import Healer
from edge_agent.serving.healing.meant import unasked
from edge_agent.serving.healing.plan_verbs import PlanVerbs
from edge_agent.serving.healing.surroundings import Surroundings
from edge_agent.serving.holds import Holds
from edge_agent.serving.host_changes import HostChanges
from edge_agent.serving.in_flight import InFlight
from edge_agent.serving.inner_calls import call_desk
from edge_agent.serving.journal import Journal, failure_reason
from edge_agent.serving.loading import Loader
from edge_agent.serving.model_verbs import ModelVerbs
from edge_agent.serving.patience import ask_for_time
from edge_agent.serving.promotion.board import Board
from edge_agent.serving.promotion.ledger import Ledger
from edge_agent.serving.promotion.lineup import Lineup
from edge_agent.serving.promotion.probation import Probation
from edge_agent.serving.promotion.promotion import Promotion
from edge_agent.serving.promotion.trials import Trials
from edge_agent.serving.reach import within_reach
from edge_agent.serving.repository import ModelEntry, VersionEntry
from edge_agent.serving.second_tries import SecondTries
from edge_agent.serving.servable import Servable
from edge_agent.serving.swapping import Swaps
from edge_agent.serving.told import Told
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.metrics import Metrics
from edge_agent.telemetry.tasks import Tasks


class Serving(ModelVerbs, PlanVerbs):
    """The models, and the one door to them. Listening and loading go on side by side: live first, ready later."""

    def __init__(
        self,
        section: ModelsSection,
        hosts: Mapping[str, HostSection],
        arena: Arena,
        clock: Clock,
        metrics: Metrics,
        journal: Journal,
        state_dir: Optional[Path] = None,
        cache: Optional[ResponseCacheSection] = None,
        shelf: Optional[Shelf] = None,
        board: Optional[Board] = None,
        surroundings: Optional[Surroundings] = None,
    ) -> None:
        """`shelf` keeps answers over a restart; without `cache` its defaults hold.

        `board`: see promotion/board.py, `surroundings`: see healing/surroundings.py.
        """
        self._section = section
        self._arena = arena
        self._clock = clock
        self._metrics = metrics
        self._journal = journal
        self._told = Told(section.repository, state_dir)
        self._catalogue = Catalogue(metrics.model_forgotten, self._told.text)
        self._accounts = Accounts(metrics, journal, clock)
        self._cache = ResponseCache(cache or ResponseCacheSection(), shelf, arena, clock, metrics, self._catalogue.lookup)
        inner = functools.partial(self.infer, inner=True)
        calls = call_desk(self.lookup, inner)
        self._ensembles = Ensembles(self._catalogue, arena, clock, metrics, inner, calls.waits)
        self._changes = HostChanges(self._catalogue, journal)
        self._loader = Loader(arena, clock, metrics, hosts, self._changes.of_host, calls)
        self._loader.on_change = self._changes.of_model
        self._surroundings = surroundings or Surroundings()
        self._healer = Healer(section, self._loader, self._catalogue, arena, clock, journal, state_dir, self._surroundings)
        self._loader.heal = self._healer.load
        swaps = Swaps(self._catalogue, self._make, self._load, self._tidy, journal, clock)
        self._trials = Trials(self._catalogue, swaps, arena, clock, journal, board or Board())
        ledger = Ledger(state_dir)
        self._probation = Probation(ledger, clock)
        self._lineup = Lineup(ledger, self._trials, swaps, self._catalogue, clock)
        promotion = Promotion(self._lineup, self._catalogue, journal, clock)
        self._changes.on_lost = self._lost
        self._changes.on_crash_loop = self._healer.crashes(otherwise=promotion.crash_loop)
        holds = Holds(state_dir)
        self._control = Control(section, self._catalogue, holds, swaps, self._lineup, promotion, journal, clock)
        self._healer.connect(self._control.again, self._lineup.pinned)
        self._second_tries = SecondTries(self._catalogue, unasked(self._control.again))
        self._started = False
        self._tasks = Tasks()
        self._loads: List[asyncio.Task[Any]] = []
        self._draining = False
        self._flight = InFlight()

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reads the repositories and begins to load."""
        await self._loader.start()
        await self._cache.start()
        self._metrics.watch_pending(self._catalogue.pending)
        self._loads = await self._control.start()
        self._tasks.spawn(ask_for_time(self._loads, self._surroundings.extend_start), "start-patience")
        self._started = True

    def _make(self, entry: ModelEntry, version: VersionEntry, aside: str) -> Servable:
        if aside:
            return ServedVersion(entry.name, version, entry.config, self._clock, aside=aside)
        self._cache.offered(entry.name, [str(one.number) for one in entry.versions])
        if version.platform == "ensemble":
            return self._ensembles.make(entry, version)
        statistics = self._catalogue.model(entry.name).statistics_of(str(version.number))
        return ServedVersion(entry.name, version, entry.config, self._clock, statistics)

    async def _load(self, version: Servable) -> None:
        if not isinstance(version, ServedVersion):
            return  # an ensemble has nothing of its own
        if version.aside:
            await self._loader.load(version)
            return
        async with self._cache.loading(version, version.entry.path):
            await self._loader.load(version)

    def _lost(self, version: ServedVersion) -> None:
        self._healer.lost(version)
        self._second_tries.lost(version)

    async def _tidy(self) -> None:
        """After a version was taken down."""
        self._cache.retired(self._catalogue.all_versions())
        await self._loader.end_idle_hosts()

    async def settled(self) -> None:
        """Returns once every model asked for at start is loaded or has failed."""
        if self._loads:
            await asyncio.wait(self._loads)

    def drain(self) -> None:
        """New requests are refused from now on; those in flight end."""
        self._draining = True

    async def drained(self, timeout_s: float) -> bool:
        """Waits until no request is in flight; False when the time was over first."""
        return await self._flight.ended(timeout_s)

    @property
    def in_flight(self) -> int:
        """Requests that are being answered."""
        return self._flight.count

    async def stop(self) -> None:
        """Ends what waits with an error, then the hosts."""
        self._draining = True
        await self._tasks.stop()
        await self._second_tries.stop()
        await self._control.stop()
        await self._probation.stop()
        await self._healer.stop()
        self._cache.stop()
        for version in self._catalogue.running():
            version.close(errors.Draining("Server exiting"))
        await self._loader.stop()
        self._healer.close()

    # -- which models -----------------------------------------------------------------------------------------------

    def index(self) -> List[Dict[str, str]]:
        """The repository index (kserve.md 1.10)."""
        return self._catalogue.index()

    def names(self) -> List[str]:
        """Models that are known, failed and unloaded ones included."""
        return [model.name for model in self._catalogue]

    def versions(self, name: str) -> List[str]:
        """Versions of a model, lowest first; ModelNotFound when there is no such model."""
        return [version.version for version in reversed(self._catalogue.known(name).newest_first())]

    def lookup(self, name: str, version: Optional[str] = None) -> Servable:
        """The version that answers now: the one named, or the newest ready one. ModelNotFound, ModelNotReady."""
        return self._catalogue.lookup(name, version)

    def is_ready(self, name: str, version: Optional[str] = None) -> bool:
        """Whether a model (or one version) takes requests; ModelNotFound when there is no such thing."""
        try:
            self.lookup(name, version)
        except errors.ModelNotReady:
            return False
        return True

    def ready(self) -> bool:
        """Whether every model asked for is loaded or has failed with a reason, and the agent is not stopping.

        With strict_readiness every model must be ready.
        """
        if not self._started or self._draining or not all(task.done() for task in self._loads):
            return False
        return not self._section.strict_readiness or all(model.ready for model in self._catalogue)

    def statistics(self, name: Optional[str] = None, version: Optional[str] = None) -> List[Dict[str, Any]]:
        """Entries of `model_stats` (kserve.md 1.9). ModelNotFound for a name or version that is not loaded."""
        return self._catalogue.statistics(name, version)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def reserve(
        self, name: str, version: Optional[str], input_bytes: int, timeout_s: float = 1.0
    ) -> Tuple[Lease, Optional[Lease]]:
        """Slots for a request's tensors and for its outputs, taken in one step. The caller releases both after `infer`."""
        if self._draining:
            raise errors.Draining("Server exiting")
        served = self.lookup(name, version)
        wish = served.room_wish(input_bytes)
        wants: List[Tuple[Segment, int]] = [(served.segment, max(1, input_bytes)), *wish.wants]
        try:
            leases = await self._arena.acquire(wants, timeout_s)
        except errors.PayloadTooLarge:
            if wish.exact:
                raise
            leases = await self._arena.acquire(wants[:1], timeout_s)  # the host will ask for what it needs
        except errors.ChildGone as error:
            raise errors.ModelNotReady("model '%s' is not ready: %s" % (name, self._told.text(str(error)))) from error
        return leases[0], wish.filled(leases[1:]) if len(leases) > 1 else None

    async def share(self, name: str, version: Optional[str], segment: Segment) -> None:
        """Lets the model's host read tensors that lie in `segment`."""
        await self.lookup(name, version).share(segment)

    async def infer(self, request: InferRequest, inner: bool = False) -> InferResponse:
        """Runs one request. Cancelling it means that its caller left.

        `inner`: a part of one that is in flight already, which a drain does not refuse.
        """
        received_at = self._clock.now()
        started = self._clock.monotonic()
        served: Optional[Servable] = None
        self._flight.enter()
        try:
            if self._draining and not inner:
                raise errors.Draining("Server exiting")
            while True:
                served = self.lookup(request.model, request.version)
                try:
                    response = await self._run(served, request)
                    break
                except errors.ModelNotReady:
                    if not self._catalogue.swapped(served, request.version):
                        raise
        except asyncio.CancelledError:
            self._accounts.failed(request, served, received_at, started, "CANCELED", "request.cancelled", "the caller left")
            raise
        except errors.EdgeAgentError as error:
            self._accounts.failed(request, served, received_at, started, failure_reason(error), error.code, str(error))
            raise
        finally:
            self._flight.leave()
        self._accounts.succeeded(request, served, received_at, response)
        if not self._draining:
            self._trials.answered(served, request, response)
            if not response.cached:
                self._probation.answered(served)
        return response

    async def _run(self, served: Servable, request: InferRequest) -> InferResponse:
        with self._told:
            request = await within_reach(request, served, self._arena)
            cached = self._cache.serves(served, request)
            return await (self._cache.infer(served, request) if cached else served.infer(request))

    # -- status -----------------------------------------------------------------------------------------------------

    def status(self) -> List[Dict[str, Any]]:
        """`models` of `/api/status`."""
        return [model.as_json() for model in self._catalogue]

    def repository_status(self) -> Dict[str, Any]:
        """Whether the repositories can be read."""
        return (self._control.repository_fault or PartStatus(State.OK)).as_json()

    def host_status(self) -> List[Dict[str, Any]]:
        """`engine_hosts` of `/api/status`."""
        return [host.status() for _, host in sorted(self._loader.hosts.items())]
