"""One newer version beside the one that serves: what it is asked, what was found, and what came of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Callable, Dict, Optional, Tuple

from edge_agent.config.optimization import AcceptConfig
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.status import PartStatus, State
from edge_agent.processes.arena import Arena
from edge_agent.serving.promotion.board import Board
from edge_agent.serving.promotion.heat import Heat
from edge_agent.serving.promotion.judge import Aims, Judge, Verdict
from edge_agent.serving.promotion.shadow import Shadow
from edge_agent.serving.repository import Fingerprint, ModelEntry
from edge_agent.serving.servable import Servable
from edge_agent.serving.version import ServedVersion

_log = logging.getLogger(__name__)

#: the config and the files that a version is made of
MadeOf = Tuple[str, Fingerprint]


class Trial:
    """Ends with one verdict, which is told once. It does not touch what serves."""

    def __init__(
        self,
        entry: ModelEntry,
        served: ServedVersion,
        base: int,
        made_of: MadeOf,
        arena: Arena,
        clock: Clock,
        board: Board,
        on_verdict: Callable[[Trial, Verdict], None],
    ) -> None:
        """`base`: the version whose answers count as right."""
        accept = served.config.accept or AcceptConfig()
        self.entry = entry
        self.served = served
        self.base = base
        self.made_of = made_of
        self.judge = Judge(Aims.of(accept))
        self._timeout_s = accept.shadow_timeout_s
        self._clock = clock
        self._board = board
        self._heat = Heat(board.hot_c)
        self._on_verdict = on_verdict
        self._shadow = Shadow(served, arena, clock, accept.max_abs_error, self._compared, self._failed)
        self._since = clock.now()
        self._ended = False
        self._overdue = False
        self.started = False
        self._timer: Optional[asyncio.TimerHandle] = None

    @property
    def number(self) -> int:
        """Of the version."""
        return int(self.served.version)

    def start(self) -> None:
        """It is loaded: requests may be offered."""
        self.started = True
        self._since = self._clock.now()
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._late)

    async def stop(self) -> None:
        """No verdict any more."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        await self._shadow.stop()

    # -- requests ---------------------------------------------------------------------------------------------------

    def answered(self, serving: Servable, request: InferRequest, response: InferResponse) -> None:
        """The model has answered a request."""
        if self._ended or response.cached or serving.version != str(self.base) or self._is_building:
            return
        self._heat.look(self._board.temperature_c(), self._clock.monotonic())
        if self._heat.blamed:
            self._conclude(Verdict(False, "the board becomes too hot with it, %g degrees and more" % self._board.hot_c))
        elif not self._heat.paused:
            self._shadow.offer(serving, request, response)

    @property
    def _is_building(self) -> bool:
        """Whether it is about to be loaded anew with its plan, which takes other times than what stands in."""
        return self.served.part.code == "engine.building"

    @property
    def waits_for_plan(self) -> bool:
        """Whether it could not be loaded without the plan that is made for it."""
        build = self.served.build
        return not self.served.ready and build is not None and build.state in ("queued", "building", "checking")

    def crashed(self, text: str) -> None:
        """Its engine host died of it again and again."""
        self._conclude(Verdict(False, text))

    def _compared(self, agreement: float, candidate_ms: float, serving_ms: float, alone: bool) -> None:
        if not self._ended:
            self.judge.compare(agreement, candidate_ms, serving_ms, alone)
            self._look()

    def _failed(self, text: str) -> None:
        if not self._ended:
            self.judge.failed(text)
            self._look()

    def _look(self) -> None:
        verdict = self.judge.verdict()
        if verdict is not None:
            self._conclude(verdict)

    def _conclude(self, verdict: Verdict) -> None:
        if not self._ended:
            self._ended = True
            self._on_verdict(self, verdict)

    def _late(self) -> None:
        self._overdue = True
        text = "%s has been compared on %d of %d requests in %g s: more traffic or a promotion by hand ends that"
        wanted = (self.served.label, self.judge.compared, self.judge.aims.requests, self._timeout_s)
        _log.warning(text, *wanted, extra={"code": "model.shadowing"})

    # -- what is shown ----------------------------------------------------------------------------------------------

    @property
    def part(self) -> PartStatus:
        """Compared, or why it is not."""
        if not self.served.ready:
            return self.served.part
        return PartStatus(State.DEGRADED, self._since, "model.shadowing", {"model": self.served.label})

    def as_json(self) -> Dict[str, Any]:
        """An entry of `versions` in `/api/status`."""
        shadow = {
            **self.judge.as_json(),
            "skipped": self._shadow.skipped,
            "paused": self._paused(),
            "overdue": self._overdue,
        }
        return {**self.served.as_json(), **self.part.as_json(), "shadow": shadow}

    def _paused(self) -> str:
        """Why no request is compared now; empty when one would be."""
        if self._heat.paused:
            return "too hot"
        if self._is_building or self.waits_for_plan:
            return "its plan is being built"
        return "" if self.served.ready else "not ready"
