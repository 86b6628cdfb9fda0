"""What is remembered of each model: read, judged against its files, and kept as what serves changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable, Optional, Set, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.promotion.absence import doubt_of, remembered
from edge_agent.serving.promotion.choice import Choice
from edge_agent.serving.promotion.content import Contents
from edge_agent.serving.promotion.ledger import Ledger, Record
from edge_agent.serving.promotion.refusal import Refusal, made_of_files, mark_of, still_refused
from edge_agent.serving.repository import Fingerprint, Marks, ModelEntry
from edge_agent.serving.servable import Servable
from edge_agent.serving.swapping import Swaps
from edge_agent.serving.threads import in_thread


@dataclass(frozen=True)
class Found:
    """A model as it lies on disk now; its record has only refusals that hold for that."""

    entry: ModelEntry
    marks: Marks


class Records:
    """Callers see to it that a model has one change at a time."""

    def __init__(self, ledger: Ledger, swaps: Swaps, catalogue: Catalogue, clock: Clock) -> None:
        self._ledger = ledger
        self._swaps = swaps
        self._catalogue = catalogue
        self._clock = clock
        self._contents = Contents()
        self._doubtful: Set[str] = set()  #: names of models of which something may have been known that is lost

    async def start(self) -> None:
        """Reads what an earlier run has left."""
        await in_thread(self._ledger.load)

    def began_with(self, names: Iterable[str]) -> None:
        """These models are there at the start. What comes later has nothing that could be lost."""
        self._doubtful = set(names) if self._ledger.lost else set()

    def of(self, name: str) -> Record:
        """What is remembered of a model. Not to be changed."""
        return self._ledger.of(name)

    def pinned(self) -> Set[Tuple[str, str]]:
        """Name and number of versions that serve, did before or may soon: what was built for them is kept."""
        records = self._ledger.all().items()
        numbers = {(name, number) for name, one in records for number in (one.active, one.previous, one.candidate)}
        return {(name, str(number)) for name, number in numbers if number is not None}

    async def keep(self, name: str, record: Optional[Record]) -> None:
        """Remembers that of a model, over restarts; None: nothing."""
        if self._ledger.put(name, record):
            await in_thread(self._ledger.save, *self._ledger.content())

    async def forget(self, name: str) -> None:
        """A model is in no repository any more."""
        self._contents.keep_only(name, ())
        self._doubtful.discard(name)
        await self.keep(name, None)

    # -- what was refused -------------------------------------------------------------------------------------------

    async def check_refusals(self, found: Found) -> None:
        """What holds other files by now is not refused any more."""
        name = found.entry.name
        refused = self.of(name).refused
        if not refused:
            self._contents.keep_only(name, ())
            return
        still = await in_thread(still_refused, refused, found.entry, found.marks, self._contents)
        await self.keep(name, replace(self.of(name), refused=still))

    async def refusal(self, found: Found, number: int, loaded_from: Optional[Fingerprint], code: str, reason: str) -> Refusal:
        """One of the files that a version was `loaded_from`, which may have changed since, or else of those on disk."""
        if number not in found.marks:  # it may come back as it was
            return Refusal("", code, reason, self._clock.now(), mark_of(loaded_from or ()))
        version = self._catalogue.model(found.entry.name).loaded(str(number))
        changed = loaded_from not in (None, found.marks[number])
        sha256 = version.sha256 if changed and version is not None else ""
        files = await in_thread(made_of_files, found.entry, number, found.marks[number], self._contents, sha256)
        return Refusal(files[0], code, reason, self._clock.now(), files[1])

    # -- what serves ------------------------------------------------------------------------------------------------

    async def serves(self, found: Found, choice: Choice, main: Optional[int]) -> None:
        """That is `main` now, if it is up; what nobody has judged is told of once."""
        name = found.entry.name
        before, model = self.of(name), self._catalogue.model(name)
        record = before.copy()
        version = None if main is None else model.versions.get(str(main))
        if main is not None and version is not None and not is_down(version):
            record = remembered(before, main, choice, found.marks, found.entry.config.accept is not None)
        if name in self._doubtful and name not in self._ledger.all() and len(found.marks) > 1:
            record.unsure = True
        self._doubtful.discard(name)
        code, text = doubt_of(record)
        if code and (before.unjudged, before.unsure) != (record.unjudged, record.unsure):
            self._swaps.warn(name, code, text)
        self._show(model, code, text)
        await self.keep(name, record)

    def _show(self, model: Model, code: str, text: str) -> None:
        if not code:
            model.doubt = None
        elif model.doubt is None or model.doubt.args.get("text") != text:
            model.doubt = PartStatus(State.DEGRADED, self._clock.now(), code, {"model": model.name, "text": text})


def is_down(version: Servable) -> bool:
    """Whether it will not serve by itself; one whose host is being started will."""
    return version.settled and version.part.state is State.FAILED and version.part.code != "model.host_down"
