from __future__ import annotations

import asyncio

import pytest

from edge_agent import errors
from edge_agent.batching.policy import BatchPolicy, QueuePolicy
from edge_agent.domain.clock import Clock
from edge_agent.engines.batch import Outcome, Ran
from edge_agent.processes.arena import Arena
from tests.doubles.batching import ask, make, said
from tests.doubles.instance import FakeInstance


async def test_one_caller_that_leaves_does_not_touch_the_others_of_its_batch():
    """B008: triton-inference-server/server#6920, #4618, #7532; SeldonIO/MLServer#1312."""
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(8, max_queue_delay_s=0.01), instance)
    tasks = [ask(batcher, str(n)) for n in range(4)]
    await asyncio.sleep(0.03)
    assert instance.ran == [["0", "1", "2", "3"]]
    tasks[1].cancel()
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert isinstance(answers[1], asyncio.CancelledError)
    assert [said(answers[n]) for n in (0, 2, 3)] == ["0", "2", "3"]


async def test_a_caller_that_leaves_while_it_waits_is_never_sent():
    """B008: triton-inference-server/server#6920, #4618, #7532; aio-libs/aiohttp#7135, #6719."""
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(1), instance)
    first, second, third = ask(batcher, "first"), ask(batcher, "second"), ask(batcher, "third")
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.gather(first, third)
    assert instance.ran == [["first"], ["third"]]
    assert batcher.pending == 0


async def test_one_failing_request_leaves_the_rest_of_its_batch_alone():
    instance = FakeInstance(0.01)
    instance.fails = lambda name: name == "1"
    batcher = make(BatchPolicy(8, max_queue_delay_s=0.01), instance)
    answers = await asyncio.gather(*(ask(batcher, str(n)) for n in range(3)), return_exceptions=True)
    assert isinstance(answers[1], errors.ExecutionError)
    assert [said(answers[0]), said(answers[2])] == ["0", "2"]


async def test_eight_at_once_make_one_batch_and_nine_make_two():
    """B010: triton-inference-server/server#3116, #7776, #4667."""
    instance = FakeInstance(0.005, 0.001)
    batcher = make(BatchPolicy(8, max_queue_delay_s=5.0), instance)
    await asyncio.wait_for(asyncio.gather(*(ask(batcher, str(n)) for n in range(8))), 2)
    assert [len(ids) for ids in instance.ran] == [8]
    nine = [ask(batcher, str(n)) for n in range(9)]
    await asyncio.sleep(0.1)
    assert [len(ids) for ids in instance.ran] == [8, 8]
    nine[8].cancel()
    await asyncio.gather(*nine, return_exceptions=True)


async def test_a_lone_request_waits_for_no_company_without_a_delay():
    instance = FakeInstance(0.0)
    batcher = make(BatchPolicy(8), instance)
    await asyncio.wait_for(ask(batcher, "only"), 2)
    assert instance.reasons == ["idle"]


async def test_requests_group_by_shape_and_none_starves():
    """B012: triton-inference-server/server#6937, #6740, #4133, #5334, #2768."""
    instance = FakeInstance(0.005)
    batcher = make(BatchPolicy(8), instance)
    await asyncio.gather(*(ask(batcher, "%s%d" % (key, n), key=key) for n in range(20) for key in "abc"))
    for ids in instance.ran:
        assert len({name[0] for name in ids}) == 1
    first_of = {key: next(n for n, ids in enumerate(instance.ran) if ids[0][0] == key) for key in "abc"}
    assert max(first_of.values()) <= 3


async def test_a_request_with_more_rows_than_the_model_takes_is_refused():
    """B012: triton-inference-server/server#6937."""
    with pytest.raises(errors.TensorMismatch, match="batch-size must be <= 8 for 'm', got 20"):
        await ask(make(), "big", rows=20)


async def test_a_deadline_is_kept_while_the_instance_is_busy():
    instance = FakeInstance(0.4)
    batcher = make(BatchPolicy(1), instance)
    loop = asyncio.get_running_loop()
    first = ask(batcher, "first")
    started = loop.time()
    with pytest.raises(errors.DeadlineExceeded, match="Request timeout expired"):
        await ask(batcher, "second", deadline=Clock().monotonic() + 0.1)
    assert 0.09 < loop.time() - started < 0.3
    await first
    assert instance.ran == [["first"]]


async def test_the_queue_is_bounded():
    batcher = make(BatchPolicy(1, default_queue_policy=QueuePolicy(2)), FakeInstance(0.05))
    tasks = [ask(batcher, str(n)) for n in range(5)]
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    full = [answer for answer in answers if isinstance(answer, errors.QueueFull)]
    assert len(full) == 2
    assert batcher.pending == batcher.in_flight == 0


async def test_at_most_two_batches_are_handed_to_an_instance():
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(1), instance)
    batcher.service_time.learn(1, 0.001)  # the next batch is handed over well before the running one ends
    await asyncio.gather(*(ask(batcher, str(n)) for n in range(8)))
    assert instance.most_held == 2
    assert [ids[0] for ids in instance.ran] == [str(n) for n in range(8)]


