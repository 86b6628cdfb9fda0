"""Versions that were up and are away for a moment: how long they are waited for, and what is remembered of what stands in."""

from __future__ import annotations

from typing import Collection, Dict, Optional, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.serving.promotion.choice import Choice
from edge_agent.serving.promotion.ledger import Record

AWAY_S = 300.0  #: so long a version that cannot be seen, or is loaded again, is waited for


class Absences:
    """Goes by name and number of a version: each try to load it makes a new object of it."""

    def __init__(self, clock: Clock, wait_s: float = AWAY_S) -> None:
        self.clock = clock
        self.wait_s = wait_s
        self._since: Dict[str, Dict[int, Optional[float]]] = {}  #: of those that were up; None: it still is

    def look(self, name: str, up: Collection[int], known: Collection[int]) -> None:
        """Of the versions of a model that are known, these are up and where they should be; the others are away from now on."""
        before, now = self._since.get(name, {}), self.clock.monotonic()
        were_up = [number for number in known if number in up or number in before]
        self._since[name] = {number: None if number in up else _first(before.get(number), now) for number in were_up}

    def came(self, name: str, number: int) -> None:
        """A version is up."""
        self._since.setdefault(name, {})[number] = None

    def left_s(self, name: str, number: int) -> float:
        """How long a version is waited for yet; 0 for one that was not up."""
        before = self._since.get(name, {})
        if number not in before:
            return 0.0
        now = self.clock.monotonic()
        return max(0.0, _first(before[number], now) + self.wait_s - now)

    def forget(self, name: str) -> None:
        """What a model had is taken down, or is not there any more."""
        self._since.pop(name, None)


def _first(since: Optional[float], now: float) -> float:
    return now if since is None else since


def stand_in(choice: Choice, record: Record, there: Collection[int]) -> Optional[int]:
    """What serves where nothing else can: a candidate unseen, or what did before."""
    if choice.candidate is not None:
        return choice.candidate
    usable = record.active in there and record.active not in choice.refused and record.active != choice.main
    return record.active if usable else None


def remembered(record: Record, main: int, choice: Choice, there: Collection[int], compares: bool) -> Record:
    """The record from the moment on when `main` serves.

    `there`: versions on disk. `compares`: nothing takes the place of the active one without a comparison.
    """
    new = record.copy()
    chosen = record.active in there and choice.main != record.active  # its policy or a refusal says so
    if main == record.active:
        new.unjudged = None
    elif record.active is None or chosen or not compares:
        new.active, new.previous, new.unjudged = main, record.active, None
        new.answered, new.served_s = 0, 0.0
    else:  # it was not compared to the end: the active one serves again as soon as it can
        new.unjudged = main
    if new.previous == new.active:
        new.previous = None
    return new


def doubt_of(record: Record) -> Tuple[str, str]:
    """Code and text of what nobody has judged; empty where there is no doubt."""
    if record.unjudged is not None:
        text = "version %d serves uncompared, as version %s cannot"
        return "model.unjudged", text % (record.unjudged, record.active)
    if record.unsure:
        text = "it is not known which version served or was refused: version %s serves"
        return "model.promotions_lost", text % record.active
    return "", ""
