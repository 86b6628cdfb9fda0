from __future__ import annotations

import threading

import pytest

from edge_agent.store.inbox import GROUP_MAX, Inbox, PendingResult


@pytest.fixture
def inbox(clock):
    return Inbox(clock, {"result": 2000, "log": 2})


def _waited(future="somebody"):
    return PendingResult(None, future)


NOBODY = PendingResult(None, None)


def test_an_awaited_row_is_taken_at_once_with_all_that_is_there(inbox):
    inbox.put("log", "line")
    inbox.put("result", _waited(), urgent=True)
    assert inbox.take(interval_s=60, tick_s=60) == {"log": ["line"], "result": [_waited()]}


def test_other_rows_wait_for_their_interval_and_ticks_come_meanwhile(inbox, clock):
    inbox.put("log", "line")
    started = clock.monotonic()
    assert inbox.take(interval_s=0.2, tick_s=0.05) == {}
    assert clock.monotonic() - started < 0.19
    while not inbox.take(interval_s=0.2, tick_s=0.05):
        pass
    assert clock.monotonic() - started >= 0.2


def test_a_full_kind_refuses_and_counts_without_touching_the_others(inbox):
    assert [inbox.put_or_count("log", i) for i in range(5)] == [True, True, False, False, False]
    assert inbox.dropped == {"result": 0, "log": 3}
    assert inbox.put("result", NOBODY)
    assert inbox.room_wanted()
    assert not inbox.room_wanted()


def test_a_group_has_a_bound_and_the_rest_comes_next(inbox):
    for _ in range(GROUP_MAX + 5):
        inbox.put("result", NOBODY)
    inbox.put("result", _waited(), urgent=True)
    assert len(inbox.take(60, 60)["result"]) == GROUP_MAX
    assert len(inbox.take(60, 60)["result"]) == 6


def test_held_rows_come_first_and_take_room(inbox):
    for _ in range(10):
        inbox.put("result", NOBODY)
    inbox.put("result", _waited(), urgent=True)
    held = {"result": ["held"] * (GROUP_MAX - 3)}
    batch = inbox.take(60, 60, held)
    assert batch["result"][:-3] == held["result"]
    assert inbox.waiting()["result"] == 8
    assert inbox.take_awaited() == [_waited()]
    assert inbox.take(0, 0)["result"] == [NOBODY] * 7


def test_close_wakes_the_writer_and_refuses_rows(inbox):
    taken = []
    thread = threading.Thread(target=lambda: taken.append(inbox.take(60, 60)))
    thread.start()
    inbox.close()
    thread.join(5)
    assert taken == [{}]
    assert not inbox.put("log", "late")
    assert inbox.closed
