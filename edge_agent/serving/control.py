"""Which models are up: loaded at start, by request, or as the repository changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, AsyncIterator, Awaitable, Callable, Coroutine, Dict, List, Mapping, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.config.model_config import model_config_from_json
from edge_agent.config.models import ModelsSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.ensemble_plan import dependencies_first, step_models
from edge_agent.serving.holds import Holds
from edge_agent.serving.journal import Journal
from edge_agent.serving.promotion.judge import Verdict
from edge_agent.serving.promotion.lineup import Lineup
from edge_agent.serving.promotion.promotion import Promotion
from edge_agent.serving.promotion.trial import Trial
from edge_agent.serving.repository import Marks, ModelEntry, find, read_model
from edge_agent.serving.servable import Servable
from edge_agent.serving.swapping import Swaps
from edge_agent.serving.threads import in_thread
from edge_agent.serving.uploads import Uploads
from edge_agent.serving.watch import RepositoryWatch
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 300.0  #: before a folder that is away is looked for once more


class Control:
    """One thing at a time for each model."""

    def __init__(
        self,
        section: ModelsSection,
        catalogue: Catalogue,
        holds: Holds,
        swaps: Swaps,
        lineup: Lineup,
        promotion: Promotion,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._section = section
        self._catalogue = catalogue
        self._holds = holds
        self._swaps = swaps
        self._lineup = lineup
        self._promotion = promotion
        promotion.on_crash, lineup.later = self._crashed, self._later
        lineup.trials.on_verdict = self._verdict
        self._journal = journal
        self._locks: Dict[str, asyncio.Lock] = {}
        self._doing: Dict[str, asyncio.Task[Any]] = {}  #: by name: what the start or the last look began
        self._uploads = Uploads()
        self._tasks = Tasks()
        self._watch = RepositoryWatch(section.repository, clock)
        self._polling = Tasks(self._poll_died)
        self._stopping = False

    @property
    def repository_fault(self) -> Optional[PartStatus]:
        """Why the repositories are not looked at as they should be."""
        return self._watch.fault

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> List[asyncio.Task[Any]]:
        """Looks at the repositories and begins to load; the tasks end when the models are up or have failed."""
        await in_thread(self._holds.load)
        await self._lineup.start()
        entries = await self._watch.scan()
        for entry in entries:
            self._catalogue.model(entry.name).unloaded = entry.name in self._holds
        self._lineup.records.began_with(entry.name for entry in entries)
        for name in self._section.load if self._section.control_mode == "explicit" else ():
            if name != "*" and name not in {entry.name for entry in entries}:
                self._swaps.fault(self._catalogue.model(name), "model.not_found", "no repository has a model of this name")
        tasks = self._begin({entry.name: (entry, None) for entry in entries if self._wanted(entry.name)})
        if self._section.control_mode == "poll":
            self._polling.spawn(self._poll(), "repository")
        return tasks

    def _begin(self, entries: Mapping[str, Tuple[ModelEntry, Optional[Marks]]]) -> List[asyncio.Task[Any]]:
        """A task for each: a slow model keeps nobody waiting but the ensembles that call it."""
        tasks = []
        for entry in dependencies_first({name: one for name, (one, _) in entries.items()}, lambda e: step_models(e.config)):
            before = [self._doing[name] for name in step_models(entry.config) if name in self._doing]
            tasks.append(self._spawn(entry.name, self._follow(*entries[entry.name], before), "load:"))
        return tasks

    def _spawn(self, name: str, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[Any]:
        task = self._doing[name] = self._tasks.spawn(work, what + name)
        task.add_done_callback(lambda done: self._doing.pop(name))
        return task

    async def _follow(self, entry: ModelEntry, marks: Optional[Marks], before: Sequence[asyncio.Task[Any]]) -> None:
        """The models that an ensemble calls come before it, so that it is not told of as failed while they load."""
        if before:
            await asyncio.wait(before)
        starts = marks is None
        async with self._lock(entry.name):
            if self._wanted(entry.name):  # an operator may have taken it down while this waited
                await self._lineup.apply(entry, marks, compare=not starts)
        if starts and entry.config.accept is not None:
            self._tasks.spawn(self._compare(entry), "compare:" + entry.name)

    async def _compare(self, entry: ModelEntry) -> None:
        """After the start, as nobody waits for a version that answers nobody."""
        async with self._lock(entry.name):
            if self._wanted(entry.name):
                await self._lineup.apply(entry)

    async def stop(self) -> None:
        """Ends loading and polling."""
        self._stopping = True
        await self._polling.stop()
        await self._tasks.stop()
        await self._lineup.trials.stop()
        await self._swaps.stop()
        self._uploads.clear()

    def _wanted(self, name: str) -> bool:
        return self._section.wants(name) and name not in self._holds

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def check_explicit(self) -> None:
        """ControlRefused unless models come and go by request."""
        if self._section.control_mode != "explicit":
            why = "if polling is enabled" if self._section.control_mode == "poll" else "in control mode none"
            raise errors.ControlRefused("explicit model load / unload is not allowed " + why)

    # -- by request -------------------------------------------------------------------------------------------------

    async def load(self, name: str, config: Optional[str] = None, files: Optional[Mapping[str, bytes]] = None) -> None:
        """Loads a model anew, as it is in the repository or as the request says. Truthful: raises whenever it is not up.

        ModelNotFound, ConfigError, EngineLoadError; what served before goes on serving then.
        """
        if not files:
            await in_thread(self._requested, name, None, {})  # a name that nobody knows leaves no lock behind
        async with self._lock(name):
            if name in self._holds:
                why = "failed to load '%s', it is held down by an operator: edge-agent models load %s"
                raise errors.ControlRefused(why % (name, name))
            try:
                entry = await in_thread(self._requested, name, config, dict(files or {}))
                reason = await self._lineup.apply(entry, anew=True, told=bool(files) or config is not None)
            finally:
                await self._sweep(name)
        if reason:
            raise errors.EngineLoadError("failed to load '%s', %s" % (name, reason))

    async def unload(self, name: str, dependents: bool = False) -> None:
        """Takes a model down; its requests in flight end first. Unknown names are no error, as in Triton.

        With `dependents` also the models that an ensemble calls, but for those that others which are loaded call too.
        """
        if name not in self._locks and self._catalogue.get(name) is None:
            return
        called = self._catalogue.calls(name) if dependents else ()
        async with self._lock(name):
            model = self._catalogue.get(name)
            if model is not None:
                model.unloaded, model.fault = True, None
                await self._lineup.unloaded(name)
                await self._swaps.retire(model, list(model.versions))
                await self._sweep(name)
                self._journal.event("model.unloaded", name, code="model.unloaded", args={"model": name})
        for one in called:
            if not any(one in self._catalogue.calls(other.name) for other in self._catalogue):
                await self.unload(one, dependents)

    async def hold(self, name: str) -> None:
        """Takes a model down until `release`, over restarts and in every control mode. ModelNotFound."""
        self._catalogue.known(name)
        await in_thread(self._holds.hold, name)
        await self.unload(name)

    async def release(self, name: str) -> None:
        """The opposite of `hold`: loads it."""
        await in_thread(self._holds.release, name)
        await self.load(name)

    async def again(self, name: str, version: str) -> None:
        """Loads one version anew with the configuration that it has; what serves goes on where that fails.

        ModelNotFound where it is not loaded; EngineLoadError.
        """
        self._catalogue.known(name)
        async with self._lock(name):
            reason = await self._lineup.again(name, version)
        if reason:
            raise errors.EngineLoadError("failed to load '%s' version %s again, %s" % (name, version, reason))

    # -- which of its versions --------------------------------------------------------------------------------------

    async def promote(self, name: str, version: Optional[str] = None) -> None:
        """Makes a version serve at once, in every control mode: see Promotion."""
        async with self._changing(name) as entry:
            await self._promotion.promote(entry, version)

    async def roll_back(self, name: str) -> None:
        """Goes back to the version that served before, in every control mode: see Promotion."""
        async with self._changing(name) as entry:
            await self._promotion.roll_back(entry)

    @contextlib.asynccontextmanager
    async def _changing(self, name: str) -> AsyncIterator[ModelEntry]:
        """The model as it lies on disk; nobody else changes it meanwhile. ModelNotFound; ControlRefused where it is down."""
        self._catalogue.known(name)
        async with self._lock(name):
            model = self._catalogue.known(name)
            if name in self._holds or not (model.versions or model.fault):
                raise errors.ControlRefused("model '%s' is not loaded: load it first" % name)
            entry = await in_thread(find, self._section.repository, name)
            if entry is None:
                raise errors.ModelNotFound("no repository has a model of the name '%s'" % name)
            yield entry

    def _verdict(self, trial: Trial, verdict: Verdict) -> None:
        name = trial.served.name
        self._tasks.spawn(
            self._by_itself(name, lambda entry: self._promotion.conclude(entry, trial, verdict)), "verdict:" + name
        )

    def _crashed(self, version: Servable) -> None:
        name = version.name
        self._tasks.spawn(self._by_itself(name, lambda entry: self._promotion.crashed(entry, version)), "crash:" + name)

    def _later(self, name: str, pause_s: float, change: Callable[[ModelEntry], Awaitable[None]]) -> None:
        async def after(pause_s: float) -> None:
            await asyncio.sleep(pause_s)
            while not await self._by_itself(name, change) and self._catalogue.get(name) is not None:
                await asyncio.sleep(pause_s)
                pause_s = max(pause_s, min(2 * pause_s, _LONGEST_PAUSE_S))

        self._tasks.spawn(after(pause_s), "later:" + name)

    async def _by_itself(self, name: str, change: Callable[[ModelEntry], Awaitable[None]]) -> bool:
        """What nobody asked for and nobody waits for; what cannot be done is told. False while its folder is away."""
        try:
            async with self._changing(name) as entry:
                await change(entry)
        except errors.EdgeAgentError as error:
            _log.error("model %s: %s", name, error, extra={"code": error.code})
            return not isinstance(error, errors.ModelNotFound)
        return True

    # -- the files of a request -------------------------------------------------------------------------------------

    def _requested(self, name: str, config: Optional[str], files: Dict[str, bytes]) -> ModelEntry:
        if files:
            return self._uploads.put(name, config, files)
        entry = find(self._section.repository, name)
        if entry is None:
            raise errors.ModelNotFound("failed to load '%s', no repository has a model of this name" % name)
        instead = None if config is None else model_config_from_json(config, entry.directory)
        return read_model(entry.directory.parent, entry.directory, instead)

    # -- the repository changes -------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._section.poll_interval_s)
            look = await self._watch.look(model.name for model in self._catalogue if model.name not in self._uploads)
            idle = {entry.name: (entry, marks) for entry, marks in look.steady if entry.name not in self._doing}
            self._begin({name: pair for name, pair in idle.items() if self._wanted(name)})
            for model in [self._catalogue.known(name) for name in look.gone if name not in self._doing]:
                self._spawn(model.name, self._gone(model), "unload:")

    def _poll_died(self, error: BaseException) -> None:
        """What follows the repositories goes on whatever happened to it, and shows that something did."""
        self._watch.died(error)
        if not self._stopping:
            self._polling.spawn(self._poll(), "repository")

    async def _gone(self, model: Model) -> None:
        async with self._lock(model.name):
            await self._lineup.forget(model.name)
            await self._swaps.retire(model, list(model.versions))
            self._catalogue.forget(model.name)
            self._journal.event("model.unloaded", model.name, code="model.unloaded", args={"model": model.name})

    async def _sweep(self, name: str) -> None:
        """Ends the uploaded folders that nothing serves from."""
        if name in self._uploads:
            await in_thread(self._uploads.sweep, name, self._swaps.folders(name))
