from __future__ import annotations

import random

import pytest

from edge_agent.processes.backoff import Backoff


@pytest.mark.parametrize(
    ("first_s", "cap_s", "whole"),
    [
        (0.2, 10.0, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        (0.5, 7.0, [0.5, 1.0, 2.0, 4.0, 7.0, 7.0]),
        (5.0, 1.0, [1.0, 1.0]),
        (0.0, 10.0, [0.0, 0.0]),
    ],
)
def test_waits_double_up_to_the_cap_with_jitter_between_half_and_all(first_s: float, cap_s: float, whole: list) -> None:
    for seed in range(20):
        backoff = Backoff(first_s, cap_s, random.Random(seed))
        for expected in whole:
            assert expected * 0.5 <= backoff.next_s() <= expected


def test_two_children_that_died_together_do_not_come_back_together() -> None:
    rng = random.Random(1)
    assert Backoff(1.0, 10.0, rng).next_s() != Backoff(1.0, 10.0, rng).next_s()


def test_a_reset_begins_anew() -> None:
    backoff = Backoff(0.2, 10.0, random.Random(1))
    for _ in range(10):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() <= 0.2


def test_a_child_that_fails_for_weeks_overflows_nothing() -> None:
    backoff = Backoff(0.2, 10.0, random.Random(1))
    assert max(backoff.next_s() for _ in range(5000)) <= 10.0
