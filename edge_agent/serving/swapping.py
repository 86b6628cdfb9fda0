"""Makes models what their entries say: versions come up beside what serves, are swapped in between two requests, and go."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Awaitable, Callable, Dict, List, Optional, Set, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.journal import Journal
from edge_agent.serving.loading import UNREADABLE
from edge_agent.serving.repository import Fingerprint, Marks, ModelEntry, VersionEntry, marked, replaced
from edge_agent.serving.servable import Servable
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)

_RETIRE_S = 60.0  #: longest wait for the requests of a version that is taken down

#: with a text behind: a version that is run aside, see ServedVersion
Make = Callable[[ModelEntry, VersionEntry, str], Servable]
Load = Callable[[Servable], Awaitable[None]]


class Swaps:
    """What serves goes on serving until what replaces it is ready. Callers see to it that a model has one change at a time."""

    def __init__(
        self,
        catalogue: Catalogue,
        make: Make,
        load: Load,
        tidy: Callable[[], Awaitable[None]],
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._catalogue = catalogue
        self._make = make
        self._load = load
        self._tidy = tidy
        self._journal = journal
        self._clock = clock
        self._loaded: Dict[str, Tuple[str, Fingerprint]] = {}  #: by label: the config and the files it was made of
        self._lies: Dict[str, ModelEntry] = {}  #: by label: what serves, or should, was loaded from this
        self._tasks = Tasks()

    async def stop(self) -> None:
        """Waits for nothing any more."""
        await self._tasks.stop()

    # -- up ---------------------------------------------------------------------------------------------------------

    async def apply(
        self, entry: ModelEntry, marks: Optional[Marks] = None, anew: bool = False, held: Optional[int] = None
    ) -> str:
        """Makes the model what its entry says: loads beside, swaps, takes down. Why it is not, or empty.

        `held`: this version goes on from memory, its folder is away.
        """
        entry, seen = (entry, marks) if marks is not None else await in_thread(marked, entry)
        model = self._catalogue.model(entry.name)
        fault = entry.fault or entry.config.refused
        if fault:
            self.fault(model, "model.config_rejected", fault)
            return fault
        model.fault, model.unloaded = None, False
        reasons = [await self._apply_version(model, entry, version, seen[version.number], anew) for version in entry.versions]
        ready = [number for number, version in model.versions.items() if version.ready]
        old = [number for number in model.versions if number != str(held)]
        await self.retire(model, replaced(old, [str(version.number) for version in entry.versions], ready))
        return next((reason for reason in reasons if reason), "")

    async def again(self, name: str, number: str) -> str:
        """Loads a version anew that is there, with the configuration that it has. Why it did not come up, or empty."""
        model = self._catalogue.known(name)
        old, lies = model.versions.get(number), self._lies.get("%s/%s" % (name, number))
        if old is None or lies is None:
            raise errors.ModelNotFound("failed to load '%s' version %s again, it is not loaded" % (name, number))
        entry, marks = await in_thread(marked, lies)
        if entry.fault:
            return entry.fault
        (version,) = entry.only(int(number)).versions
        return await self._apply_version(model, lies, version, marks[version.number], anew=True)

    async def _apply_version(
        self, model: Model, entry: ModelEntry, version: VersionEntry, marks: Fingerprint, anew: bool
    ) -> str:
        made_of = (entry.config.model_dump_json(), marks)
        label = "%s/%d" % (entry.name, version.number)
        old = model.versions.get(str(version.number))
        if old is not None and not anew and self._loaded.get(label) == made_of and old.part.code != UNREADABLE:
            return ""
        new = self._make(entry, version, "")
        if old is None or not old.ready:
            model.versions[new.version] = new  # nothing serves yet: its loading may be seen
        self._loaded[label] = made_of
        await self._load(new)
        if new.part.code == UNREADABLE:
            self._loaded.pop(label, None)  # the next look tries again, also where another one serves
        if isinstance(new, ServedVersion) and old is not None and _same_failure(old.part, new.part):
            new.part = old.part  # told already
        else:
            self._record(new)
        if not _up(new):
            if model.versions.get(new.version) is new:
                self._lies[label] = entry  # it may come up later, with the configuration that it has
                if old is not None:
                    await self.put_down(old)
            return _why_not(new)
        model.versions[new.version], self._lies[label] = new, entry
        if old is not None:
            await self.put_down(old)
        return ""

    # -- aside ------------------------------------------------------------------------------------------------------

    def aside(self, entry: ModelEntry, number: int) -> ServedVersion:
        """A version that will answer nobody, not loaded yet."""
        (version,) = entry.only(number).versions
        new = self._make(entry, version, "+" + entry.name)
        assert isinstance(new, ServedVersion)
        return new

    async def bring_up(self, version: ServedVersion) -> str:
        """Loads such a version. Why it did not come up, or empty."""
        await self._load(version)
        self._record(version)
        return "" if _up(version) else _why_not(version)

    # -- down -------------------------------------------------------------------------------------------------------

    async def retire(self, model: Model, numbers: List[str]) -> None:
        """Takes versions down; their requests in flight end first."""
        versions = [model.versions.pop(number) for number in numbers]
        for version in versions:
            self._loaded.pop(version.label, None)
            self._lies.pop(version.label, None)
            await self.put_down(version)

    def marks(self, label: str) -> Optional[Fingerprint]:
        """Of the files that a version was loaded from, or should have been; None where it is not there."""
        made_of = self._loaded.get(label)
        return None if made_of is None else made_of[1]

    def folders(self, name: str) -> Set[Path]:
        """The model directories that a model's versions were loaded from, or will be when their plans are there."""
        versions = self._catalogue.model(name).versions.values()
        labels = {version.label for version in versions if not _never_came(version)}
        return {self._lies[label].directory for label in labels.intersection(self._lies)}

    async def put_down(self, version: Servable) -> None:
        """What does not end in time is waited for no longer, but freed as soon as it has ended: its host writes until then."""
        retiring = self._tasks.spawn(self._retired(version), "retire:" + version.label)
        await asyncio.wait([retiring], timeout=_RETIRE_S)
        if not retiring.done():
            version.close(errors.ModelNotReady("model '%s' version %s is unloaded" % (version.name, version.version)))
            _log.warning("%s was taken down with requests in flight", version.label, extra={"code": "model.unloaded"})

    async def _retired(self, version: Servable) -> None:
        await version.retire()
        await self._tidy()

    # -- what is told -----------------------------------------------------------------------------------------------

    def fault(self, model: Model, code: str, text: str) -> None:
        """A fault of the whole model; versions that serve go on, and the fault is told once."""
        if model.versions:
            if self._loaded.get(model.name) != (text, ()):
                self._loaded[model.name] = (text, ())
                self._tell_failure(model.name, code, text)
            return
        if model.fault is None or model.fault.args.get("text") != text:
            model.fault = PartStatus(State.FAILED, self._clock.now(), code, {"model": model.name, "text": text})
            self._tell_failure(model.name, code, text)

    def warn(self, name: str, code: str, text: str) -> None:
        """Something about a model that goes on serving and should be looked at."""
        _log.warning("model %s: %s", name, text, extra={"code": code})
        self._journal.event(code, name, code=code, args={"model": name, "text": text}, text=text)

    def _tell_failure(self, subject: str, code: str, text: str) -> None:
        _log.error("model %s: %s", subject, text, extra={"code": code})
        self._journal.event("model.failed", subject, code=code, args={"model": subject, "text": text}, text=text)

    def _record(self, version: Servable) -> None:
        aside = isinstance(version, ServedVersion) and version.aside
        text = str(version.part.args.get("text", ""))
        state = ("shadowing" if aside else "ready") if _up(version) else "failed"
        figures = version.figures if isinstance(version, ServedVersion) else {}
        self._journal.model_version(
            version.name, version.version, version.platform, version.sha256, state, version.load_ms, text, figures
        )
        if state == "ready":
            self._journal.event("model.loaded", version.label, code="model.loaded", args={"model": version.label})
        elif state == "failed":
            self._tell_failure(version.label, version.part.code, text)


def _up(version: Servable) -> bool:
    """Whether its loading went well."""
    return version.part.state in (State.OK, State.DEGRADED)


def _never_came(version: Servable) -> bool:
    """Whether it was not loaded, and nothing is on its way that would let it be."""
    if not isinstance(version, ServedVersion) or version.hosted is not None:
        return False
    return version.settled and (version.build is None or not version.build.pending)


def _same_failure(old: PartStatus, new: PartStatus) -> bool:
    """Whether a read failed again as it did before."""
    return new.code == UNREADABLE and (old.state, old.code, old.args) == (new.state, new.code, new.args)


def _why_not(version: Servable) -> str:
    return str(version.part.args.get("text") or version.part.as_json()["reason"])
