from __future__ import annotations

import pytest

from edge_agent.pipelines.pace import Pace, Rate


def ticks(pace, moments):
    """When a frame begins for each moment at which one could."""
    began = []
    for moment in moments:
        at = pace.due_at(moment)
        pace.took(at)
        began.append(round(at, 6))
    return began


def test_frames_begin_a_period_apart_however_early_one_could():
    assert ticks(Pace(10), [100.0, 100.01, 100.01, 100.01]) == [100.0, 100.1, 100.2, 100.3]


def test_a_little_late_is_made_up_for_so_that_the_rate_is_kept():
    pace = Pace(10)
    pace.took(100.0)
    pace.took(100.15)
    assert pace.due_at(100.15) == pytest.approx(100.2)


def test_ticks_that_were_missed_are_not_made_up_for():
    pace = Pace(10)
    pace.took(100.0)
    pace.took(105.0)
    assert ticks(pace, [105.0, 105.0]) == [105.1, 105.2]


def test_without_a_bound_every_moment_will_do():
    assert ticks(Pace(0), [100.0, 100.0, 100.001]) == [100.0, 100.0, 100.001]


@pytest.mark.parametrize("work_s", [0.001, 0.03, 0.09])
def test_the_rate_is_what_was_asked_as_long_as_the_work_fits(work_s):
    pace, now, began = Pace(10), 100.0, 0
    while now < 110.0:
        now = pace.due_at(now)
        pace.took(now)
        began += 1
        now += work_s
    assert began in (100, 101)


def test_a_rate_counts_the_last_seconds_and_forgets():
    rate = Rate(5.0)
    for n in range(100):
        rate.count(n * 0.1)
    assert rate.per_second(9.9) == pytest.approx(10.0, abs=0.2)
    assert rate.per_second(12.0) == pytest.approx(5.8, abs=0.3)
    assert rate.per_second(20.0) == 0.0
    assert Rate().per_second(0.0) == 0.0
