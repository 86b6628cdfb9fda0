"""How long a batch takes, learned from those that ran."""

from __future__ import annotations

from typing import Dict, Optional

_WEIGHT = 0.2  #: of the newest measurement


class ServiceTime:
    """Seconds from handing a batch to the host until its answer, by rows: a moving average of each size seen."""

    def __init__(self) -> None:
        self._by_rows: Dict[int, float] = {}

    def learn(self, rows: int, seconds: float) -> None:
        """One batch of `rows` took `seconds`."""
        known = self._by_rows.get(rows)
        self._by_rows[rows] = seconds if known is None else known + _WEIGHT * (seconds - known)

    def expect(self, rows: int) -> Optional[float]:
        """Seconds for a batch of `rows`; the nearest size seen stands in, scaled up by rows; None before the first."""
        if rows in self._by_rows:
            return self._by_rows[rows]
        if not self._by_rows:
            return None
        nearest = min(self._by_rows, key=lambda size: abs(size - rows))
        return self._by_rows[nearest] * max(1.0, rows / nearest)