async def test_two_instances_share_the_work():
    one, two = FakeInstance(0.03), FakeInstance(0.03)
    batcher = make(BatchPolicy(1), one, two)
    await asyncio.gather(*(ask(batcher, str(n)) for n in range(6)))
    assert len(one.ran) == len(two.ran) == 3


async def test_requests_of_a_host_that_died_are_retried_once_and_alone():
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(8, max_queue_delay_s=0.01), instance)
    tasks = [ask(batcher, str(n)) for n in range(3)]
    await asyncio.sleep(0.03)
    instance.die()
    assert not any(task.done() for task in tasks)
    instance.come_back()
    batcher.room()
    assert [said(answer) for answer in await asyncio.gather(*tasks)] == ["0", "1", "2"]
    assert instance.ran[1:] == [["0"], ["1"], ["2"]]
    assert instance.reasons[1:] == ["retry"] * 3


async def test_a_request_whose_lone_run_ends_the_host_fails_and_is_counted():
    deaths = []
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(8), instance, on_lone_death=lambda: deaths.append(1))
    poison = ask(batcher, "poison")
    for _ in range(2):
        await asyncio.sleep(0.01)
        instance.die("segmentation fault")
        instance.come_back()
        batcher.room()
    with pytest.raises(errors.HostDied, match="segmentation fault"):
        await asyncio.wait_for(poison, 2)
    assert deaths == [1]


async def test_requests_with_a_deadline_survive_the_death_of_their_host_like_all_others():
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(8, max_queue_delay_s=0.01), instance)
    tasks = [ask(batcher, str(n), deadline=Clock().monotonic() + 5) for n in range(3)]
    await asyncio.sleep(0.03)
    instance.die()
    instance.come_back()
    batcher.room()
    answers = await asyncio.wait_for(asyncio.gather(*tasks), 3)
    assert [said(answer) for answer in answers] == ["0", "1", "2"]


async def test_a_deadline_that_passes_while_the_host_is_away_is_kept():
    instance = FakeInstance(5)
    batcher = make(BatchPolicy(8), instance)
    task = ask(batcher, "late", deadline=Clock().monotonic() + 0.1)
    await asyncio.sleep(0.01)
    instance.die()
    with pytest.raises(errors.ModelNotReady, match="did not come back in time"):
        await asyncio.wait_for(task, 1)


async def test_a_request_that_had_no_part_in_the_hosts_end_is_tried_until_it_has_run_alone():
    deaths = []
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(8), instance, on_lone_death=lambda: deaths.append(1))
    innocent = ask(batcher, "innocent")
    for _ in range(3):
        await asyncio.sleep(0.01)
        instance.die(suspect=False)
        instance.come_back()
        batcher.room()
    assert said(await asyncio.wait_for(innocent, 2)) == "innocent"
    assert deaths == []


async def test_a_lone_request_that_ends_with_a_closed_model_hears_why_it_was_closed():
    deaths = []
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(8), instance, on_lone_death=lambda: deaths.append(1))
    task = ask(batcher, "last")
    await asyncio.sleep(0.01)
    instance.die()
    instance.come_back()
    batcher.room()
    await asyncio.sleep(0.01)
    batcher.close(errors.Draining("Server exiting"))
    instance.die()
    with pytest.raises(errors.Draining):
        await asyncio.wait_for(task, 1)
    assert deaths == []


async def test_a_caller_that_leaves_in_the_moment_of_its_answer_gives_back_what_the_answer_holds():
    arena = Arena(1 << 20)
    (lease,) = arena.try_acquire([(arena.segment("s"), 100)])
    instance = FakeInstance(10)
    batcher = make(BatchPolicy(8), instance)
    task = ask(batcher, "gone")
    await asyncio.sleep(0.01)
    batch, owner = instance.held.pop()
    batch.answers[0] = Outcome(kept=(lease,))
    owner.finished(batch, Ran(0, 0, 0))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert arena.status()["slots"] == 0
    instance.die()
    arena.close()


async def test_a_batch_is_never_more_requests_than_can_be_handed_over():
    instance = FakeInstance(0.005)
    batcher = make(BatchPolicy(64, max_queue_delay_s=5.0, max_requests=10), instance)
    await asyncio.wait_for(asyncio.gather(*(ask(batcher, str(n)) for n in range(30))), 3)
    assert [len(ids) for ids in instance.ran] == [10, 10, 10]


async def test_a_lone_request_that_has_to_wait_does_not_hold_up_the_others_while_the_host_is_open():
    instance = FakeInstance(0.01)
    batcher = make(BatchPolicy(8), instance)
    lone = ask(batcher, "lone")
    await asyncio.sleep(0)
    instance.die()
    instance.lone_allowed = False
    instance.come_back()
    batcher.room()
    assert said(await asyncio.wait_for(ask(batcher, "other"), 1)) == "other"
    assert not lone.done()
    instance.lone_allowed = True
    batcher.room()
    assert said(await asyncio.wait_for(lone, 1)) == "lone"


