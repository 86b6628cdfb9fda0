from __future__ import annotations

import pytest

from edge_agent.batching.decision import decide
from edge_agent.batching.policy import BatchPolicy


@pytest.mark.parametrize(
    ("rows", "take", "reason"),
    [
        ([1], 1, "idle"),
        ([1] * 3, 3, "idle"),
        ([1] * 8, 8, "full"),
        ([1] * 9, 8, "full"),
        ([3, 3, 3], 2, "full"),
        ([8], 1, "full"),
        ([7, 2], 1, "full"),
    ],
)
def test_without_delay_everything_that_fits_is_sent_at_once(rows, take, reason):
    decision = decide(BatchPolicy(8), rows, 0.0, 0.0)
    assert (decision.take, decision.reason) == (take, reason)


def test_a_delay_waits_for_company_until_the_oldest_has_waited_it():
    policy = BatchPolicy(8, max_queue_delay_s=0.02)
    assert decide(policy, [1, 1], 10.0, 10.005).wait_until == pytest.approx(10.02)
    late = decide(policy, [1, 1], 10.0, 10.02)
    assert (late.take, late.reason) == (2, "delay")


def test_a_full_batch_does_not_wait_for_the_delay():
    assert decide(BatchPolicy(8, max_queue_delay_s=1.0), [1] * 8, 0.0, 0.0).take == 8


@pytest.mark.parametrize(("waiting", "take"), [(1, 0), (3, 0), (4, 4), (5, 4), (6, 6), (7, 6)])
def test_the_largest_preferred_size_that_is_met_is_sent_without_waiting(waiting, take):
    decision = decide(BatchPolicy(8, (4, 6), 1.0), [1] * waiting, 0.0, 0.0)
    assert decision.take == take
    assert decision.reason == ("preferred" if take else "")


def test_company_is_not_waited_for_while_another_shape_waits_behind():
    decision = decide(BatchPolicy(8, max_queue_delay_s=1.0), [1, 1], 0.0, 0.0, others_wait=True)
    assert (decision.take, decision.reason) == (2, "other_shape")


def test_a_batch_is_sent_before_a_member_expires_while_it_waits_for_company():
    policy = BatchPolicy(8, max_queue_delay_s=1.0)
    early = decide(policy, [1, 1], 10.0, 10.1, send_by=10.5)
    assert (early.take, 10.45 < early.wait_until < 10.5) == (0, True)
    urgent = decide(policy, [1, 1], 10.0, early.wait_until, send_by=10.5)
    assert (urgent.take, urgent.reason) == (2, "deadline")


def test_a_deadline_beyond_the_delay_changes_nothing():
    policy = BatchPolicy(8, max_queue_delay_s=1.0)
    assert decide(policy, [1], 10.0, 10.5, send_by=12.0).wait_until == 11.0
    assert decide(policy, [1], 10.0, 11.0, send_by=12.0).reason == "delay"


@pytest.mark.parametrize(
    ("rows", "delay_s", "others", "now", "reason"),
    [
        ([8], 1.0, True, 99.0, "full"),
        ([4], 1.0, True, 99.0, "preferred"),
        ([4], 0.0, True, 99.0, "preferred"),
        ([3], 0.0, True, 99.0, "idle"),
        ([3], 1.0, True, 99.0, "other_shape"),
        ([3], 1.0, False, 99.0, "delay"),
        ([3], 1.0, False, 10.4, "deadline"),
        ([3], 1.0, False, 10.1, ""),
    ],
)
def test_every_batch_has_the_first_reason_that_holds(rows, delay_s, others, now, reason):
    policy = BatchPolicy(8, (4,), delay_s)
    assert decide(policy, rows, 10.0, now, others, send_by=10.4).reason == reason
