"""The order in which answers leave, where it must be that of the requests (`preserve_ordering`)."""

from __future__ import annotations

import collections
from typing import Callable, OrderedDict

from edge_agent.batching.pending import Pending


class ArrivalOrder:
    """Keeps an answer until all earlier requests have theirs; when not `kept`, answers leave as they come.

    A request that is refused for its time, or whose caller leaves, does not wait for its turn and holds up nobody.
    """

    def __init__(self, kept: bool) -> None:
        self._kept = kept
        self._unanswered: OrderedDict[Pending, None] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._unanswered)

    def enter(self, pending: Pending) -> None:
        """A request came."""
        if self._kept:
            self._unanswered[pending] = None

    def answered(self, pending: Pending, deliver: Callable[[], None]) -> None:
        """Its end is known: `deliver` is called in its turn, or as soon as its caller leaves."""
        if pending not in self._unanswered:
            deliver()
            return
        pending.deliver = deliver
        self._release()

    def leave(self, pending: Pending) -> None:
        """It has ended out of turn."""
        if pending not in self._unanswered:
            return
        del self._unanswered[pending]
        deliver, pending.deliver = pending.deliver, None
        if deliver is not None:
            deliver()
        self._release()

    def _release(self) -> None:
        while self._unanswered:
            first = next(iter(self._unanswered))
            deliver, first.deliver = first.deliver, None
            if deliver is None:
                return
            del self._unanswered[first]
            deliver()
