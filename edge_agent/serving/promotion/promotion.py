"""Versions are promoted, refused and rolled back: by what a trial finds, by a crash loop, or by hand."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Callable, Dict, Mapping, Optional

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.journal import Journal
from edge_agent.serving.promotion.compared import Compared
from edge_agent.serving.promotion.judge import Verdict
from edge_agent.serving.promotion.ledger import Record
from edge_agent.serving.promotion.lineup import Lineup
from edge_agent.serving.promotion.probation import is_over
from edge_agent.serving.promotion.records import Found
from edge_agent.serving.promotion.trial import Trial
from edge_agent.serving.repository import ModelEntry, marked
from edge_agent.serving.servable import Servable
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion

_log = logging.getLogger(__name__)


class Promotion:
    """Changes a line-up. Callers see to it that a model has one change at a time."""

    def __init__(self, lineup: Lineup, catalogue: Catalogue, journal: Journal, clock: Clock) -> None:
        self.on_crash: Callable[[Servable], None] = lambda version: None  #: of one that serves; then `crashed` is due
        self._waiting: Dict[str, Compared] = {}  #: by model: it passed its trial and could not be loaded to serve yet
        self._lineup = lineup
        self._trials = lineup.trials
        self._catalogue = catalogue
        self._journal = journal
        self._clock = clock
        self._records = lineup.records
        lineup.on_crash = self._trials.on_crash = self._crash

    # -- by itself --------------------------------------------------------------------------------------------------

    async def conclude(self, entry: ModelEntry, trial: Trial, verdict: Verdict) -> None:
        """A trial has ended: the version is promoted or refused, unless its files are others by now."""
        name, number = trial.served.name, trial.number
        if self._trials.of(name) is not trial:
            return
        entry, marks = await in_thread(marked, entry)
        if marks.get(number) != trial.made_of[1]:
            await self._trials.end(name)
            await self._lineup.apply(entry, marks)
            return
        found, passed = await self._lineup.found(entry, marks), Compared.of(trial, verdict)
        if not verdict.good:
            await self._reject(found, passed, verdict.reason)
        elif not self._waits(name, passed):  # else it has passed before, and is swapped in when its pause is over
            await self._swap_in(found, passed)

    def _waits(self, name: str, passed: Compared) -> bool:
        waiting = self._waiting.get(name)
        if waiting is None or (waiting.number, waiting.marks) != (passed.number, passed.marks):
            return False
        return self._clock.monotonic() < waiting.due  # later it was down when its time came

    async def _swap_in(self, found: Found, passed: Compared) -> None:
        """What it lacks for the moment, memory say, is no reason to refuse it."""
        name = found.entry.name
        self._waiting.pop(name, None)
        reason = await self._lineup.serve(found, await self._with_active(found, passed.number), passed.number)
        if not reason:
            self._tell("model.promoted", "model.promoted", passed.label, passed.reason, passed.figures)
            return
        text = "%s, but could not be loaded to serve: %s" % (passed.reason, reason)
        if self._lineup.is_hopeless(name, passed.number):
            await self._reject(found, passed, text)
            return
        _log.warning("%s: %s; again in %g s", passed.label, text, passed.pause_s, extra={"code": "model.shadow_waits"})
        self._wait(name, passed)
        await self._lineup.follow(found)

    def _wait(self, name: str, passed: Compared) -> None:
        due = self._clock.monotonic() + passed.pause_s
        waiting = replace(passed, tries=passed.tries + 1, due=due)
        self._waiting = {one: other for one, other in self._waiting.items() if self._catalogue.get(one) is not None}
        self._waiting[name] = waiting
        self._lineup.later(name, passed.pause_s, lambda entry: self._once_more(entry, waiting))

    async def _once_more(self, entry: ModelEntry, passed: Compared) -> None:
        """Unless something else has come of it meanwhile; then it is compared anew, where it is there."""
        name = entry.name
        if self._waiting.get(name) is not passed:
            return
        if self._lineup.is_told(name):
            del self._waiting[name]
            return
        entry, marks = await in_thread(marked, entry)
        if entry.fault:  # nothing can be said of it now
            self._wait(name, passed)
            return
        found = await self._lineup.found(entry, marks)
        same = self._records.of(name).base == passed.base and marks.get(passed.number) == passed.marks
        if same and self._lineup.choice(found).candidate == passed.number:
            await self._swap_in(found, passed)
            return
        del self._waiting[name]
        await self._trials.end(name)
        await self._lineup.follow(found)

    async def _reject(self, found: Found, passed: Compared, reason: str) -> None:
        self._waiting.pop(found.entry.name, None)
        await self._refuse(found, passed.number, "model.shadow_rejected", reason)
        await self._trials.end(found.entry.name)
        self._tell("model.rolled_back", "model.shadow_rejected", passed.label, reason, passed.figures)
        await self._lineup.follow(found)

    async def _refuse(self, found: Found, number: int, code: str, reason: str) -> None:
        refusal = await self._lineup.refusal(found, number, code, reason)
        record = self._records.of(found.entry.name).copy()
        record.refused[number] = refusal
        record.unsure = False
        record.candidate = None if record.candidate == number else record.candidate
        await self._records.keep(found.entry.name, record)

    def crash_loop(self, version: ServedVersion) -> None:
        """A version has ended its engine host thrice."""
        trial = self._trials.of(version.name)
        if trial is not None and trial.served is version:
            trial.crashed(str(version.part.args.get("text", "")))
        else:
            self._crash(version)

    def _crash(self, version: Servable) -> None:
        self.on_crash(version)

    async def crashed(self, entry: ModelEntry, version: Servable) -> None:
        """The change that brought a version that crashes is taken back, if there was one of late. EngineLoadError.

        What has served well for long is not the change's fault: who may ask could else undo it with a few harmful requests.
        """
        name, number, why = entry.name, int(version.version), str(version.part.args.get("text", ""))
        record, here = self._records.of(name), self._catalogue.model(name).versions.get(version.version)
        if self._lineup.is_told(name) or here not in (version, None):
            return
        found = await self._found(entry)
        if record.active == number and record.previous in found.marks and not is_over(record):
            await self._back(found, "model.stopped", why)
        elif record.active == number:
            await self._lineup.follow(found)  # whatever else there is
        elif record.active in found.marks and number in found.marks and number not in record.refused:
            await self._refuse(found, number, "model.stopped", why)
            self._tell("model.rolled_back", "model.stopped", version.label, why, {"serves": record.active})
            await self._lineup.follow(found)

    # -- by hand ----------------------------------------------------------------------------------------------------

    async def promote(self, entry: ModelEntry, version: Optional[str]) -> None:
        """Makes a version serve at once: the candidate, or the one that is named, refused or not.

        ModelNotFound, InvalidRequest where there is nothing to do, EngineLoadError; what served goes on serving then.
        """
        found = await self._found(entry)
        number = self._named(entry.name, version)
        if number not in found.marks:
            raise errors.ModelNotFound("model '%s' has no version %d in its folder" % (entry.name, number))
        serving = self._catalogue.model(entry.name).versions.get(str(number))
        record = self._records.of(entry.name)
        sure = record.unjudged is None and not record.unsure
        if record.active == number and serving is not None and serving.ready and sure:
            raise errors.InvalidRequest("version %d of model '%s' serves already" % (number, entry.name))
        reason = await self._lineup.serve(found, await self._with_active(found, number), number)
        if reason:
            await self._lineup.follow(found)
            raise errors.EngineLoadError("failed to promote version %d of '%s', %s" % (number, entry.name, reason))
        self._tell("model.promoted", "model.promoted", "%s/%d" % (entry.name, number), "an operator promoted it", {})

    def _named(self, name: str, version: Optional[str]) -> int:
        if version is not None:
            if version.isascii() and version.isdigit():
                return int(version)
            raise errors.ModelNotFound("model '%s' has no version %s in its folder" % (name, version))
        trial, candidate = self._trials.of(name), self._records.of(name).candidate
        number = trial.number if trial is not None else candidate
        if number is None:
            raise errors.InvalidRequest("no version of model '%s' waits to be promoted: name one" % name)
        return number

    async def roll_back(self, entry: ModelEntry) -> None:
        """Makes the version serve that did before, and refuses the one that does. Where none did, the candidate is refused.

        InvalidRequest where there is nothing to go back to; EngineLoadError.
        """
        found = await self._found(entry)
        trial, why = self._trials.of(entry.name), "an operator asked for it"
        if self._records.of(entry.name).previous in found.marks:
            await self._back(found, "model.rolled_back", why)
        elif trial is not None:
            await self._reject(found, Compared.of(trial, Verdict(False, why)), why)
        else:
            raise errors.InvalidRequest("model '%s' has no earlier version to go back to" % entry.name)

    async def _back(self, found: Found, code: str, why: str) -> None:
        name, record = found.entry.name, self._records.of(found.entry.name)
        bad, number = record.active, record.previous
        assert number is not None
        wanted = await self._with_active(found, number)
        wanted.previous = None
        if bad is not None and bad in found.marks:
            wanted.refused[bad] = await self._lineup.refusal(found, bad, code, why)
        reason = await self._lineup.serve(found, wanted, number)
        if reason:
            await self._lineup.follow(found)
            raise errors.EngineLoadError("failed to go back to version %d of '%s', %s" % (number, name, reason))
        text = "version %d serves instead of version %s: %s" % (number, bad, why)
        self._tell("model.rolled_back", "model.rolled_back", "%s/%s" % (name, bad), text, {"serves": number})

    # -- what they have in common -------------------------------------------------------------------------------------

    async def _found(self, entry: ModelEntry) -> Found:
        if entry.config.platform == "ensemble":
            raise errors.InvalidRequest("model '%s' is an ensemble: name one of the models that it calls" % entry.name)
        if self._lineup.is_told(entry.name):
            text = "what serves as model '%s' came with a load request: load it as it lies in the repository first"
            raise errors.InvalidRequest(text % entry.name)
        entry, marks = await in_thread(marked, entry)
        if entry.fault:
            raise errors.EngineLoadError("model '%s' cannot be loaded: %s" % (entry.name, entry.fault))
        return await self._lineup.found(entry, marks)

    async def _with_active(self, found: Found, number: int) -> Record:
        """The record as it will be when that version serves.

        What would be taken instead of it, as it is newer, is refused: the active one, and where nothing is compared all.
        """
        name, compared = found.entry.name, found.entry.config.accept is not None
        before, refused = self._records.of(name).active, dict(self._records.of(name).refused)
        refused.pop(number, None)
        for other in found.marks:
            if other > number and (other == before or not compared) and other not in refused:
                why = "version %d was preferred to it" % number
                refused[other] = await self._lineup.refusal(found, other, "model.rolled_back", why)
        record = replace(self._records.of(name), refused=refused)
        if before != number:
            record.active, record.previous = number, before
            record.answered, record.served_s = 0, 0.0
        record.candidate, record.unjudged, record.unsure = None, None, False
        return record

    def _tell(self, kind: str, code: str, label: str, reason: str, figures: Mapping[str, Any]) -> None:
        level = logging.INFO if code == "model.promoted" else logging.WARNING
        _log.log(level, "model %s: %s: %s", label, kind.partition(".")[2].replace("_", " "), reason, extra={"code": code})
        self._journal.event(kind, label, code=code, args={"model": label, "text": reason, **figures}, text=reason)
