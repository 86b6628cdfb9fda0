"""Whether a version that was compared with the one that serves may take its place: pure."""

from __future__ import annotations

import bisect
import math
from array import array
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from edge_agent.config.optimization import AcceptConfig

_ERRORS = 3  #: requests that the one that serves answered and the other did not
_TIMES_SLOWER = 2.0
_NOISE_MS = 5.0  #: a difference in time that says nothing on a busy board
_ALONE = 10  #: with fewer pairs that ran in no batch, all of them tell the time
_EXACT = 1e-9


@dataclass(frozen=True)
class Aims:
    """What must hold."""

    requests: int
    min_agreement: float
    max_p95_ms: Optional[float] = None

    @classmethod
    def of(cls, accept: AcceptConfig) -> Aims:
        """Out of the model's `[accept]`."""
        return cls(accept.shadow_requests, accept.min_agreement, accept.max_p95_ms)


@dataclass(frozen=True)
class Verdict:
    """What became of it, and why."""

    good: bool
    reason: str


class Times:
    """Milliseconds of runs, of both versions."""

    def __init__(self) -> None:
        self.candidate = array("d")  #: sorted
        self.serving = array("d")

    def add(self, candidate_ms: float, serving_ms: float) -> None:
        """Of one request."""
        bisect.insort(self.candidate, candidate_ms)
        bisect.insort(self.serving, serving_ms)

    def p95(self) -> Tuple[Optional[float], Optional[float]]:
        """What 95 of 100 runs take at most: the candidate's, the serving one's; None before the first."""
        if not self.candidate:
            return None, None
        place = _place95(len(self.candidate))
        return self.candidate[place], self.serving[place]


def _place95(count: int) -> int:
    return max(1, math.ceil(0.95 * count - _EXACT)) - 1


class Judge:
    """Counts until it knows."""

    def __init__(self, aims: Aims) -> None:
        self.aims = aims
        self.compared = 0
        self.errors: List[str] = []
        self._agreed = 0.0
        self._all = Times()
        self._alone = Times()

    def compare(self, agreement: float, candidate_ms: float, serving_ms: float, alone: bool) -> None:
        """Both answered one request; `alone`: the one that serves ran it in a batch of its own, as the other always does."""
        self.compared += 1
        self._agreed += agreement
        self._all.add(candidate_ms, serving_ms)
        if alone:
            self._alone.add(candidate_ms, serving_ms)

    def failed(self, text: str) -> None:
        """It gave no answer to a request that the other has answered."""
        self.compared += 1
        self.errors.append(text)

    @property
    def agreement(self) -> Optional[float]:
        """The mean so far."""
        return self._agreed / self.compared if self.compared else None

    def verdict(self) -> Optional[Verdict]:
        """None while it can go either way: what cannot become good any more is told at once."""
        bad = self._failing() or self._disagreeing() or self._over_limit()
        if not bad and self.compared >= self.aims.requests:
            bad = self._slower()
        if bad:
            return Verdict(False, bad)
        return Verdict(True, self._good()) if self.compared >= self.aims.requests else None

    def _failing(self) -> str:
        if len(self.errors) < _ERRORS:
            return ""
        return "it failed on %d of %d requests; last: %s" % (len(self.errors), self.compared, self.errors[-1])

    def _disagreeing(self) -> str:
        lost, may_lose = self.compared - self._agreed, (1.0 - self.aims.min_agreement) * self.aims.requests
        if lost <= may_lose + _EXACT:
            return ""
        found = self._agreed / self.compared
        last = "; last error: %s" % self.errors[-1] if self.errors else ""
        return "it agreed to %.1f %% on %d requests, %.1f %% of %d are asked%s" % (
            100 * found, self.compared, 100 * self.aims.min_agreement, self.aims.requests, last
        )  # fmt: skip

    def _over_limit(self) -> str:
        limit, runs = self.aims.max_p95_ms, self._all.candidate
        if limit is None:
            return ""
        over = len(runs) - bisect.bisect_right(runs, limit)
        if over <= self.aims.requests - 1 - _place95(self.aims.requests):
            return ""
        return "%d of its %d runs took more than max_p95_ms, %g ms" % (over, len(runs), limit)

    def _slower(self) -> str:
        candidate, serving = self.p95()
        if self.aims.max_p95_ms is not None or candidate is None or serving is None:
            return ""
        if candidate <= max(_TIMES_SLOWER * serving, serving + _NOISE_MS):
            return ""
        return "95 of 100 of its runs take up to %.1f ms, those of the version that serves %.1f ms" % (candidate, serving)

    def _good(self) -> str:
        return "it agreed to %.1f %% on %d requests" % (100 * (self.agreement or 0.0), self.compared)

    def p95(self) -> Tuple[Optional[float], Optional[float]]:
        """Milliseconds of the candidate and of the serving one, like with like where there are enough of such."""
        return (self._alone if len(self._alone.candidate) >= _ALONE else self._all).p95()

    def as_json(self) -> Dict[str, Any]:
        """`{compared, wanted, agreement, p95_ms, serving_p95_ms, errors}`."""
        candidate, serving = self.p95()
        return {
            "compared": self.compared,
            "wanted": self.aims.requests,
            "agreement": None if self.agreement is None else round(self.agreement, 4),
            "p95_ms": None if candidate is None else round(candidate, 3),
            "serving_p95_ms": None if serving is None else round(serving, 3),
            "errors": len(self.errors),
        }
