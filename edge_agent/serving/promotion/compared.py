"""What is left of a trial that has ended, also while its version cannot be swapped in yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from edge_agent.serving.promotion.judge import Verdict
from edge_agent.serving.promotion.trial import Trial
from edge_agent.serving.repository import Fingerprint

_PAUSES_S = (5.0, 15.0, 60.0, 300.0)  #: between tries to swap it in, the last one again and again


@dataclass(frozen=True)
class Compared:
    """A version that was compared to the end."""

    number: int
    base: int  #: it was compared with this
    marks: Fingerprint
    label: str
    reason: str
    figures: Mapping[str, Any]
    tries: int = 0  #: to swap it in
    due: float = 0.0  #: when that is tried again, monotonic seconds

    @classmethod
    def of(cls, trial: Trial, verdict: Verdict) -> Compared:
        """What is left of its trial."""
        label, figures = trial.served.label, trial.judge.as_json()
        return cls(trial.number, trial.base, trial.made_of[1], label, verdict.reason, figures)

    @property
    def pause_s(self) -> float:
        """Until the next try."""
        return _PAUSES_S[min(self.tries, len(_PAUSES_S) - 1)]
