"""When a link is dead although the library says it lives; pure."""

from __future__ import annotations

from typing import Optional

_CONNECT_S = 60.0  #: name lookup, TCP, TLS and CONNACK together; no second thread is started beside a slow lookup


class Silence:
    """Limits of one link: to be accepted, to hear anything, to have messages acknowledged."""

    def __init__(self, keepalive_s: int, ack_timeout_s: float, started_at: float) -> None:
        self._silence_s = max(1.5 * keepalive_s, keepalive_s + 2.0)  # the library pings with a second's precision
        self._ack_timeout_s = ack_timeout_s
        self._started_at = started_at

    def complaint(
        self, now: float, accepted_at: Optional[float], heard_at: float, oldest_unacknowledged: Optional[float]
    ) -> Optional[str]:
        """Why to give the link up; None while it is good. All in monotonic seconds."""
        if accepted_at is None:
            return "the broker did not answer in time" if now - self._started_at > _CONNECT_S else None
        if now - heard_at > self._silence_s:
            return f"the broker has been silent for {now - heard_at:.0f} s"
        if oldest_unacknowledged is not None and now - oldest_unacknowledged > self._ack_timeout_s:
            return "the broker acknowledges nothing"
        return None
