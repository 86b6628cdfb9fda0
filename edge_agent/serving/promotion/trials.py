"""The trials of all models: at most one each."""

from __future__ import annotations

import asyncio
import logging
from typing import Callable, Dict, Optional, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.status import PartStatus, State
from edge_agent.processes.arena import Arena
from edge_agent.serving.catalogue import Catalogue, Model
from edge_agent.serving.journal import Journal
from edge_agent.serving.promotion.board import Board, no_room_beside
from edge_agent.serving.promotion.judge import Verdict
from edge_agent.serving.promotion.trial import MadeOf, Trial
from edge_agent.serving.repository import Fingerprint, ModelEntry
from edge_agent.serving.servable import Servable
from edge_agent.serving.swapping import Swaps
from edge_agent.serving.threads import in_thread

_log = logging.getLogger(__name__)


class Trials:
    """Begins and ends them; callers see to it that a model has one change at a time."""

    def __init__(self, catalogue: Catalogue, swaps: Swaps, arena: Arena, clock: Clock, journal: Journal, board: Board) -> None:
        self.on_verdict: Callable[[Trial, Verdict], None] = lambda trial, verdict: None
        self.on_crash: Callable[[Servable], None] = lambda version: None  #: loading it ended its engine host thrice
        self._catalogue = catalogue
        self._swaps = swaps
        self._arena = arena
        self._clock = clock
        self._journal = journal
        self._board = board
        self._running: Dict[str, Trial] = {}
        self._failed: Dict[str, Tuple[MadeOf, PartStatus]] = {}  #: by label: it could not be loaded, and why is told
        self._waiting: Dict[str, MadeOf] = {}  #: by label: there is no memory for it, which is told

    async def stop(self) -> None:
        """Gives up what runs."""
        await asyncio.gather(*(trial.stop() for trial in self._running.values()))

    def of(self, name: str) -> Optional[Trial]:
        """The one of a model."""
        return self._running.get(name)

    def answered(self, serving: Servable, request: InferRequest, response: InferResponse) -> None:
        """A model has answered a request."""
        trial = self._running.get(serving.name)
        if trial is not None:
            trial.answered(serving, request, response)

    async def end(self, name: str) -> None:
        """Takes the candidate of a model down, if there is one."""
        trial = self._running.pop(name, None)
        if trial is not None:
            self._catalogue.model(name).candidate = None
            await self._put_down(trial)

    async def _put_down(self, trial: Trial) -> None:
        await trial.stop()
        await self._swaps.put_down(trial.served)

    async def begin(self, entry: ModelEntry, marks: Fingerprint, number: int, base: int, anew: bool = False) -> None:
        """Loads a version to compare it with `base`, unless it is there as it should be; why that is not so the status says.

        What could not be loaded is tried again when it has changed, or `anew`.
        """
        model = self._catalogue.model(entry.name)
        made_of = (entry.config.model_dump_json(), marks)
        trial = self._running.get(entry.name)
        if trial is not None:
            same = (trial.number, trial.base, trial.made_of) == (number, base, made_of)
            if same and not (anew and trial.served.part.state is State.FAILED):
                return
            await self.end(entry.name)
        label = "%s/%d" % (entry.name, number)
        failed = self._failed.get(label)
        if not anew and failed is not None and failed[0] == made_of:
            model.apart[str(number)] = failed[1]
            return
        reason = await self._no_room(model, label, base, made_of)
        if reason:
            args = {"model": label, "text": reason}
            model.apart[str(number)] = PartStatus(State.OFF, self._clock.now(), "model.shadow_waits", args)
            return
        trial = self._made(entry, number, base, made_of)
        self._running[entry.name] = model.candidate = trial  # now, so that its loading may be seen
        reason = await self._swaps.bring_up(trial.served)
        if not reason:
            self._failed.pop(label, None)
            self._start(trial)
        elif not trial.waits_for_plan:  # else it is loaded again when that is there
            await self._lose(trial, model, label)

    def _start(self, trial: Trial) -> None:
        trial.start()
        label = trial.served.label
        self._journal.event("model.shadowing", label, code="model.shadowing", args={"model": label})

    async def _lose(self, trial: Trial, model: Model, label: str) -> None:
        self._failed[label] = (trial.made_of, trial.served.part)
        await self.end(model.name)
        model.apart[str(trial.number)] = trial.served.part
        if trial.served.crashes:
            self.on_crash(trial.served)

    async def _no_room(self, model: Model, label: str, base: int, made_of: MadeOf) -> str:
        """Why it is not loaded now, told once."""
        serving = model.versions.get(str(base))
        reason = "" if serving is None else await in_thread(no_room_beside, self._board, serving)
        if reason and self._waiting.get(label) != made_of:
            _log.warning("%s is not compared yet: %s", label, reason, extra={"code": "model.shadow_waits"})
            self._waiting[label] = made_of
        elif not reason:
            self._waiting.pop(label, None)
        return reason

    def _made(self, entry: ModelEntry, number: int, base: int, made_of: MadeOf) -> Trial:
        served = self._swaps.aside(entry, number)
        return Trial(entry, served, base, made_of, self._arena, self._clock, self._board, self._verdict)

    async def again(self, trial: Trial) -> str:
        """Loads the candidate anew, and compares from the beginning. Why it did not come up, or empty; the old one goes on."""
        new = self._made(trial.entry, trial.number, trial.base, trial.made_of)
        reason = await self._swaps.bring_up(new.served)
        if not reason:
            name = new.served.name
            self._running[name] = self._catalogue.model(name).candidate = new
            if trial.started:
                new.start()  # told already
            else:
                self._start(new)
            await self._put_down(trial)
        return reason

    def _verdict(self, trial: Trial, verdict: Verdict) -> None:
        if self._running.get(trial.served.name) is trial:
            self.on_verdict(trial, verdict)
