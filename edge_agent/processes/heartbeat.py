"""When to ping a child, and when its silence means that it hangs."""

from __future__ import annotations

from typing import Dict


class Heartbeat:
    """At most one ping is unanswered; silence counts while no operation with a budget of its own runs.

    Silence is added up tick by tick, each at most twice the interval: time in which the agent itself did not run
    (suspended, stopped) is no fault of the child.
    """

    def __init__(self, interval_s: float, silence_s: float) -> None:
        self._interval_s = interval_s
        self._silence_s = silence_s
        self._waiting = False
        self._silent_s = 0.0
        self._ticked_at = 0.0
        self._operations: Dict[str, float] = {}

    def start(self, now: float) -> None:
        """A new life: nothing asked, nothing running."""
        self._waiting = False
        self._silent_s = 0.0
        self._ticked_at = now
        self._operations.clear()

    def busy(self, until: float, key: str) -> None:
        """An operation runs and is judged by its own budget, which ends at `until`."""
        self._operations[key] = until

    def idle(self, key: str) -> None:
        """That operation ended."""
        self._operations.pop(key, None)

    def heard(self) -> None:
        """The child answered the ping."""
        self._waiting = False
        self._silent_s = 0.0

    def tick(self, now: float) -> bool:
        """Call once an interval. True: send a ping, and it counts as sent."""
        elapsed = min(now - self._ticked_at, 2 * self._interval_s)
        self._ticked_at = now
        if any(until > now for until in self._operations.values()):
            self._silent_s = 0.0
        elif self._waiting:
            self._silent_s += elapsed
        if self._waiting:
            return False
        self._waiting = True
        return True

    @property
    def hangs(self) -> bool:
        """Whether the child has been silent for too long."""
        return self._silent_s >= self._silence_s
