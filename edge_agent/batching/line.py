"""Requests that wait at one rank, by arrival and by shape."""

from __future__ import annotations

import collections
import itertools
from typing import Dict, Hashable, Iterator, List, Optional, OrderedDict

from edge_agent.batching.pending import Pending

_Ordered = OrderedDict[Pending, None]


class Line:
    """A queue that any request can leave from any place at once. Its length is a count of what is there, not a tally."""

    def __init__(self) -> None:
        self._all: _Ordered = collections.OrderedDict()
        self._by_key: Dict[Hashable, _Ordered] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._all)

    def add(self, pending: Pending) -> None:
        """One more at the end."""
        self._all[pending] = None
        self._by_key.setdefault(pending.key, collections.OrderedDict())[pending] = None
        pending.line = self

    def remove(self, pending: Pending) -> None:
        """Takes out one that waits here."""
        del self._all[pending]
        group = self._by_key[pending.key]
        del group[pending]
        if not group:
            del self._by_key[pending.key]
        pending.line = None

    def oldest(self) -> Optional[Pending]:
        """The first whose caller is still there."""
        return next((pending for pending in self._all if not pending.ended), None)

    def of(self, key: Hashable, most: int) -> List[Pending]:
        """The first `most` of one shape, oldest first."""
        group = self._by_key.get(key, ())
        return list(itertools.islice((pending for pending in group if not pending.ended), most))

    def has_others(self, key: Hashable) -> bool:
        """Whether a request of another shape waits here."""
        return len(self._by_key) > (1 if key in self._by_key else 0)
