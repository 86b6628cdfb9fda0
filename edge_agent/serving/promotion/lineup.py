"""Which versions of a model serve and which one is compared with them: as its folder and what is remembered of it say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Mapping, Optional, Set, Tuple

from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.promotion.choice import Choice, choose
from edge_agent.serving.promotion.ledger import Ledger, Record, Refusal, mark_of
from edge_agent.serving.promotion.trials import Trials
from edge_agent.serving.repository import Marks, ModelEntry, marked
from edge_agent.serving.servable import Servable
from edge_agent.serving.swapping import Swaps
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion


@dataclass(frozen=True)
class Found:
    """A model as it lies on disk now."""

    entry: ModelEntry
    marks: Marks
    words: Mapping[int, str]  #: the marks as the ledger has them

    @classmethod
    def of(cls, entry: ModelEntry, marks: Marks) -> Found:
        """With the marks of all that is on disk."""
        return cls(entry, marks, {number: mark_of(mark) for number, mark in marks.items()})


class Lineup:
    """Callers see to it that a model has one change at a time."""

    def __init__(self, ledger: Ledger, trials: Trials, swaps: Swaps, catalogue: Catalogue) -> None:
        self.on_crash: Callable[[Servable], None] = lambda version: None  #: loading it ended its engine host thrice
        self.trials = trials
        self._ledger = ledger
        self._swaps = swaps
        self._catalogue = catalogue
        self._told: Set[str] = set()  #: names whose files came with a load request: the ledger knows nothing of them

    async def start(self) -> None:
        """Reads what an earlier run has left."""
        await in_thread(self._ledger.load)

    def pinned(self) -> Set[Tuple[str, str]]:
        """Name and number of versions that serve, did before or may soon: what was built for them is kept."""
        records = self._ledger.all().items()
        numbers = {(name, number) for name, one in records for number in (one.active, one.previous, one.candidate)}
        return {(name, str(number)) for name, number in numbers if number is not None}

    def record(self, name: str) -> Record:
        """What is remembered of a model. Not to be changed."""
        return self._ledger.of(name)

    def is_told(self, name: str) -> bool:
        """Whether a load request has brought what serves."""
        return name in self._told

    # -- as it lies on disk -----------------------------------------------------------------------------------------

    async def apply(
        self, entry: ModelEntry, marks: Optional[Marks] = None, anew: bool = False, told: bool = False, compare: bool = True
    ) -> str:
        """Makes a model what its folder and its record say. Why it is not, or empty.

        Args:
            entry: the folder.
            marks: of its files, where they are known already.
            anew: loads what is loaded already, too.
            told: a load request has brought the files or the configuration; that is done at once and not remembered.
            compare: False leaves a candidate for a later time.
        """
        entry, marks = (entry, marks) if marks is not None else await in_thread(marked, entry)
        if entry.fault or entry.config.refused:
            return await self._swaps.apply(entry, marks, anew)
        if told or entry.config.platform == "ensemble":
            self._told.add(entry.name)
            await self.unloaded(entry.name)
            return await self._swaps.apply(entry, marks, anew)
        self._told.discard(entry.name)
        return await self.follow(Found.of(entry, marks), anew, compare)

    async def follow(self, found: Found, anew: bool = False, compare: bool = True) -> str:
        """The same for a model that is not told."""
        entry = found.entry
        model, record = self._catalogue.model(entry.name), self._ledger.of(entry.name)
        choice = choose(entry, found.words, record)
        model.apart = {str(n): _refused_part(entry.name, n, refusal) for n, refusal in choice.refused.items()}
        if not choice.serve:
            model.unloaded = False
            newest, refusal = max(choice.refused.items())
            text = "version %d was refused, and there is no other: %s" % (newest, refusal.reason)
            self._swaps.fault(model, refusal.code, text)
            return text
        main = choice.main
        reason = await self._swaps.apply(entry.only(*choice.serve), found.marks, anew)
        if all(is_down(version) for version in model.versions.values()):
            main = _instead(choice, record, found)
            if main is not None:  # better than nothing
                await self._swaps.apply(entry.only(*choice.serve, main), found.marks)
                reason = "" if main == choice.candidate else reason
        await self._note(found, choice, main, model)
        for version in model.versions.values():
            if has_crashed(version) and int(version.version) != self._ledger.of(entry.name).active:
                self.on_crash(version)
        if compare:
            await self._try(found, choice, anew)  # what becomes of it is no word about what serves
        return reason

    async def _note(self, found: Found, choice: Choice, main: Optional[int], model: Model) -> None:
        """What serves now, if it does, and what did before."""
        record = self._ledger.of(found.entry.name).copy()
        active, previous = record.active, record.previous
        version = None if main is None else model.versions.get(str(main))
        if main != active and version is not None and not is_down(version):
            active, previous = main, active
            record.answered, record.served_s = 0, 0.0
        there = previous in found.words and previous != active
        record.active, record.previous, record.refused = active, previous if there else None, dict(choice.refused)
        await self.keep(found.entry.name, record)

    async def _try(self, found: Found, choice: Choice, anew: bool) -> None:
        """Has the candidate compared; what hinders that is in the status."""
        name = found.entry.name
        record = self._ledger.of(name)
        number, base = choice.candidate, record.active
        if number is None or base is None or number == base:
            await self.trials.end(name)
            number = None
        else:
            await self.trials.begin(found.entry, found.marks[number], number, base, anew)
        await self.keep(name, replace(self._ledger.of(name), candidate=number))

    # -- changes ----------------------------------------------------------------------------------------------------

    async def serve(self, found: Found, wanted: Record, number: int) -> str:
        """Swaps in that version, and remembers it. Why it does not serve, or empty; then `follow` makes all as it was."""
        entry = found.entry
        choice = choose(entry, found.words, wanted)
        if number not in choice.serve:
            return "its version_policy does not have it served"
        model = self._catalogue.model(entry.name)
        await self.trials.end(entry.name)  # first: there may be no memory for three engines
        old = model.versions.get(str(number))
        reason = await self._swaps.apply(entry.only(*choice.serve), found.marks, anew=old is not None and not old.ready)
        version = model.versions.get(str(number))
        if version is None or is_down(version):
            return reason or "it is not up"
        await self.keep(entry.name, wanted)
        await self.follow(found)
        return ""

    def is_hopeless(self, name: str, number: int) -> bool:
        """Whether a version that did not come up to serve would not the next time either."""
        version = self._catalogue.model(name).versions.get(str(number))
        return version is None or has_crashed(version) or version.part.code == "model.config_rejected"

    def mark(self, found: Found, number: int) -> str:
        """Of the files that a version was loaded from, which may have changed since; of those on disk if it is not loaded."""
        marks = self._swaps.marks("%s/%d" % (found.entry.name, number))
        return found.words[number] if marks is None else mark_of(marks)

    async def keep(self, name: str, record: Optional[Record]) -> None:
        """Remembers that of a model, over restarts; None: nothing."""
        if self._ledger.put(name, record):
            await in_thread(self._ledger.save, *self._ledger.content())

    async def unloaded(self, name: str) -> None:
        """A model is taken down; what is known of it stays."""
        await self.trials.end(name)
        self._catalogue.model(name).apart = {}

    async def forget(self, name: str) -> None:
        """A model is in no repository any more."""
        await self.trials.end(name)
        await self.keep(name, None)

    async def again(self, name: str, number: str) -> str:
        """Loads a version anew that is loaded, be it compared only. Why it did not come up, or empty."""
        trial = self.trials.of(name)
        if trial is not None and trial.served.version == number:
            return await self.trials.again(trial)
        reason = await self._swaps.again(name, number)
        record, serves = self._ledger.of(name), self._catalogue.model(name).ready_version()
        if record.active is None and serves is not None and not self.is_told(name):
            await self.keep(name, replace(record, active=int(serves.version)))  # it is the first that came up
        return reason


def is_down(version: Servable) -> bool:
    """Whether it will not serve by itself; one whose host is being started will."""
    return version.settled and version.part.state is State.FAILED and version.part.code != "model.host_down"


def has_crashed(version: Servable) -> bool:
    """Whether it ended its engine host until it was given up."""
    return isinstance(version, ServedVersion) and version.crashes


def _instead(choice: Choice, record: Record, found: Found) -> Optional[int]:
    """What serves where nothing else can: a candidate unseen, or what did before."""
    if choice.candidate is not None:
        return choice.candidate
    there = record.active in found.words and record.active not in choice.refused and record.active != choice.main
    return record.active if there else None


def _refused_part(name: str, number: int, refusal: Refusal) -> PartStatus:
    args: Dict[str, Any] = {"model": "%s/%d" % (name, number), "text": refusal.reason}
    return PartStatus(State.OFF, refusal.at, refusal.code, args)
