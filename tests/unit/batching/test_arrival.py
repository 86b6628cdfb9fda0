from __future__ import annotations

import asyncio

from edge_agent.batching.arrival import ArrivalOrder
from edge_agent.batching.pending import Pending
from edge_agent.domain.requests import InferRequest


def entered(order, count):
    loop = asyncio.get_running_loop()
    items = [Pending(InferRequest("m", ()), 1, "a", loop.create_future(), 0.0) for _ in range(count)]
    for item in items:
        order.enter(item)
    return items


async def test_without_an_order_every_answer_leaves_at_once_and_nothing_is_kept():
    order, left = ArrivalOrder(False), []
    first, second = entered(order, 2)
    order.answered(second, lambda: left.append("second"))
    order.leave(first)
    assert (left, len(order)) == (["second"], 0)


async def test_an_answer_waits_for_all_before_it():
    order, left = ArrivalOrder(True), []
    items = entered(order, 3)
    for place in (2, 1):
        order.answered(items[place], lambda place=place: left.append(place))
        assert left == []
    order.answered(items[0], lambda: left.append(0))
    assert (left, len(order)) == ([0, 1, 2], 0)


async def test_who_leaves_lets_those_behind_pass():
    order, left = ArrivalOrder(True), []
    first, second = entered(order, 2)
    order.answered(second, lambda: left.append("second"))
    order.leave(first)
    order.leave(first)
    assert (left, len(order)) == (["second"], 0)


async def test_an_answer_that_waits_is_delivered_once_when_its_caller_leaves():
    order, left = ArrivalOrder(True), []
    first, second = entered(order, 2)
    order.answered(second, lambda: left.append("second"))
    order.leave(second)
    assert (left, len(order)) == (["second"], 1)
    order.answered(first, lambda: left.append("first"))
    assert left == ["second", "first"]