async def test_an_answer_that_was_delivered_before_the_host_died_stands():
    instance = FakeInstance(10)
    batcher = make(BatchPolicy(8, max_queue_delay_s=0.01), instance)
    tasks = [ask(batcher, str(n)) for n in range(2)]
    await asyncio.sleep(0.03)
    batch, owner = instance.held[0]
    batch.answers[0] = errors.ExecutionError("an answer")
    instance.die()
    with pytest.raises(errors.ExecutionError, match="an answer"):
        await asyncio.wait_for(tasks[0], 1)
    assert not tasks[1].done()
    tasks[1].cancel()


async def test_closing_ends_what_waits_and_refuses_what_comes():
    batcher = make(BatchPolicy(1), FakeInstance(0.05))
    running, waiting = ask(batcher, "running"), ask(batcher, "waiting")
    await asyncio.sleep(0.01)
    batcher.close(errors.Draining("Server exiting"))
    with pytest.raises(errors.Draining):
        await waiting
    with pytest.raises(errors.Draining):
        await ask(batcher, "late")
    assert said(await running) == "running"


async def test_room_is_expected_when_the_running_batch_ends():
    instance = FakeInstance(0.1)
    batcher = make(BatchPolicy(1), instance)
    clock = Clock()
    now = clock.monotonic()
    assert batcher.room_at(now) == now
    await ask(batcher, "learn")
    running = ask(batcher, "running")
    await asyncio.sleep(0.02)
    now = clock.monotonic()
    assert 0.02 < batcher.room_at(now) - now < 0.2
    await running


# -- draining ---------------------------------------------------------------------------------------------------------


async def test_draining_ends_when_nothing_waits_or_runs_any_more():
    batcher = make(BatchPolicy(1), FakeInstance(0.01))
    assert batcher.idle
    await asyncio.wait_for(batcher.drain(), 1)
    tasks = [ask(batcher, str(n)) for n in range(4)]
    await asyncio.sleep(0)
    assert not batcher.idle
    await asyncio.wait_for(asyncio.gather(batcher.drain(), batcher.drain()), 5)
    assert batcher.idle
    assert [said(answer) for answer in await asyncio.gather(*tasks)] == ["0", "1", "2", "3"]


async def test_draining_ends_when_the_last_callers_leave():
    batcher = make(BatchPolicy(8, max_queue_delay_s=30))
    tasks = [ask(batcher, str(n)) for n in range(3)]
    draining = asyncio.ensure_future(batcher.drain())
    await asyncio.sleep(0.01)
    for task in tasks:
        assert not draining.done()
        task.cancel()
    await asyncio.wait_for(draining, 1)


async def test_draining_that_is_given_up_leaves_the_others_waiting():
    batcher = make(BatchPolicy(1), FakeInstance(0.05))
    task = ask(batcher, "running")
    await asyncio.sleep(0)
    impatient, patient = asyncio.ensure_future(batcher.drain()), asyncio.ensure_future(batcher.drain())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait_for(patient, 5)
    assert task.done()


# -- why and when -----------------------------------------------------------------------------------------------------


async def test_a_deadline_within_the_delay_sends_the_batch_in_time():
    instance = FakeInstance(0.001)
    batcher = make(BatchPolicy(8, max_queue_delay_s=20, default_queue_policy=QueuePolicy(timeout_us=150_000)), instance)
    for _ in range(10):  # a machine that stands still for the last milliseconds lets them expire, rightly
        tasks = [ask(batcher, str(n)) for n in range(2)]
        answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        if not any(isinstance(answer, errors.DeadlineExceeded) for answer in answers):
            break
    assert [said(answer) for answer in answers] == ["0", "1"]
    assert instance.reasons == ["deadline"]


async def test_a_callers_deadline_leaves_time_to_run():
    instance = FakeInstance(0.2)
    batcher = make(BatchPolicy(8, max_queue_delay_s=0.01), instance)
    await ask(batcher, "learn")
    batcher.policy = BatchPolicy(8, max_queue_delay_s=20)
    clock = Clock()
    wanted_until = clock.monotonic() + 0.4
    await asyncio.wait_for(ask(batcher, "hurry", deadline=wanted_until), 5)
    assert clock.monotonic() < wanted_until + 0.1
    assert instance.reasons[1:] == ["deadline"]


async def test_another_shape_that_waits_ends_the_wait_for_company():
    instance = FakeInstance(0.001)
    batcher = make(BatchPolicy(8, max_queue_delay_s=0.5), instance)
    started = Clock().monotonic()
    first, second = ask(batcher, "a", key="a"), ask(batcher, "b", key="b")
    await asyncio.wait_for(first, 5)
    assert Clock().monotonic() - started < 0.3
    await second
    assert instance.reasons == ["other_shape", "delay"]


async def test_a_request_whose_time_was_over_before_it_came_is_never_sent():
    instance = FakeInstance()
    batcher = make(BatchPolicy(8), instance)
    with pytest.raises(errors.DeadlineExceeded):
        await ask(batcher, "late", deadline=Clock().monotonic() - 1)
    assert (instance.ran, batcher.pending) == ([], 0)
