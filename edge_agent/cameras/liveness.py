"""When a camera is opened, when its child is killed, and what is to be said about it: decisions only, no doing."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from edge_agent.processes.backoff import Backoff

OPEN_BUDGET_S = 20.0  # opening may try several ways and ask the server why it failed
FIRST_FRAME_S = 20.0  # a decoder that starts in mid-stream waits for a key frame; cameras send one every 1 to 10 s
WRONG_PASSWORD_S = 60.0  # cameras lock accounts
ENDED, UNSUPPORTED = "camera.ended", "camera.unsupported"  # trying again would not help
_MUST_CHANGE = "camera.frozen"  # after this a first frame is not enough


class Phase(enum.Enum):
    """What the child is at."""

    DOWN = "down"  #: no child
    IDLE = "idle"  #: a child that reads nothing; it opens the source when its time has come
    OPENING = "opening"
    LIVE = "live"
    ENDED = "ended"  #: the source is at its end, or this version cannot read it


class Step(enum.Enum):
    """What is to be done now."""

    NOTHING = "nothing"
    OPEN = "open"
    KILL = "kill"


@dataclass(frozen=True)
class Verdict:
    """Why the camera gives nothing, or (empty code) that it does."""

    code: str
    text: str = ""


class Liveness:
    """Fed with the child's events and the time; all times are monotonic seconds."""

    def __init__(self, stale_after_s: float, frozen_after_s: float, backoff: Backoff) -> None:
        self._stale_after_s = stale_after_s
        self._frozen_after_s = frozen_after_s
        self._backoff = backoff
        self._open_at = 0.0
        self._since = 0.0  # of the phase
        self._killed = False
        self._changing_at = 0.0
        self.phase = Phase.DOWN
        self.verdict = Verdict("camera.opening")
        self.frame_at: Optional[float] = None
        self.frames = False  #: whether this opening gave any

    def child_up(self) -> None:
        """A child is there."""
        self._killed = False
        if self.phase is not Phase.ENDED:
            self.phase = Phase.IDLE

    def child_down(self, now: float, text: str) -> None:
        """The child is gone; news only when nobody killed it for its camera's sake."""
        if self.phase is Phase.ENDED:
            return
        if not self._killed:
            self._fail(now, "camera.child_died", text)
        self.phase = Phase.DOWN

    def asked(self, now: float) -> None:
        """The child was told to open the source."""
        self.phase, self._since, self.frames = Phase.OPENING, now, False

    def opened(self, now: float) -> None:
        """The source is open; a frame has yet to come."""
        if self.phase is Phase.OPENING:
            self.phase, self._since = Phase.LIVE, now

    def alive(self, signs: Mapping[str, Any]) -> None:
        """The child's signs of life."""
        if self.phase is not Phase.LIVE or not signs["frame_ns"] or self._killed:
            return
        self.frames = True
        self.frame_at = max(self.frame_at or 0.0, signs["frame_ns"] / 1e9)
        self._changing_at = signs["changing_ns"] / 1e9
        if self.verdict.code == _MUST_CHANGE and not signs["changes"]:
            return
        self._backoff.reset()
        self.verdict = Verdict("")

    def seen(self, captured_ns: int) -> None:
        """A frame was had that the signs of life have not told of yet."""
        if self.phase is Phase.LIVE:
            self.frame_at = max(self.frame_at or 0.0, captured_ns / 1e9)

    def closed(self, now: float, code: str, text: str) -> None:
        """The child reads the source no more."""
        if self._killed or self.phase not in (Phase.OPENING, Phase.LIVE):
            return
        if code in (ENDED, UNSUPPORTED):
            self.phase, self.verdict = Phase.ENDED, Verdict(code, text)
        else:
            self._fail(now, code, text)

    def _fail(self, now: float, code: str, text: str) -> None:
        wait_s = self._backoff.next_s()
        if code == "camera.wrong_password":
            wait_s = max(wait_s, WRONG_PASSWORD_S)
        self._open_at = now + wait_s
        self.phase, self._since = Phase.IDLE, now
        self.verdict = Verdict(code, text)

    def hurry(self) -> None:
        """What made it fail has changed: no need to wait."""
        self._open_at = 0.0

    def step(self, now: float) -> Step:
        """What is to be done; KILL sets the verdict and is said once."""
        if self.phase is Phase.IDLE and not self._killed:
            return Step.OPEN if now >= self._open_at else Step.NOTHING
        why = self._overdue(now)
        if why is None:
            return Step.NOTHING
        self._fail(now, why.code, why.text)
        self._killed = True
        return Step.KILL

    def _overdue(self, now: float) -> Optional[Verdict]:
        if self.phase is Phase.OPENING and now - self._since > OPEN_BUDGET_S:
            return Verdict("camera.unreachable", "did not open within %.0f s" % OPEN_BUDGET_S)
        if self.phase is not Phase.LIVE:
            return None
        frame_at = max(self.frame_at or 0.0, self._since)
        patience_s = self._stale_after_s if self.frames else max(self._stale_after_s, FIRST_FRAME_S)
        if now - frame_at > patience_s:
            return Verdict("camera.stalled", "no frame for %.1f s" % (now - frame_at))
        changing_at = max(self._changing_at, self._since)
        if self._frozen_after_s and now - changing_at > self._frozen_after_s:
            return Verdict(_MUST_CHANGE, "the same picture for %.0f s" % (now - changing_at))
        return None
