from __future__ import annotations

from edge_agent.mqtt.backoff import Backoff


def test_failed_connects_wait_twice_as_long_each_time_up_to_the_limit() -> None:
    backoff = Backoff(0.5, 30.0, chance=lambda: 1.0)
    assert [backoff.failed() for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_jitter_takes_away_up_to_half() -> None:
    assert Backoff(0.5, 30.0, chance=lambda: 0.0).failed() == 0.25


def test_a_connection_that_lasted_begins_anew() -> None:
    backoff = Backoff(0.5, 30.0, chance=lambda: 1.0)
    for _ in range(4):
        backoff.failed()
    assert backoff.lost(lived_s=60.0, thrown_out=True) == 0.5
    assert not backoff.duel


def test_a_connection_that_ends_at_once_does_not_begin_anew() -> None:
    backoff = Backoff(0.5, 30.0, chance=lambda: 1.0)
    assert [backoff.lost(0.1, thrown_out=False) for _ in range(4)] == [0.5, 1, 2, 4]
    assert not backoff.duel


def test_thrown_out_three_times_right_after_connecting_is_a_second_client_and_waits_for_minutes() -> None:
    backoff = Backoff(0.5, 30.0, chance=lambda: 1.0)
    delays = []
    for _ in range(12):
        delays.append(backoff.lost(lived_s=delays[-1] if delays else 0.5, thrown_out=True))
    assert backoff.duel
    assert delays[-1] == 180.0


def test_a_broker_that_restarts_is_no_second_client() -> None:
    backoff = Backoff(0.5, 30.0)
    for _ in range(5):
        backoff.lost(1.0, thrown_out=True)
        backoff.failed()
    assert not backoff.duel
