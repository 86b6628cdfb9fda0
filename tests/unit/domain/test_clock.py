from __future__ import annotations

import re

from edge_agent.domain.clock import Clock, rfc3339
from edge_agent.domain.discipline import kernel_clock_synced


class At(Clock):
    """A clock whose wall time is told."""

    def __init__(self, wall: float) -> None:
        super().__init__("boot")
        self._wall = wall

    def wall(self) -> float:
        return self._wall


def test_instants_are_utc_with_milliseconds():
    assert rfc3339(0.0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_700_000_000.9996) == "2023-11-14T22:13:20.999Z"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", Clock().now())


def test_a_clock_that_was_never_set_is_neither_plausible_nor_synced():
    assert not At(1000.0).plausible()
    assert not At(1000.0).synced()
    assert At(1_900_000_000.0).plausible()
    assert At(1_900_000_000.0).synced() is kernel_clock_synced()


def test_an_instant_in_the_past_has_the_wall_time_of_then():
    clock = Clock("boot")
    then = clock.instant(clock.monotonic_ns() - 3_600_000_000_000)
    now = clock.instant()
    assert then.monotonic_ns < now.monotonic_ns
    assert then.at < now.at
    assert now.boot_id == "boot"
