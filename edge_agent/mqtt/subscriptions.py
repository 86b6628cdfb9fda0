"""What we want to hear, and whether the broker lets us; pure."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

_RENEW_S = 240.0  #: a broker that lost our subscriptions leaves us deaf no longer than this
_RETRY_S = 20.0  #: refused, or never answered


class Subscriptions:
    """Topic filters with their QoS, and what came of the last SUBSCRIBE."""

    def __init__(self) -> None:
        self._wanted: Dict[str, int] = {}
        self._asked: Dict[int, Tuple[str, ...]] = {}
        self._refused: Dict[str, str] = {}
        self._answered: Dict[str, bool] = {}
        self._asked_at: Optional[float] = None

    def want(self, topic_filter: str, qos: int) -> None:
        """Add a filter; it is asked for at each connection."""
        self._wanted[topic_filter] = qos

    def filters(self) -> List[Tuple[str, int]]:
        """All filters with their QoS."""
        return list(self._wanted.items())

    def forget_answers(self) -> None:
        """A new connection: nothing is granted yet."""
        self._asked.clear()
        self._refused.clear()
        self._answered.clear()
        self._asked_at = None

    def asked(self, mid: int, filters: Sequence[Tuple[str, int]], now: float) -> None:
        """A SUBSCRIBE with that number is on its way."""
        self._asked = {mid: tuple(name for name, _qos in filters), **dict(list(self._asked.items())[-8:])}
        self._asked_at = now

    def answered(self, mid: int, refusals: Sequence[str]) -> None:
        """SUBACK: a text for each refused filter, empty for each granted one."""
        for name, refusal in zip(self._asked.pop(mid, ()), refusals):
            self._answered[name] = True
            if refusal:
                self._refused[name] = refusal
            else:
                self._refused.pop(name, None)

    @property
    def refused(self) -> Dict[str, str]:
        """Filters that the broker refused, with its words."""
        return self._refused

    @property
    def complete(self) -> bool:
        """Whether every filter was granted or refused."""
        return all(name in self._answered for name in self._wanted)

    def due(self, now: float) -> bool:
        """Whether to ask (again)."""
        if not self._wanted:
            return False
        if self._asked_at is None:
            return True
        wait = _RENEW_S if self.complete and not self._refused else _RETRY_S
        return now - self._asked_at >= wait
