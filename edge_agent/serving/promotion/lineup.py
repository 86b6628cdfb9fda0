"""Which versions of a model serve and which one is compared with them: as its folder and what is remembered of it say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Mapping, Optional, Set, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.promotion.choice import Choice, choose
from edge_agent.serving.promotion.content import UNREAD, Contents
from edge_agent.serving.promotion.ledger import Ledger, Record, Refusal
from edge_agent.serving.promotion.trials import Trials
from edge_agent.serving.repository import Marks, ModelEntry, marked
from edge_agent.serving.servable import Servable
from edge_agent.serving.swapping import Swaps
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion

AWAY_S = 300.0  #: so long a version that cannot be seen, or is loaded again, is waited for


@dataclass(frozen=True)
class Found:
    """A model as it lies on disk now."""

    entry: ModelEntry
    marks: Marks
    words: Mapping[int, str]  #: the marks as the ledger has them


class Lineup:
    """Callers see to it that a model has one change at a time."""

    def __init__(self, ledger: Ledger, trials: Trials, swaps: Swaps, catalogue: Catalogue) -> None:
        self.on_crash: Callable[[Servable], None] = lambda version: None  #: loading it ended its engine host thrice
        self.trials = trials
        self._contents = Contents()
        self._clock = Clock()
        self._missed: Dict[Tuple[str, int], float] = {}  #: since when a version's folder is away, or it is down
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
        return await self.follow(await self.found(entry, marks), anew, compare)

    async def found(self, entry: ModelEntry, marks: Marks) -> Found:
        """A model with what its files hold; where there is no choice they need not be read."""
        record = self._ledger.of(entry.name)
        if len(marks) < 2 and not record.refused and record.base in (None, *marks):
            return Found(entry, marks, dict.fromkeys(marks, UNREAD))
        return Found(entry, marks, await in_thread(self._contents.words, entry, marks))

    async def follow(self, found: Found, anew: bool = False, compare: bool = True) -> str:
        """The same for a model that is not told."""
        entry = found.entry
        model, record = self._catalogue.model(entry.name), self._ledger.of(entry.name)
        held = self._held(found, record, model, anew)
        choice = choose(entry, found.words, record, held)
        model.apart = {str(n): _refused_part(entry.name, n, refusal) for n, refusal in choice.refused.items()}
        if not choice.serve:
            model.unloaded = False
            newest, refusal = max(choice.refused.items())
            text = "version %d was refused, and there is no other: %s" % (newest, refusal.reason)
            self._swaps.fault(model, refusal.code, text)
            return text
        main = choice.main
        reason = await self._swaps.apply(entry.only(*choice.serve), found.marks, anew, held)
        if all(is_down(version) for version in model.versions.values()) and not self._comes_back(choice, model):
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
            chosen = active in found.words and choice.main != active  # its policy or a refusal says so
            if active is None or chosen or found.entry.config.accept is None:
                active, previous, record.unjudged = main, active, None
                record.answered, record.served_s = 0, 0.0
            else:  # it was not compared to the end: the active one serves again as soon as it can
                self._missed.pop((found.entry.name, active), None)
                record.unjudged = main
        elif main is not None and version is not None and not is_down(version):
            record.unjudged = None
            if main in found.words:
                self._missed.pop((found.entry.name, main), None)
        if self._ledger.lost and found.entry.name not in self._ledger.all() and len(found.words) > 1:
            record.unsure = True
        record.active, record.previous = active, previous if previous != active else None
        record.keep_refused(choice.refused, found.words)
        self._doubt(model, self._ledger.of(found.entry.name), record)
        await self.keep(found.entry.name, record)

    def _doubt(self, model: Model, before: Record, record: Record) -> None:
        """Shows what nobody has judged, and tells of it once."""
        code, text = "", ""
        if record.unjudged is not None:
            code, text = (
                "model.unjudged",
                "version %d serves uncompared, as version %s cannot"
                % (
                    record.unjudged,
                    record.active,
                ),
            )
        elif record.unsure:
            code, text = (
                "model.promotions_lost",
                "it is not known which version served or was refused: version %s serves" % (record.active),
            )
        if code and (before.unjudged, before.unsure) != (record.unjudged, record.unsure):
            self._swaps.warn(model.name, code, text)
        if not code:
            model.doubt = None
        elif model.doubt is None or model.doubt.args.get("text") != text:
            model.doubt = PartStatus(State.DEGRADED, self._clock.now(), code, {"model": model.name, "text": text})

    # -- what is away for a moment ----------------------------------------------------------------------------------

    def _held(self, found: Found, record: Record, model: Model, anew: bool) -> Optional[int]:
        """The version that serves from memory while its folder is away: nothing uncompared takes its place for a while."""
        number = record.base
        if number is None or anew or found.entry.config.accept is None:
            return None
        version = model.versions.get(str(number))
        if number in found.words:
            return None
        return number if version is not None and not is_down(version) and self._for_a_while(model.name, number) else None

    def _comes_back(self, choice: Choice, model: Model) -> bool:
        """Whether what is down was up and is being loaded again, so that nothing uncompared need take its place yet."""
        version = model.versions.get(str(choice.main))
        if choice.candidate is None or choice.main is None or not isinstance(version, ServedVersion):
            return False
        lost = version.batcher is not None and not version.crashes and version.part.code != "model.config_rejected"
        return lost and self._for_a_while(model.name, choice.main)

    def _for_a_while(self, name: str, number: int) -> bool:
        since = self._missed.setdefault((name, number), self._clock.monotonic())
        return self._clock.monotonic() - since < AWAY_S

    async def _try(self, found: Found, choice: Choice, anew: bool) -> None:
        """Has the candidate compared; what hinders that is in the status."""
        name = found.entry.name
        record = self._ledger.of(name)
        number, base = choice.candidate, record.base
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
        known = None if marks is None else self._contents.known(found.entry, number, marks)
        return known or found.words[number]

    async def keep(self, name: str, record: Optional[Record]) -> None:
        """Remembers that of a model, over restarts; None: nothing."""
        if self._ledger.put(name, record):
            await in_thread(self._ledger.save, *self._ledger.content())

    async def unloaded(self, name: str) -> None:
        """A model is taken down; what is known of it stays."""
        await self.trials.end(name)
        model = self._catalogue.model(name)
        model.apart, model.doubt = {}, None

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
