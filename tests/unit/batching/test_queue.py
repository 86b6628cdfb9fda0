from __future__ import annotations

import asyncio

import pytest

from edge_agent import errors
from edge_agent.batching.queue import Pending, RequestQueue
from edge_agent.domain.requests import InferRequest


def pending(key="a", deadline=None, name="m"):
    return Pending(InferRequest(name, ()), 1, key, asyncio.get_running_loop().create_future(), 0.0, deadline)


async def test_one_request_over_the_bound_is_refused_and_counted():
    queue = RequestQueue(2)
    queue.push(pending())
    queue.push(pending())
    with pytest.raises(errors.QueueFull, match="2 requests wait for model 'm'"):
        queue.push(pending())
    assert (len(queue), queue.refused) == (2, 1)


async def test_departed_requests_make_room_for_new_ones():
    queue = RequestQueue(2)
    gone = pending()
    queue.push(gone)
    queue.push(pending())
    gone.future.cancel()
    queue.push(pending())
    assert (len(queue), queue.refused) == (2, 0)


async def test_the_group_of_the_oldest_request_comes_first_and_skips_ended_ones():
    queue = RequestQueue(8)
    items = [pending("a"), pending("b"), pending("a"), pending("b")]
    for item in items:
        queue.push(item)
    items[0].future.cancel()
    assert queue.oldest_group(8) == [items[1], items[3]]
    assert queue.has_others("b")
    queue.take([items[1], items[3]])
    assert queue.oldest_group(8) == [items[2]]
    assert not queue.has_others("a")


async def test_taking_a_part_of_a_group_leaves_the_rest_in_order():
    queue = RequestQueue(8)
    items = [pending() for _ in range(5)]
    for item in items:
        queue.push(item)
    items[1].future.cancel()
    group = queue.oldest_group(2)
    assert group == [items[0], items[2]]
    queue.take(group)
    assert queue.oldest_group(8) == [items[3], items[4]]


async def test_only_requests_that_still_wait_expire():
    queue = RequestQueue(8)
    early, late, sent = pending(deadline=1.0), pending(deadline=2.0), pending(deadline=1.0)
    for item in (early, late, sent):
        queue.push(item)
    sent.sent_at = 0.5
    assert queue.next_deadline() == 1.0
    assert queue.expired(1.5) == [early]
    assert queue.next_deadline() == 2.0


async def test_clearing_gives_back_what_still_waits():
    queue = RequestQueue(8)
    items = [pending(), pending("b")]
    for item in items:
        queue.push(item)
    retry = pending()
    queue.push_retry(retry)
    assert queue.clear() == [*items, retry]
    assert len(queue) == 0


async def test_a_request_with_a_deadline_can_be_tried_again_while_its_first_deadline_is_still_watched():
    queue = RequestQueue(8)
    item = pending(deadline=2.0)
    queue.push(item)
    queue.take([item])
    queue.push_retry(item)
    assert queue.next_deadline() == 2.0
    assert queue.expired(1.0) == []
    assert set(queue.expired(3.0)) == {item}
