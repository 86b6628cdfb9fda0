"""Which versions of a model serve and which one is compared with them: as its folder and what is remembered of it say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Awaitable, Callable, Dict, Optional, Set, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.promotion.absence import Absences, stand_in
from edge_agent.serving.promotion.choice import Choice, choose
from edge_agent.serving.promotion.ledger import Ledger, Record
from edge_agent.serving.promotion.records import Found, Records, is_down
from edge_agent.serving.promotion.refusal import Refusal
from edge_agent.serving.promotion.trials import Trials
from edge_agent.serving.repository import Marks, ModelEntry, marked, read_model
from edge_agent.serving.servable import Servable
from edge_agent.serving.swapping import Swaps
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion

#: name, seconds, and what is done to the model after them, when nobody else changes it
Later = Callable[[str, float, Callable[[ModelEntry], Awaitable[None]]], None]


class Lineup:
    """Callers see to it that a model has one change at a time."""

    def __init__(self, ledger: Ledger, trials: Trials, swaps: Swaps, catalogue: Catalogue, clock: Clock) -> None:
        self.on_crash: Callable[[Servable], None] = lambda version: None  #: loading it ended its engine host thrice
        self.later: Later = lambda name, pause_s, change: None
        self.trials = trials
        self.absences = Absences(clock)
        self.records = Records(ledger, swaps, catalogue, clock)
        self._swaps = swaps
        self._catalogue = catalogue
        self._told: Set[str] = set()  #: names whose files came with a load request: the ledger knows nothing of them
        self._entries: Dict[str, ModelEntry] = {}  #: by name: what was followed last
        self._timed: Set[str] = set()  #: names of models that are looked at when something was waited for long enough

    async def start(self) -> None:
        """Reads what an earlier run has left."""
        await self.records.start()

    def pinned(self) -> Set[Tuple[str, str]]:
        """Name and number of versions whose plans are kept."""
        return self.records.pinned()

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
        return await self.follow(await self.found(entry, marks), anew, compare)

    async def found(self, entry: ModelEntry, marks: Marks) -> Found:
        """A model with what was refused of it: what holds other files by now is not refused any more."""
        found = Found(entry, marks)
        await self.records.check_refusals(found)
        return found

    def choice(self, found: Found, anew: bool = False) -> Choice:
        """Which versions serve and which is compared, with what serves from memory while its folder is away."""
        return choose(found.entry, self.records.of(found.entry.name), None if anew else self._held(found))

    async def follow(self, found: Found, anew: bool = False, compare: bool = True) -> str:
        """The same for a model that is not told."""
        entry, name = found.entry, found.entry.name
        self._entries[name] = entry
        model, choice = self._catalogue.model(name), self.choice(found, anew)
        model.apart = {str(n): _refused_part(name, n, refusal) for n, refusal in choice.refused.items()}
        if not choice.serve:
            model.unloaded = False
            newest, refusal = max(choice.refused.items())
            text = "version %d was refused, and there is no other: %s" % (newest, refusal.reason)
            self._swaps.fault(model, refusal.code, text)
            return text
        main = choice.main
        reason = await self._swaps.apply(entry.only(*choice.serve), found.marks, anew, choice.held)
        if _all_down(model) and (anew or not self._comes_back(choice, model)):
            main = stand_in(choice, self.records.of(name), found.marks)
            if main is not None:  # better than nothing
                await self._swaps.apply(entry.only(*choice.serve, main), found.marks)
                reason = "" if main == choice.candidate else reason
        await self.records.serves(found, choice, main)
        self._look_for_absent(found, model)
        for version in model.versions.values():
            if has_crashed(version) and int(version.version) != self.records.of(name).active:
                self.on_crash(version)
        if compare:
            await self._try(found, choice, anew)  # what becomes of it is no word about what serves
        return reason

    # -- what is away for a moment ----------------------------------------------------------------------------------

    def _held(self, found: Found) -> Optional[int]:
        """The version that serves from memory while its folder is away: nothing uncompared takes its place for a while."""
        name, number = found.entry.name, self.records.of(found.entry.name).base
        if number is None or number in found.marks or found.entry.config.accept is None:
            return None
        version = self._catalogue.model(name).versions.get(str(number))
        return number if version is not None and not is_down(version) and self.absences.left_s(name, number) else None

    def _comes_back(self, choice: Choice, model: Model) -> bool:
        """Whether what is down was up and is being loaded again, so that nothing uncompared need take its place yet."""
        version = model.versions.get(str(choice.main))
        if choice.candidate is None or choice.main is None or version is None or is_lost(version):
            return False
        return self.absences.left_s(model.name, choice.main) > 0

    def _look_for_absent(self, found: Found, model: Model) -> None:
        """What is waited for has its time, also where nobody looks at the repository."""
        name, base = model.name, self.records.of(model.name).base
        up = [int(n) for n, version in model.versions.items() if not is_down(version) and int(n) in found.marks]
        self.absences.look(name, up, [int(number) for number in model.versions])
        left_s = 0.0 if base is None or base in up else self.absences.left_s(name, base)
        if left_s and name not in self._timed:
            self._timed.add(name)
            self.later(name, left_s, self._waited_enough)

    async def _waited_enough(self, entry: ModelEntry) -> None:
        self._timed.discard(entry.name)
        found = await self._as_followed(entry.name)
        if found is not None:
            await self.follow(found)

    async def _as_followed(self, name: str) -> Optional[Found]:
        """The model with the configuration and the versions that it had when it was followed last, as they lie there now.

        What else lies on disk by now is for the next look at the repository or the next request to load it.
        """
        last, record = self._entries.get(name), self.records.of(name)
        if last is None:
            return None
        entry = await in_thread(read_model, last.directory.parent, last.directory, last.config)
        known = {version.number for version in last.on_disk} | {record.active, record.unjudged}
        there = tuple(version for version in entry.on_disk if version.number in known)
        entry, marks = await in_thread(marked, replace(entry, on_disk=there))
        return None if entry.fault or not there else await self.found(entry, marks)

    async def _try(self, found: Found, choice: Choice, anew: bool) -> None:
        """Has the candidate compared; what hinders that is in the status."""
        name = found.entry.name
        record = self.records.of(name)
        number, base = choice.candidate, record.base
        if number is None or base is None or number == base:
            await self.trials.end(name)
            number = None
        else:
            await self.trials.begin(found.entry, found.marks[number], number, base, anew)
        await self.records.keep(name, replace(self.records.of(name), candidate=number))

    # -- changes ----------------------------------------------------------------------------------------------------

    async def serve(self, found: Found, wanted: Record, number: int) -> str:
        """Swaps in that version, and remembers it. Why it does not serve, or empty; then `follow` makes all as it was."""
        entry = found.entry
        choice = choose(entry, wanted)
        if number not in choice.serve:
            return "its version_policy does not have it served"
        model = self._catalogue.model(entry.name)
        await self.trials.end(entry.name)  # first: there may be no memory for three engines
        old = model.versions.get(str(number))
        reason = await self._swaps.apply(entry.only(*choice.serve), found.marks, anew=old is not None and not old.ready)
        version = model.versions.get(str(number))
        if version is None or is_down(version):
            return reason or "it is not up"
        await self.records.keep(entry.name, wanted)
        await self.follow(found)
        return ""

    def is_hopeless(self, name: str, number: int) -> bool:
        """Whether a version that did not come up to serve would not the next time either."""
        version = self._catalogue.model(name).versions.get(str(number))
        return version is None or is_lost(version)

    async def refusal(self, found: Found, number: int, code: str, reason: str) -> Refusal:
        """Of a version as it was loaded, or as it lies on disk."""
        name, trial = found.entry.name, self.trials.of(found.entry.name)
        aside = trial.made_of[1] if trial is not None and trial.number == number else None
        marks = aside or self._swaps.marks("%s/%d" % (name, number))
        return await self.records.refusal(found, number, marks, code, reason)

    async def unloaded(self, name: str) -> None:
        """A model is taken down; what is known of it stays."""
        await self.trials.end(name)
        model = self._catalogue.model(name)
        model.apart, model.doubt = {}, None
        self._put_away(name)

    async def forget(self, name: str) -> None:
        """A model is in no repository any more."""
        await self.trials.end(name)
        await self.records.forget(name)
        self._put_away(name)

    def _put_away(self, name: str) -> None:
        """Nothing of it serves any more, so nothing is waited for."""
        self.absences.forget(name)
        self._entries.pop(name, None)
        self._timed.discard(name)

    async def again(self, name: str, number: str) -> str:
        """Loads a version anew that is loaded, be it compared only. Why it did not come up, or empty."""
        trial = self.trials.of(name)
        if trial is not None and trial.served.version == number:
            return await self.trials.again(trial)
        reason = await self._swaps.again(name, number)
        record, serves = self.records.of(name), self._catalogue.model(name).ready_version()
        if record.active is None and serves is not None and not self.is_told(name):
            await self.records.keep(name, replace(record, active=int(serves.version)))  # it is the first that came up
        if not reason:
            self.absences.came(name, int(number))
        await self._make_up_for(name)
        return reason

    async def _make_up_for(self, name: str) -> None:
        """One of its versions came back, or did not: where another one stands in or must, that is seen to."""
        model, record = self._catalogue.model(name), self.records.of(name)
        up = {int(number) for number, version in model.versions.items() if not is_down(version)}
        if len(up) == 1 and record.unjudged is None:
            return
        found = await self._as_followed(name)
        if found is not None and (record.unjudged is not None or not up or not up <= set(self.choice(found).serve)):
            await self.follow(found)


def has_crashed(version: Servable) -> bool:
    """Whether it ended its engine host until it was given up."""
    return isinstance(version, ServedVersion) and version.crashes


def is_lost(version: Servable) -> bool:
    """Whether to load it again would come to the same."""
    return has_crashed(version) or version.part.code == "model.config_rejected"


def _all_down(model: Model) -> bool:
    return all(is_down(version) for version in model.versions.values())


def _refused_part(name: str, number: int, refusal: Refusal) -> PartStatus:
    args: Dict[str, Any] = {"model": "%s/%d" % (name, number), "text": refusal.reason}
    return PartStatus(State.OFF, refusal.at, refusal.code, args)
