"""Which MQTT version to speak next: 5 where the broker can, else 3.1.1; pure."""

from __future__ import annotations

V5 = "5"
V311 = "3.1.1"


class VersionChoice:
    """With `auto`, MQTT 5 first; a broker that refuses it, or hangs up on it, is asked in 3.1.1 next."""

    def __init__(self, configured: str) -> None:
        self._auto = configured == "auto"
        self._now = V5 if self._auto else configured

    @property
    def now(self) -> str:
        """The version for the next connection."""
        return self._now

    def refused(self) -> bool:
        """The broker does not speak it; True when another one is worth trying at once."""
        if not self._auto or self._now == V311:
            return False
        self._now = V311
        return True

    def hung_up(self) -> None:
        """The broker closed the connection without an answer: old ones do that to MQTT 5, others while they start."""
        if self._auto:
            self._now = V311 if self._now == V5 else V5

    def lost(self) -> None:
        """A working connection ended: begin with MQTT 5 again."""
        if self._auto:
            self._now = V5
