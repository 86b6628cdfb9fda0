import time

from edge_agent.engine_host.build.progress import Progress, Steps


def test_phases_within_phases_are_shares_of_their_parent_s_step():
    steps = Steps()
    steps.begin("build", None, 4)
    steps.done("build", 0)
    assert steps.share == 0.25
    steps.begin("tactics", "build", 10)
    steps.done("tactics", 4)
    assert steps.share == 0.25 + 0.5 / 4
    steps.end("tactics")
    steps.done("build", 1)
    assert steps.share == 0.5


def test_the_share_never_falls_and_never_passes_one():
    steps = Steps()
    steps.begin("first", None, 2)
    steps.end("first")
    assert steps.share == 1.0
    steps.begin("second", None, 10)
    steps.done("second", 0)
    steps.done("second", 99)
    assert steps.share == 1.0


def test_what_is_not_known_of_a_phase_does_no_harm():
    steps = Steps()
    steps.done("never begun", 3)
    steps.end("never begun")
    steps.begin("odd", "no such parent", 0)
    steps.done("odd", 0)
    assert steps.share == 1.0


def test_phases_that_are_each_other_s_parents_do_not_hang_the_build():
    steps = Steps()
    steps.begin("a", "b", 2)
    steps.begin("b", "a", 2)
    steps.begin("top", None, 2)
    steps.done("top", 0)
    steps.done("a", 0)
    assert 0.0 <= steps.share <= 1.0


def told(expected_s, steps=None, waited=0.0):
    said, now = [], [100.0]
    progress = Progress(said.append, expected_s, clock=lambda: now[0])
    progress.enter("build", 64, "again", steps)
    now[0] += waited
    progress.tell()
    return said


def test_without_a_former_build_and_without_steps_no_time_left_is_made_up():
    last = told(0.0)[-1]
    assert (last["percent"], last["eta_s"], last["text"], last["workspace_bytes"]) == (5.0, None, "again", 64)


def test_the_time_of_a_former_build_gives_percent_and_time_left():
    last = told(100.0, waited=25.0)[-1]
    assert (last["percent"], last["eta_s"]) == (28.0, 75.0)


def test_a_build_that_takes_longer_than_the_former_one_is_nearly_done_not_over():
    last = told(10.0, waited=25.0)[-1]
    assert 95 < last["percent"] < 97
    assert last["eta_s"] == 0.0


def test_tensorrt_s_own_steps_count_before_a_former_time():
    steps = Steps()
    steps.begin("build", None, 4)
    steps.done("build", 0)
    last = told(1000.0, steps, waited=10.0)[-1]
    assert (last["percent"], last["eta_s"]) == (28.0, 30.0)


def test_it_tells_again_and_again_from_a_thread_of_its_own_until_stopped():
    said = []
    progress = Progress(said.append, 0.0, interval_s=0.01)
    progress.start()
    deadline = time.monotonic() + 20
    while len(said) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(said) >= 3
    progress.stop()
    assert {fields["phase"] for fields in said} == {"parse"}
