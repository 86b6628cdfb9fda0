from __future__ import annotations

from edge_agent.processes.heartbeat import Heartbeat


def _started() -> Heartbeat:
    heartbeat = Heartbeat(interval_s=1.0, silence_s=4.0)
    heartbeat.start(0.0)
    return heartbeat


def test_a_child_that_answers_is_pinged_each_interval() -> None:
    heartbeat = _started()
    for second in range(1, 100):
        assert heartbeat.tick(float(second))
        heartbeat.heard()
        assert not heartbeat.hangs


def test_one_ping_at_most_is_unanswered() -> None:
    heartbeat = _started()
    assert [heartbeat.tick(float(second)) for second in range(1, 6)] == [True, False, False, False, False]


def test_silence_is_a_hang_after_its_time_and_not_before() -> None:
    heartbeat = _started()
    hangs = []
    for second in range(1, 7):
        heartbeat.tick(float(second))
        hangs.append(heartbeat.hangs)
    assert hangs == [False, False, False, False, True, True]


def test_a_late_answer_ends_the_silence() -> None:
    heartbeat = _started()
    for second in (1.0, 2.0, 3.0, 4.0):
        heartbeat.tick(second)
    heartbeat.heard()
    for second in (5.0, 6.0, 7.0, 8.0):
        heartbeat.tick(second)
    assert not heartbeat.hangs


def test_silence_does_not_count_while_an_operation_runs() -> None:
    heartbeat = _started()
    heartbeat.busy(100.0, "load")
    for second in range(1, 50):
        heartbeat.tick(float(second))
    assert not heartbeat.hangs
    heartbeat.idle("load")
    for second in range(50, 53):
        heartbeat.tick(float(second))
    assert not heartbeat.hangs  # counted from its end, not from the ping
    heartbeat.tick(53.0)
    assert heartbeat.hangs


def test_an_operation_over_its_budget_hides_no_silence() -> None:
    heartbeat = _started()
    heartbeat.busy(10.0, "")
    for second in range(1, 15):
        heartbeat.tick(float(second))
    assert heartbeat.hangs


def test_the_end_of_one_operation_is_not_the_end_of_another() -> None:
    heartbeat = _started()
    heartbeat.busy(100.0, "a")
    heartbeat.busy(100.0, "b")
    heartbeat.idle("a")
    for second in range(1, 20):
        heartbeat.tick(float(second))
    assert not heartbeat.hangs


def test_time_in_which_the_agent_itself_slept_is_not_the_childs() -> None:
    heartbeat = _started()
    heartbeat.tick(1.0)
    heartbeat.tick(3601.0)
    assert not heartbeat.hangs


def test_a_new_life_begins_without_silence_and_operations() -> None:
    heartbeat = _started()
    for second in range(1, 10):
        heartbeat.tick(float(second))
    heartbeat.busy(100.0, "old")
    heartbeat.start(10.0)
    assert not heartbeat.hangs
    for second in range(11, 16):
        heartbeat.tick(float(second))
    assert heartbeat.hangs
