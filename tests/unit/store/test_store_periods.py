from __future__ import annotations

import pytest

from edge_agent.errors import InvalidRequest
from edge_agent.store.periods import moment

NOW = 1_800_000_000.25  # 2027-01-15T08:00:00.250Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0s", "2027-01-15T08:00:00.250Z"),
        ("15m", "2027-01-15T07:45:00.250Z"),
        ("1h", "2027-01-15T07:00:00.250Z"),
        ("2d", "2027-01-13T08:00:00.250Z"),
        ("2026-11-30T10:00:00Z", "2026-11-30T10:00:00.000Z"),
        ("2026-11-30t10:00:00z", "2026-11-30T10:00:00.000Z"),
        ("2026-11-30 10:00:00.5Z", "2026-11-30T10:00:00.500Z"),
        ("2026-11-30T10:00:00.123456789+05:30", "2026-11-30T04:30:00.123Z"),
        ("2026-11-30T22:15:00-03:30", "2026-12-01T01:45:00.000Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000Z"),
    ],
)
def test_moments_become_utc_with_milliseconds(text, expected):
    assert moment(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    ["", "1", "h", "1w", "-1h", "1.5h", "yesterday", "2026-11-30", "2026-11-30T10:00:00", "2026-13-01T00:00:00Z",
     "2026-11-30T10:00:61Z", "2026-11-30T24:00:00Z", "999999999d", "1h ", "١h"],
)  # fmt: skip
def test_nonsense_is_refused_with_the_name_of_the_parameter(text):
    with pytest.raises(InvalidRequest, match="^until: "):
        moment(text, NOW, "until")
