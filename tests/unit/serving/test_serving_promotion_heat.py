from __future__ import annotations

from edge_agent.serving.promotion.heat import Heat


def looked(heat, *pairs):
    for degrees, now in pairs:
        heat.look(degrees, now)
    return heat


def test_it_pauses_above_the_limit_until_it_is_clearly_below():
    heat = looked(Heat(85.0), (60.0, 0))
    assert not heat.paused
    assert looked(heat, (85.0, 1)).paused
    assert looked(heat, (81.0, 2)).paused
    assert not looked(heat, (80.0, 3)).paused


def test_a_board_that_tells_nothing_never_pauses():
    heat = looked(Heat(85.0), (90.0, 0))
    assert not looked(heat, (None, 1)).paused
    assert not looked(Heat(85.0), (None, 0)).paused


def test_becoming_hot_while_it_runs_and_cool_while_it_does_not_is_its_doing_at_the_third_time():
    heat = Heat(85.0)
    for round_ in range(3):
        assert not heat.blamed
        looked(heat, (70.0, round_ * 100), (86.0, round_ * 100 + 20), (70.0, round_ * 100 + 60))
    assert heat.blamed


def test_a_board_that_stays_hot_while_it_rests_is_not_its_doing():
    heat = Heat(85.0)
    for round_ in range(5):
        looked(heat, (70.0, round_ * 10_000), (86.0, round_ * 10_000 + 20), (70.0, round_ * 10_000 + 5_000))
    assert not heat.blamed


def test_a_board_that_becomes_hot_after_hours_is_not_its_doing():
    heat = Heat(85.0)
    for round_ in range(5):
        looked(heat, (70.0, round_ * 10_000), (86.0, round_ * 10_000 + 5_000), (70.0, round_ * 10_000 + 5_060))
    assert not heat.blamed


def test_a_board_that_was_hot_before_is_not_its_doing():
    heat = looked(Heat(85.0), (90.0, 0), (70.0, 10), (90.0, 20), (70.0, 30), (90.0, 40), (70.0, 50))
    assert not heat.blamed
    assert looked(heat, (90.0, 60), (70.0, 70)).blamed
