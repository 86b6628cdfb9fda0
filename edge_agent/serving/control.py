"""Which models are up: loaded at start, by request, or as the repository changes; swapped between two requests."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Awaitable, Callable, Coroutine, Dict, List, Mapping, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.config.model_config import model_config_from_json
from edge_agent.config.models import ModelsSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.ensemble_plan import dependencies_first, step_models
from edge_agent.serving.holds import Holds
from edge_agent.serving.journal import Journal
from edge_agent.serving.repository import Fingerprint, Marks, ModelEntry, VersionEntry, find, marked, read_model, replaced
from edge_agent.serving.servable import Servable
from edge_agent.serving.threads import in_thread
from edge_agent.serving.uploads import Uploads
from edge_agent.serving.watch import RepositoryWatch
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)

_RETIRE_S = 60.0  #: longest wait for the requests of a version that is taken down

Make = Callable[[ModelEntry, VersionEntry], Servable]
Load = Callable[[Servable], Awaitable[None]]


class Control:
    """One thing at a time for each model. What serves goes on serving until what replaces it is ready."""

    def __init__(
        self,
        section: ModelsSection,
        catalogue: Catalogue,
        holds: Holds,
        make: Make,
        load: Load,
        tidy: Callable[[], Awaitable[None]],
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._section = section
        self._catalogue = catalogue
        self._holds = holds
        self._make = make
        self._load = load
        self._tidy = tidy
        self._journal = journal
        self._clock = clock
        self._locks: Dict[str, asyncio.Lock] = {}
        self._loaded: Dict[str, Tuple[str, Fingerprint]] = {}  #: by label: the config and the files it was made of
        self._lies: Dict[str, Path] = {}  #: by label: the model's folder that what serves was loaded from
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
        entries = await self._watch.scan()
        for entry in entries:
            self._catalogue.model(entry.name).unloaded = entry.name in self._holds
        for name in self._section.load if self._section.control_mode == "explicit" else ():
            if name != "*" and name not in {entry.name for entry in entries}:
                self._fault(self._catalogue.model(name), "model.not_found", "no repository has a model of this name")
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
        async with self._lock(entry.name):
            if self._wanted(entry.name):  # an operator may have taken it down while this waited
                await self._apply(entry, marks)

    async def stop(self) -> None:
        """Ends loading and polling."""
        self._stopping = True
        await self._polling.stop()
        await self._tasks.stop()
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
                reason = await self._apply(await in_thread(self._requested, name, config, dict(files or {})), anew=True)
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
                await self._retire(model, list(model.versions))
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
            await self._retire(model, list(model.versions))
            self._catalogue.forget(model.name)
            self._journal.event("model.unloaded", model.name, code="model.unloaded", args={"model": model.name})

    # -- making it so -----------------------------------------------------------------------------------------------

    async def _apply(self, entry: ModelEntry, marks: Optional[Marks] = None, anew: bool = False) -> str:
        """Makes the model what its entry says: loads beside, swaps, takes down. Why it is not, or empty."""
        entry, seen = (entry, marks) if marks is not None else await in_thread(marked, entry)
        model = self._catalogue.model(entry.name)
        fault = entry.fault or entry.config.refused
        if fault:
            self._fault(model, "model.config_rejected", fault)
            return fault
        model.fault, model.unloaded = None, False
        reasons = [await self._apply_version(model, entry, *pair, anew) for pair in zip(entry.versions, seen)]
        ready = [number for number, version in model.versions.items() if version.ready]
        await self._retire(model, replaced(model.versions, [str(version.number) for version in entry.versions], ready))
        return next((reason for reason in reasons if reason), "")

    def _fault(self, model: Model, code: str, text: str) -> None:
        """A fault of the whole model; versions that serve go on, and the fault is told once."""
        if model.versions:
            if self._loaded.get(model.name) != (text, ()):
                self._loaded[model.name] = (text, ())
                self._tell_failure(model.name, code, text)
            return
        if model.fault is None or model.fault.args.get("text") != text:
            model.fault = PartStatus(State.FAILED, self._clock.now(), code, {"model": model.name, "text": text})
            self._tell_failure(model.name, code, text)

    def _tell_failure(self, subject: str, code: str, text: str) -> None:
        _log.error("model %s: %s", subject, text, extra={"code": code})
        self._journal.event("model.failed", subject, code=code, args={"model": subject, "text": text}, text=text)

    async def _apply_version(
        self, model: Model, entry: ModelEntry, version: VersionEntry, marks: Fingerprint, anew: bool
    ) -> str:
        made_of = (entry.config.model_dump_json(), marks)
        label = "%s/%d" % (entry.name, version.number)
        old = model.versions.get(str(version.number))
        if old is not None and not anew and self._loaded.get(label) == made_of:
            return ""
        new = self._make(entry, version)
        if old is None or not old.ready:
            model.versions[new.version] = new  # nothing serves yet: its loading may be seen
        self._loaded[label] = made_of
        await self._load(new)
        self._record(new)
        if new.part.state is not State.OK:
            if model.versions.get(new.version) is new:
                self._lies.pop(label, None)
                if old is not None:
                    await self._put_down(old)
            return str(new.part.args.get("text") or new.part.as_json()["reason"])
        model.versions[new.version], self._lies[label] = new, entry.directory
        if old is not None:
            await self._put_down(old)
        return ""

    def _record(self, version: Servable) -> None:
        ok = version.part.state is State.OK
        text = str(version.part.args.get("text", ""))
        state = "ready" if ok else "failed"
        self._journal.model_version(
            version.name, version.version, version.platform, version.sha256, state, version.load_ms, text
        )
        if ok:
            self._journal.event("model.loaded", version.label, code="model.loaded", args={"model": version.label})
        else:
            self._tell_failure(version.label, version.part.code, text)

    async def _retire(self, model: Model, numbers: List[str]) -> None:
        versions = [model.versions.pop(number) for number in numbers]
        for version in versions:
            self._loaded.pop(version.label, None)
            self._lies.pop(version.label, None)
            await self._put_down(version)

    async def _sweep(self, name: str) -> None:
        """Ends the uploaded folders that nothing serves from."""
        if name in self._uploads:
            labels = {version.label for version in self._catalogue.model(name).versions.values()}
            await in_thread(self._uploads.sweep, name, {self._lies[label] for label in labels.intersection(self._lies)})

    async def _put_down(self, version: Servable) -> None:
        """What does not end in time is waited for no longer, but freed as soon as it has ended: its host writes until then."""
        retiring = self._tasks.spawn(self._retired(version), "retire:" + version.label)
        await asyncio.wait([retiring], timeout=_RETIRE_S)
        if not retiring.done():
            version.close(errors.ModelNotReady("model '%s' version %s is unloaded" % (version.name, version.version)))
            _log.warning("%s was taken down with requests in flight", version.label, extra={"code": "model.unloaded"})

    async def _retired(self, version: Servable) -> None:
        await version.retire()
        await self._tidy()
