from __future__ import annotations

import asyncio

import pytest

from edge_agent import errors
from edge_agent.batching.pending import Pending
from edge_agent.batching.policy import BatchPolicy, QueuePolicy
from edge_agent.batching.queue import RequestQueue
from edge_agent.domain.requests import InferRequest

LEVELS = BatchPolicy(8, priority_levels=3, default_priority_level=2)


def bounded(size, **own):
    policies = {int(level[1:]): QueuePolicy(bound) for level, bound in own.items()}
    return RequestQueue(BatchPolicy(8, default_queue_policy=QueuePolicy(size), priority_levels=3, queue_policies=policies))


def pending(key="a", deadline=None, level=1, defer_at=None):
    future = asyncio.get_running_loop().create_future()
    return Pending(InferRequest("m", ()), 1, key, future, 0.0, deadline, level, defer_at)


def filled(*items, policy=LEVELS):
    queue = RequestQueue(policy)
    for item in items:
        queue.push(item)
    return queue


async def test_one_request_over_the_bound_is_refused_and_counted():
    queue = bounded(2)
    queue.push(pending())
    queue.push(pending())
    with pytest.raises(errors.QueueFull, match="Exceeds maximum queue size: 2 requests wait for model 'm' at priority 1"):
        queue.push(pending())
    assert (len(queue), queue.refused) == (2, 1)


async def test_each_level_has_a_bound_of_its_own():
    queue = bounded(2, l3=1)
    for level in (1, 1, 2, 2, 3):
        queue.push(pending(level=level))
    for level, bound in ((1, 2), (2, 2), (3, 1)):
        with pytest.raises(errors.QueueFull, match="%d requests wait.*priority %d" % (bound, level)):
            queue.push(pending(level=level))
    assert [queue.waiting_at(level) for level in (1, 2, 3)] == [2, 2, 1]


async def test_a_request_that_leaves_frees_its_place_wherever_it_waits():
    queue = bounded(3)
    items = [pending(), pending("b"), pending(defer_at=1.0)]
    for item in items:
        queue.push(item)
    queue.expired(1.0)
    for left, item in zip((2, 1, 0), (items[1], items[2], items[0])):
        queue.remove(item)
        queue.remove(item)
        assert len(queue) == queue.waiting_at(1) == left


async def test_the_group_of_the_oldest_request_comes_first_and_skips_ended_ones():
    items = [pending("a"), pending("b"), pending("a"), pending("b")]
    queue = filled(*items)
    items[0].future.cancel()
    assert queue.first_group(8) == [items[1], items[3]]
    assert queue.has_others("b")
    queue.take([items[1], items[3]])
    assert queue.first_group(8) == [items[2]]
    assert not queue.has_others("a")


async def test_taking_a_part_of_a_group_leaves_the_rest_in_order():
    items = [pending() for _ in range(5)]
    queue = filled(*items)
    items[1].future.cancel()
    group = queue.first_group(2)
    assert group == [items[0], items[2]]
    queue.take(group)
    assert queue.first_group(8) == [items[3], items[4]]


async def test_levels_are_walked_from_the_highest_in_order_of_arrival():
    low, middle, high, high_again = (pending(level=level) for level in (3, 2, 1, 1))
    assert filled(low, middle, high, high_again).first_group(8) == [high, high_again, middle, low]


async def test_a_lower_level_joins_no_batch_while_another_shape_of_a_higher_one_waits():
    low, other, high = pending("a", level=2), pending("b", level=1), pending("a", level=1)
    queue = filled(low, high, other)
    assert queue.first_group(8) == [high]
    queue.take([high])
    assert queue.first_group(8) == [other]
    queue.take([other])
    assert queue.first_group(8) == [low]


async def test_a_deferred_request_goes_after_all_of_its_level_and_before_the_next_level():
    slow, low, late = pending(level=1, defer_at=1.0), pending(level=2), pending(level=1)
    queue = filled(slow, low)
    assert queue.next_deadline() == 1.0
    assert queue.expired(1.0) == []
    queue.push(late)
    assert queue.first_group(8) == [late, slow, low]
    assert queue.next_deadline() is None


async def test_a_deferred_request_still_ends_with_its_own_deadline():
    item = pending(deadline=2.0, defer_at=1.0)
    queue = filled(item)
    assert queue.expired(1.5) == []
    assert queue.next_deadline() == 2.0
    assert queue.expired(2.0) == [item]
    assert len(queue) == 0


async def test_only_requests_that_still_wait_expire():
    early, late, sent = pending(deadline=1.0), pending(deadline=2.0), pending(deadline=1.0)
    queue = filled(early, late, sent)
    queue.take([sent])
    assert queue.next_deadline() == 1.0
    assert queue.expired(1.5) == [early]
    assert queue.next_deadline() == 2.0
    assert queue.first_group(8) == [late]


async def test_a_retry_comes_by_its_level_and_is_not_in_the_way_of_the_bound():
    queue = bounded(1)
    low, high, fresh = pending(level=2), pending(level=1), pending(level=1)
    for item in (low, high):
        queue.push(item)
        queue.take([item])
        queue.push_retry(item)
    queue.push(fresh)
    assert (len(queue), queue.waiting_at(1), queue.retry()) == (3, 1, high)
    queue.remove(high)
    assert queue.retry() is low
    assert queue.first_group(8) == [fresh]


async def test_clearing_gives_back_what_still_waits():
    items = [pending(), pending("b"), pending(level=2)]
    queue = filled(*items)
    retry = pending()
    queue.push_retry(retry)
    assert queue.clear() == [*items, retry]
    assert len(queue) == 0
    assert all(item.line is None for item in items)


async def test_a_request_with_a_deadline_can_be_tried_again_while_its_first_deadline_is_still_watched():
    item = pending(deadline=2.0)
    queue = filled(item)
    queue.take([item])
    queue.push_retry(item)
    assert queue.next_deadline() == 2.0
    assert queue.expired(1.0) == []
    assert queue.expired(3.0) == [item]
    assert queue.next_deadline() is None


async def test_deadlines_of_requests_that_are_gone_do_not_pile_up():
    queue = RequestQueue(BatchPolicy(8))
    for number in range(5000):
        item = pending(deadline=1000.0 + number)
        queue.push(item)
        queue.take([item])
    assert len(queue._deadlines) < 100
