from __future__ import annotations

from types import SimpleNamespace

import pytest

from edge_agent.batching.lane import Lanes
from edge_agent.batching.service_time import ServiceTime
from edge_agent.engines.batch import Batch
from tests.doubles.instance import FakeInstance


def lanes(count=1, seconds=None):
    service_time = ServiceTime()
    if seconds is not None:
        service_time.learn(1, seconds)
    instances = [FakeInstance() for _ in range(count)]
    return Lanes(instances, service_time), instances


def batch(sent_at):
    return Batch([SimpleNamespace(rows=1)], "idle", sent_at)


def test_an_idle_instance_takes_the_next_batch_at_once():
    model, instances = lanes(2, 0.1)
    lane, at = model.next(5.0)
    model.add(lane, batch(5.0))
    other, other_at = model.next(5.0)
    assert (at, other_at) == (5.0, 5.0)
    assert [lane.instance, other.instance] == instances


def test_the_next_batch_is_handed_over_just_before_the_running_one_ends():
    model, _ = lanes(1, 0.1)
    lane, _ = model.next(5.0)
    model.add(lane, batch(5.0))
    assert model.next(5.0) == (lane, pytest.approx(5.099))
    assert model.next(5.2) == (lane, 5.2)


def test_a_full_batch_is_handed_over_earlier_since_waiting_brings_it_nothing():
    model, _ = lanes(1, 0.1)
    lane, _ = model.next(5.0)
    model.add(lane, batch(5.0))
    assert model.next(5.0, full=True) == (lane, pytest.approx(5.095))


def test_no_more_than_two_batches_are_handed_over_and_none_ahead_while_times_are_unknown():
    model, _ = lanes()
    lane, _ = model.next(5.0)
    running, following = batch(5.0), batch(5.0)
    model.add(lane, running)
    assert model.next(5.0)[1] == float("inf")
    model.add(lane, following)
    assert model.next(5.0)[0] is None
    model.remove(lane, running, 6.0)
    assert (lane.started_at, model.in_flight) == (6.0, 1)


def test_an_instance_that_is_down_takes_nothing():
    model, instances = lanes(2)
    instances[0].alive = False
    assert model.next(5.0)[0].instance is instances[1]
    instances[1].alive = False
    assert model.next(5.0)[0] is None
    assert model.free_at(5.0, 100, 8) == 5.0


def test_room_is_expected_behind_those_that_wait_and_those_that_were_handed_over():
    model, _ = lanes(1, 0.1)
    assert model.free_at(5.0, 0, 8) == 5.0
    lane, _ = model.next(5.0)
    model.add(lane, batch(5.0))
    assert model.free_at(5.0, 0, 8) == pytest.approx(5.1)
    model.add(lane, batch(5.0))
    assert model.free_at(5.0, 7, 8) == pytest.approx(5.2)
    assert model.free_at(5.0, 8, 8) > 5.2
    assert model.free_at(9.0, 0, 8) == 9.0
