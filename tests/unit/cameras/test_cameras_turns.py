from __future__ import annotations

import asyncio
from typing import List

import pytest

from edge_agent.cameras.turns import Turns
from edge_agent.errors import DeadlineExceeded, QueueFull


async def take_and_note(turns: Turns, places: int, name: str, noted: List[str]) -> None:
    await turns.take(places, 10.0)
    noted.append(name)


async def test_turns_come_in_the_order_of_asking_and_who_wants_all_is_not_overtaken() -> None:
    turns = Turns(2, 10)
    noted: List[str] = []
    await turns.take(1, 1.0)
    tasks = [
        asyncio.ensure_future(take_and_note(turns, places, name, noted)) for places, name in ((2, "all"), (1, "a"), (1, "b"))
    ]
    await asyncio.sleep(0)
    assert noted == []
    turns.give(1)
    await asyncio.sleep(0.01)
    assert noted == ["all"]
    turns.give(2)
    await asyncio.gather(*tasks)
    assert noted == ["all", "a", "b"]


async def test_a_turn_that_does_not_come_in_time_is_an_error_and_lets_the_next_pass() -> None:
    turns = Turns(2, 10)
    await turns.take(1, 1.0)
    first = asyncio.ensure_future(turns.take(2, 0.05))
    second = asyncio.ensure_future(turns.take(1, 10.0))
    with pytest.raises(DeadlineExceeded):
        await first
    await second
    with pytest.raises(DeadlineExceeded):  # both places are taken: the one that left has none
        await turns.take(1, 0.01)


async def test_too_many_waiting_are_turned_away_and_counted() -> None:
    turns = Turns(1, 1)
    await turns.take(1, 1.0)
    waiting = asyncio.ensure_future(turns.take(1, 10.0))
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await turns.take(1, 10.0)
    assert turns.refused == 1
    turns.give(1)
    await waiting


async def test_a_turn_granted_to_somebody_who_left_in_that_moment_is_not_lost() -> None:
    turns = Turns(1, 10)
    await turns.take(1, 1.0)
    leaving = asyncio.ensure_future(turns.take(1, 10.0))
    await asyncio.sleep(0)
    turns.give(1)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await turns.take(1, 1.0)
    with pytest.raises(DeadlineExceeded):
        await turns.take(1, 0.01)


async def test_somebody_who_leaves_the_queue_lets_the_next_pass() -> None:
    turns = Turns(2, 10)
    await turns.take(1, 1.0)
    leaving = asyncio.ensure_future(turns.take(2, 10.0))
    staying = asyncio.ensure_future(turns.take(1, 10.0))
    await asyncio.sleep(0)
    assert not staying.done()
    leaving.cancel()
    await staying
    with pytest.raises(DeadlineExceeded):
        await turns.take(1, 0.01)
