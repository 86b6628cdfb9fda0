from __future__ import annotations

import pytest

from edge_agent.batching.service_time import ServiceTime


def test_nothing_is_expected_before_the_first_batch_ran():
    assert ServiceTime().expect(1) is None


def test_a_size_not_seen_is_scaled_from_the_nearest_one():
    service_time = ServiceTime()
    service_time.learn(2, 0.010)
    assert service_time.expect(4) == pytest.approx(0.020)
    assert service_time.expect(1) == pytest.approx(0.010)


def test_one_outlier_moves_the_expectation_by_a_fifth():
    service_time = ServiceTime()
    service_time.learn(1, 0.010)
    service_time.learn(1, 0.110)
    assert service_time.expect(1) == pytest.approx(0.030)
