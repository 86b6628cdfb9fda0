"""Which models are up: loaded at start, by request, or as the repository changes; swapped between two requests."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.config.model_config import model_config_from_json
from edge_agent.config.models import ModelsSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.ensemble_plan import dependencies_first, step_models
from edge_agent.serving.holds import Holds
from edge_agent.serving.journal import Journal
from edge_agent.serving.repository import Fingerprint, ModelEntry, VersionEntry, find, fingerprint, read_model, scan
from edge_agent.serving.servable import Servable
from edge_agent.serving.uploads import Uploads
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
        self._seen: Dict[str, Tuple[Fingerprint, ...]] = {}  #: by name: at the last look
        self._uploads = Uploads()
        self._tasks = Tasks()
        self.repository_fault: Optional[PartStatus] = None

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> List[asyncio.Task[Any]]:
        """Looks at the repositories and begins to load; the tasks end when the models are up or have failed."""
        await asyncio.get_running_loop().run_in_executor(None, self._holds.load)
        entries = await self._scan()
        for entry in entries:
            self._catalogue.model(entry.name).unloaded = entry.name in self._holds
        wanted = [entry for entry in entries if self._wanted(entry.name)]
        for name in self._section.load if self._section.control_mode == "explicit" else ():
            if name != "*" and name not in {entry.name for entry in entries}:
                self._fault(self._catalogue.model(name), "model.not_found", "no repository has a model of this name")
        tasks: Dict[str, asyncio.Task[Any]] = {}
        for entry in _dependencies_first(wanted):
            before = [tasks[name] for name in step_models(entry.config) if name in tasks]
            tasks[entry.name] = self._tasks.spawn(self._first(entry, before), "load:" + entry.name)
        if self._section.control_mode == "poll":
            self._tasks.spawn(self._poll(), "repository")
        return list(tasks.values())

    async def _first(self, entry: ModelEntry, before: Sequence[asyncio.Task[Any]] = ()) -> None:
        """The models that an ensemble calls come before it, so that it is not told of as failed while they load."""
        if before:
            await asyncio.wait(before)
        async with self._lock(entry.name):
            await self._apply(entry)

    async def stop(self) -> None:
        """Ends loading and polling."""
        await self._tasks.stop()
        self._uploads.clear()

    def _wanted(self, name: str) -> bool:
        return self._section.wants(name) and name not in self._holds

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def check_explicit(self) -> None:
        """ControlRefused unless models come and go by request."""
        mode = self._section.control_mode
        if mode != "explicit":
            why = "if polling is enabled" if mode == "poll" else "in control mode none"
            raise errors.ControlRefused("explicit model load / unload is not allowed " + why)

    # -- by request -------------------------------------------------------------------------------------------------

    async def load(self, name: str, config: Optional[str] = None, files: Optional[Mapping[str, bytes]] = None) -> None:
        """Loads a model anew, as it is in the repository or as the request says. Truthful: raises whenever it is not up.

        ModelNotFound, ConfigError, EngineLoadError; what served before goes on serving then.
        """
        async with self._lock(name):
            entry = await asyncio.get_running_loop().run_in_executor(None, self._requested, name, config, dict(files or {}))
            if entry is None:
                raise errors.ModelNotFound("failed to load '%s', no repository has a model of this name" % name)
            reason = await self._apply(entry, anew=True)
        if reason:
            raise errors.EngineLoadError("failed to load '%s', %s" % (name, reason))

    async def unload(self, name: str, dependents: bool = False) -> None:
        """Takes a model down; its requests in flight end first. Unknown names are no error, as in Triton.

        With `dependents` also the models that an ensemble calls, but for those that others which are loaded call too.
        """
        called = self._catalogue.calls(name) if dependents else ()
        async with self._lock(name):
            model = self._catalogue.get(name)
            if model is not None:
                model.unloaded = True
                model.fault = None
                await self._retire(model, list(model.versions))
                self._journal.event("model.unloaded", name, code="model.unloaded", args={"model": name})
        for one in called:
            if not any(one in self._catalogue.calls(other.name) for other in self._catalogue):
                await self.unload(one, dependents)

    async def hold(self, name: str) -> None:
        """Takes a model down until `release`, over restarts and in every control mode. ModelNotFound."""
        self._catalogue.known(name)
        await asyncio.get_running_loop().run_in_executor(None, self._holds.hold, name)
        await self.unload(name)

    async def release(self, name: str) -> None:
        """The opposite of `hold`: loads it."""
        await asyncio.get_running_loop().run_in_executor(None, self._holds.release, name)
        await self.load(name)

    def _requested(self, name: str, config: Optional[str], files: Dict[str, bytes]) -> Optional[ModelEntry]:
        if files:
            return self._uploads.put(name, config, files)
        entry = find(self._section.repository, name)
        if entry is None or config is None:
            return entry
        return read_model(entry.directory.parent, entry.directory, model_config_from_json(config, entry.directory))

    # -- the repository changes -------------------------------------------------------------------------------------

    async def _scan(self) -> List[ModelEntry]:
        """What is there; a repository that cannot be read is a fault that is shown, not an end."""
        entries: Dict[str, ModelEntry] = {}
        fault = None
        for repository in self._section.repository:
            try:
                found = await asyncio.get_running_loop().run_in_executor(None, scan, [repository])
            except errors.ConfigError as error:
                fault = PartStatus(State.FAILED, self._clock.now(), "model.repository", {"text": error.faults[0][1]})
                if self.repository_fault is None:
                    _log.error("the model repository cannot be read: %s", error, extra={"code": "model.repository"})
                continue
            for entry in found:
                entries.setdefault(entry.name, entry)
        if fault is None or self.repository_fault is None:
            self.repository_fault = fault
        return [entries[name] for name in sorted(entries)]

    async def _poll(self) -> None:
        """Looks every so often; a change counts when two looks in a row have seen the same: half-copied files do not."""
        while True:
            await asyncio.sleep(self._section.poll_interval_s)
            entries = await self._scan()
            if self.repository_fault is not None:
                continue  # an unmounted disk takes nothing down
            for entry in _dependencies_first(entries):
                await self._poll_model(entry)
            for model in list(self._catalogue):
                if model.name not in {entry.name for entry in entries} and model.name not in self._uploads:
                    await self._gone(model)

    async def _poll_model(self, entry: ModelEntry) -> None:
        marks = await asyncio.get_running_loop().run_in_executor(
            None, lambda: tuple(fingerprint(entry, version) for version in entry.versions)
        )
        stable = self._seen.get(entry.name) == marks
        self._seen[entry.name] = marks
        if stable and self._wanted(entry.name) and not self._lock(entry.name).locked():
            async with self._lock(entry.name):
                await self._apply(entry)

    async def _gone(self, model: Model) -> None:
        async with self._lock(model.name):
            await self._retire(model, list(model.versions))
            self._catalogue.forget(model.name)
            self._seen.pop(model.name, None)
            self._journal.event("model.unloaded", model.name, code="model.unloaded", args={"model": model.name})

    # -- making it so -----------------------------------------------------------------------------------------------

    async def _apply(self, entry: ModelEntry, anew: bool = False) -> str:
        """Makes the model what its entry says: loads beside, swaps, takes down. Why it is not, or empty."""
        model = self._catalogue.model(entry.name)
        fault = entry.fault or entry.config.refused
        if fault:
            self._fault(model, "model.config_rejected", fault)
            return fault
        model.fault, model.unloaded = None, False
        reasons = [await self._apply_version(model, entry, version, anew) for version in entry.versions]
        keep = {str(version.number) for version in entry.versions}
        await self._retire(model, [number for number in model.versions if number not in keep])
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

    async def _apply_version(self, model: Model, entry: ModelEntry, version: VersionEntry, anew: bool) -> str:
        made_of = (entry.config.model_dump_json(), fingerprint(entry, version))
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
            if old is not None and old is not model.versions.get(new.version):
                await self._put_down(old)
            return str(new.part.args.get("text") or new.part.as_json()["reason"])
        model.versions[new.version] = new
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
            await self._put_down(version)

    async def _put_down(self, version: Servable) -> None:
        try:
            await asyncio.wait_for(version.retire(), _RETIRE_S)
        except asyncio.TimeoutError:
            version.close(errors.ModelNotReady("model '%s' version %s is unloaded" % (version.name, version.version)))
            _log.warning("%s was taken down with requests in flight", version.label, extra={"code": "model.unloaded"})
        await self._tidy()


def _dependencies_first(entries: Sequence[ModelEntry]) -> List[ModelEntry]:
    return dependencies_first({entry.name: entry for entry in entries}, lambda entry: step_models(entry.config))
