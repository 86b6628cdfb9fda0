from __future__ import annotations

import random
from typing import Any, Dict

import pytest

from edge_agent.cameras.liveness import FIRST_FRAME_S, OPEN_BUDGET_S, WRONG_PASSWORD_S, Liveness, Step
from edge_agent.processes.backoff import Backoff


class NoJitter(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return b


def signs(frame_at: float, changing_at: float = -1.0, changes: int = 1) -> Dict[str, Any]:
    changing = frame_at if changing_at < 0 else changing_at
    return {
        "sequence": 1,
        "frame_ns": int(frame_at * 1e9),
        "changing_ns": int(changing * 1e9),
        "changes": changes,
        "fps_in": 10.0,
    }


@pytest.fixture
def liveness() -> Liveness:
    """Stale after 5 s, frozen after 60 s, retries after 0.5, 1, 2, 4, 7, 7... s."""
    made = Liveness(5.0, 60.0, Backoff(0.5, 7.0, NoJitter()))
    made.child_up()
    return made


def go_live(liveness: Liveness, now: float) -> None:
    assert liveness.step(now) is Step.OPEN
    liveness.asked(now)
    liveness.opened(now)
    liveness.alive(signs(now))


def wait_before_next_open(liveness: Liveness, now: float) -> float:
    """Seconds until it asks to open, in steps of a tenth."""
    for tenths in range(1000):
        if liveness.step(now + tenths / 10) is Step.OPEN:
            return tenths / 10
    raise AssertionError("never")


def test_a_new_camera_is_opening_and_opens_at_once(liveness: Liveness) -> None:
    assert liveness.verdict.code == "camera.opening"
    assert liveness.step(100.0) is Step.OPEN


def test_open_alone_is_not_ok_the_first_frame_is(liveness: Liveness) -> None:
    liveness.asked(100.0)
    liveness.opened(100.5)
    assert liveness.verdict.code == "camera.opening"
    liveness.alive(signs(0.0))
    assert liveness.verdict.code == "camera.opening"
    liveness.alive(signs(101.0))
    assert liveness.verdict.code == ""
    assert liveness.frame_at == 101.0


def test_opening_that_takes_too_long_ends_the_child_once(liveness: Liveness) -> None:
    liveness.asked(100.0)
    assert liveness.step(100.0 + OPEN_BUDGET_S) is Step.NOTHING
    assert liveness.step(100.1 + OPEN_BUDGET_S) is Step.KILL
    assert liveness.verdict.code == "camera.unreachable"
    assert liveness.step(200.0) is Step.NOTHING
    liveness.child_down(201.0, "killed")
    assert liveness.verdict.code == "camera.unreachable"
    liveness.child_up()
    assert liveness.step(300.0) is Step.OPEN


def test_no_frame_for_too_long_is_stalled(liveness: Liveness) -> None:
    go_live(liveness, 100.0)
    liveness.alive(signs(110.0))
    assert liveness.step(115.0) is Step.NOTHING
    assert liveness.step(115.1) is Step.KILL
    assert liveness.verdict.code == "camera.stalled"


def test_a_first_frame_that_waits_for_a_key_frame_has_time_but_not_for_ever(liveness: Liveness) -> None:
    liveness.asked(100.0)
    liveness.opened(103.0)
    assert liveness.step(103.0 + FIRST_FRAME_S) is Step.NOTHING
    assert liveness.step(103.1 + FIRST_FRAME_S) is Step.KILL
    assert liveness.verdict.code == "camera.stalled"


def test_frames_had_by_filling_count_as_life(liveness: Liveness) -> None:
    go_live(liveness, 100.0)
    liveness.seen(int(104e9))
    assert liveness.step(108.0) is Step.NOTHING


def test_the_same_picture_for_too_long_is_frozen(liveness: Liveness) -> None:
    go_live(liveness, 100.0)
    liveness.alive(signs(160.0, changing_at=100.0))
    assert liveness.step(160.0) is Step.NOTHING
    liveness.alive(signs(160.1, changing_at=100.0))
    assert liveness.step(160.1) is Step.KILL
    assert liveness.verdict.code == "camera.frozen"


def test_a_first_frame_does_not_end_frozen(liveness: Liveness) -> None:
    go_live(liveness, 100.0)
    liveness.alive(signs(170.0, changing_at=100.0))
    liveness.step(170.0)
    liveness.child_down(170.2, "killed")
    liveness.child_up()
    liveness.asked(180.0)
    liveness.opened(180.0)
    liveness.alive(signs(181.0, changing_at=180.0, changes=0))
    assert liveness.verdict.code == "camera.frozen"
    liveness.alive(signs(182.0, changes=1))
    assert liveness.verdict.code == ""


def test_frozen_can_be_switched_off() -> None:
    liveness = Liveness(5.0, 0.0, Backoff(0.5, 7.0, NoJitter()))
    liveness.child_up()
    go_live(liveness, 100.0)
    liveness.alive(signs(100000.0, changing_at=100.0))
    assert liveness.step(100000.0) is Step.NOTHING


def test_tries_come_after_growing_waits_until_a_good_frame(liveness: Liveness) -> None:
    now = 100.0
    waits = []
    for _ in range(6):
        liveness.asked(now)
        liveness.closed(now, "camera.unreachable", "no")
        waits.append(wait_before_next_open(liveness, now))
        now += 100
    assert waits == [0.5, 1.0, 2.0, 4.0, 7.0, 7.0]
    go_live(liveness, now)
    liveness.closed(now, "camera.unreachable", "cut")
    assert wait_before_next_open(liveness, now) == 0.5


def test_a_wrong_password_is_tried_once_a_minute_and_at_once_when_it_changed(liveness: Liveness) -> None:
    liveness.asked(100.0)
    liveness.closed(100.0, "camera.wrong_password", "401")
    assert wait_before_next_open(liveness, 100.0) == WRONG_PASSWORD_S
    liveness.hurry()
    assert liveness.step(100.1) is Step.OPEN


@pytest.mark.parametrize("code", ["camera.ended", "camera.unsupported"])
def test_what_would_not_get_better_is_not_tried_again(liveness: Liveness, code: str) -> None:
    liveness.asked(100.0)
    liveness.closed(100.0, code, "")
    assert liveness.step(10000.0) is Step.NOTHING
    liveness.child_down(10001.0, "ended by SIGKILL")
    liveness.child_up()
    assert liveness.step(10002.0) is Step.NOTHING
    assert liveness.verdict.code == code


def test_a_child_that_died_by_itself_is_news_one_that_was_killed_is_not(liveness: Liveness) -> None:
    go_live(liveness, 100.0)
    liveness.child_down(101.0, "ended by SIGSEGV")
    assert (liveness.verdict.code, liveness.verdict.text) == ("camera.child_died", "ended by SIGSEGV")
    liveness.child_up()
    go_live(liveness, 110.0)
    assert liveness.verdict.code == ""
    assert liveness.step(120.0) is Step.KILL
    liveness.child_down(121.0, "killed")
    assert liveness.verdict.code == "camera.stalled"


def test_what_a_killed_child_still_says_changes_nothing(liveness: Liveness) -> None:
    go_live(liveness, 100.0)
    assert liveness.step(110.0) is Step.KILL
    liveness.alive(signs(110.1))
    liveness.closed(110.1, "camera.unreachable", "late")
    assert liveness.verdict.code == "camera.stalled"
