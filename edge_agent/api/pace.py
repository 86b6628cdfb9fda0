"""Whether a body keeps coming: only then may it hold what others wait for."""

from __future__ import annotations

#: so many bytes within so long are enough
STEP_BYTES = 65_536
STEP_S = 1.0


class Pace:
    """Looks at the last second only: what came quickly before does not pay for a pause now."""

    def __init__(self, now: float) -> None:
        self.mark = now  #: since when the present step is awaited
        self._bytes = 0

    def came(self, nbytes: int, now: float) -> None:
        """More of it came."""
        self._bytes += nbytes
        if self._bytes >= STEP_BYTES:
            self._bytes, self.mark = 0, now

    def slow(self, now: float) -> bool:
        """Whether the present step takes too long."""
        return now - self.mark > STEP_S
