from __future__ import annotations

from typing import Optional

import pytest

from edge_agent.mqtt.watch import Silence


@pytest.mark.parametrize(
    ("now", "accepted_at", "heard_at", "oldest", "word"),
    [
        (130.0, None, 100.0, None, ""),
        (161.0, None, 100.0, None, "answer"),
        (145.0, 101.0, 100.5, None, ""),
        (146.0, 101.0, 100.5, None, "silent for 46 s"),
        (300.0, 101.0, 299.0, 241.0, ""),
        (300.0, 101.0, 299.0, 239.0, "acknowledges nothing"),
    ],
)
def test_a_link_is_given_up_at_its_limits(
    now: float, accepted_at: Optional[float], heard_at: float, oldest: Optional[float], word: str
) -> None:
    silence = Silence(keepalive_s=30, ack_timeout_s=60.0, started_at=100.0)
    complaint = silence.complaint(now, accepted_at, heard_at, oldest)
    assert (complaint is None) if not word else (complaint is not None and word in complaint)
