from __future__ import annotations

import pytest

from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.processes.arena import Arena
from edge_agent.serving.room import RoomWish, StepRooms, StepWish, row_bytes, rows_in


@pytest.fixture
def arena():
    arena = Arena(1 << 20)
    yield arena
    arena.close()


def test_a_wish_for_one_slot_becomes_that_slot_and_none_becomes_nothing(arena):
    segment = arena.segment("one")
    wish = RoomWish([(segment, 100)], True)
    (lease,) = arena.try_acquire(wish.wants)
    assert wish.filled([lease]) is lease
    lease.release()
    assert RoomWish([], False).filled([]) is None


def test_rooms_of_steps_come_from_one_step_and_go_where_they_belong(arena):
    left, right = arena.segment("left"), arena.segment("right")
    wish = StepWish(
        {
            0: RoomWish([(left, 10)], True),
            1: RoomWish([], False),
            2: StepWish({5: RoomWish([(right, 20)], True), 7: RoomWish([(left, 30)], True)}),
        }
    )
    assert not wish.exact
    assert [(segment.name, nbytes) for segment, nbytes in wish.wants] == [("left", 10), ("right", 20), ("left", 30)]
    rooms = wish.filled(arena.try_acquire(wish.wants))
    assert isinstance(rooms, StepRooms)
    first, within = rooms.take(0), rooms.take(2)
    assert (first.segment, first.nbytes) == (left.number, 10)
    assert rooms.take(0) is rooms.take(1) is None
    assert isinstance(within, StepRooms)
    assert within.take(5).nbytes == 20
    assert arena.status()["slots"] == 3
    first.release()
    within.release()  # what was taken out of it is not its own any more
    assert arena.status()["slots"] == 1


def test_rooms_that_no_step_took_are_given_back_by_the_last_holder(arena):
    segment = arena.segment("one")
    wish = StepWish({0: RoomWish([(segment, 10)], True), 1: RoomWish([(segment, 10)], True)})
    rooms = wish.filled(arena.try_acquire(wish.wants))
    assert wish.exact
    assert (rooms.nbytes, len(rooms.view())) == (0, 0)
    assert rooms.retain() is rooms
    rooms.release()
    assert arena.status()["slots"] == 2
    rooms.release()
    assert arena.status()["slots"] == 0
    with pytest.raises(AssertionError, match="twice"):
        rooms.release()
    with pytest.raises(AssertionError, match="released"):
        rooms.retain()


def test_steps_that_want_nothing_have_no_rooms():
    assert StepWish({0: RoomWish([], True)}).filled([]) is None


def test_rows_are_counted_by_bytes_and_taken_as_most_where_nobody_can_tell():
    fixed = [TensorSpec("x", DataType.FP32, (-1, 4)), TensorSpec("y", DataType.UINT8, (-1, 2))]
    text = [TensorSpec("x", DataType.BYTES, (-1, 4))]
    assert [row_bytes(spec, True) for spec in (*fixed, *text)] == [16, 2, 0]
    assert [rows_in(nbytes, fixed, 8) for nbytes in (0, 18, 36, 54, 18000)] == [1, 1, 2, 3, 8]
    assert rows_in(18, fixed, 0) == 1
    assert rows_in(18, text, 8) == 8
