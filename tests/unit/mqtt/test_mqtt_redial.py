from __future__ import annotations

import random

from edge_agent.mqtt.redial import Redial


class Jitter(random.Random):
    def __init__(self, part: float) -> None:
        super().__init__()
        self._part = part

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._part


def test_failed_connects_wait_twice_as_long_each_time_up_to_the_limit() -> None:
    redial = Redial(0.5, 30.0, Jitter(1.0))
    assert [redial.failed() for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_jitter_takes_away_up_to_half() -> None:
    assert Redial(0.5, 30.0, Jitter(0.0)).failed() == 0.25


def test_a_connection_that_lasted_begins_anew() -> None:
    redial = Redial(0.5, 30.0, Jitter(1.0))
    for _ in range(4):
        redial.failed()
    assert redial.lost(lived_s=60.0, thrown_out=True) == 0.5
    assert not redial.duel


def test_a_connection_that_ends_at_once_does_not_begin_anew() -> None:
    redial = Redial(0.5, 30.0, Jitter(1.0))
    assert [redial.lost(0.1, thrown_out=False) for _ in range(4)] == [0.5, 1, 2, 4]
    assert not redial.duel


def test_thrown_out_three_times_right_after_connecting_is_a_second_client_and_waits_for_minutes() -> None:
    redial = Redial(0.5, 30.0, Jitter(1.0))
    delays = []
    for _ in range(12):
        delays.append(redial.lost(lived_s=delays[-1] if delays else 0.5, thrown_out=True))
    assert redial.duel
    assert delays[-1] == 180.0


def test_a_broker_that_restarts_is_no_second_client() -> None:
    redial = Redial(0.5, 30.0, random.Random(1))
    for _ in range(5):
        redial.lost(1.0, thrown_out=True)
        redial.failed()
    assert not redial.duel
