from __future__ import annotations

import asyncio
import random

import pytest

from edge_agent import errors
from edge_agent.batching.policy import BatchPolicy, QueuePolicy
from edge_agent.domain.clock import Clock
from edge_agent.engines.batch import Outcome, Ran
from edge_agent.processes.arena import Arena
from tests.doubles.batching import ask, make, said
from tests.doubles.instance import FakeInstance


def ordered(size=1, **options):
    return BatchPolicy(size, preserve_ordering=True, **options)


def noting(ended, number, task):
    task.add_done_callback(lambda _task: ended.append(number))
    return task


async def test_answers_leave_as_they_come_unless_their_order_is_to_be_kept():
    ended = []
    batcher = make(BatchPolicy(1), FakeInstance(0.1), FakeInstance(0.01))
    await asyncio.gather(*(noting(ended, n, ask(batcher, str(n))) for n in range(2)))
    assert ended == [1, 0]


async def test_a_fast_instance_waits_for_the_answer_of_a_slow_one():
    ended = []
    slow, fast = FakeInstance(0.03), FakeInstance(0.001)
    batcher = make(ordered(), slow, fast)
    answers = await asyncio.gather(*(noting(ended, n, ask(batcher, str(n))) for n in range(20)))
    assert ended == list(range(20))
    assert [said(answer) for answer in answers] == [str(n) for n in range(20)]
    assert slow.ran
    assert fast.ran
    assert answers[1].timing.total_us > 20_000  # the wait for its turn is not hidden


async def test_shapes_that_were_passed_over_are_answered_in_their_turn():
    ended = []
    batcher = make(ordered(8, max_queue_delay_s=0.005), FakeInstance(0.002))
    await asyncio.gather(*(noting(ended, n, ask(batcher, str(n), key="abc"[n % 3])) for n in range(60)))
    assert ended == list(range(60))


async def test_a_request_that_is_tried_again_keeps_its_turn():
    ended = []
    dying, other = FakeInstance(5), FakeInstance(0.005)
    batcher = make(ordered(), dying, other)
    tasks = [noting(ended, n, ask(batcher, str(n))) for n in range(6)]
    await asyncio.sleep(0.1)
    assert ended == []
    dying.die()
    answers = await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert ended == list(range(6))
    assert [said(answer) for answer in answers] == list("012345")


async def test_failures_keep_their_turn_and_hold_up_nobody():
    ended = []
    slow, fast = FakeInstance(0.03), FakeInstance(0.001)
    slow.fails = fast.fails = lambda name: int(name) % 3 == 0
    batcher = make(ordered(), slow, fast)
    tasks = [noting(ended, n, ask(batcher, str(n))) for n in range(12)]
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert ended == list(range(12))
    assert [isinstance(answer, errors.ExecutionError) for answer in answers] == [n % 3 == 0 for n in range(12)]


async def test_a_request_that_ends_its_host_alone_fails_in_its_turn():
    ended = []
    slow, dying = FakeInstance(0.2), FakeInstance(5)
    batcher = make(ordered(), slow, dying)
    tasks = [noting(ended, n, ask(batcher, str(n))) for n in range(2)]
    for _ in range(2):
        await asyncio.sleep(0.01)
        assert [item[0].items[0].request.id for item in dying.held] == ["1"]
        dying.die()
        dying.come_back()
        batcher.room()
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert ended == [0, 1]
    assert said(answers[0]) == "0"
    assert isinstance(answers[1], errors.HostDied)


async def test_a_request_that_is_out_of_time_or_whose_caller_left_does_not_hold_up_the_others():
    slow = FakeInstance(0.2)
    batcher = make(ordered(), slow)
    first, second = ask(batcher, "0"), ask(batcher, "1")
    late, gone, last = ask(batcher, "2", deadline=Clock().monotonic() + 0.02), ask(batcher, "3"), ask(batcher, "4")
    await asyncio.sleep(0.01)
    gone.cancel()
    with pytest.raises(errors.DeadlineExceeded):
        await asyncio.wait_for(late, 5)
    assert not first.done()
    first.cancel()
    assert said(await asyncio.wait_for(second, 5)) == "1"
    assert said(await asyncio.wait_for(last, 5)) == "4"


async def test_an_answer_that_waits_for_its_turn_gives_back_what_it_holds_when_its_caller_leaves():
    arena = Arena(1 << 20)
    (lease,) = arena.try_acquire([(arena.segment("s"), 100)])
    slow, fast = FakeInstance(10), FakeInstance(10)
    batcher = make(ordered(), slow, fast)
    first, second = ask(batcher, "first"), ask(batcher, "second")
    await asyncio.sleep(0.01)
    batch, owner = fast.held.pop()
    batch.answers[0] = Outcome(kept=(lease,))
    owner.finished(batch, Ran(0, 0, 0))
    assert arena.status()["slots"] == 1
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert arena.status()["slots"] == 0
    first.cancel()
    slow.die()
    fast.die()
    arena.close()


async def test_the_order_holds_whatever_happens():
    chance = random.Random(5)
    instances = [FakeInstance(0.0005, 0.0004), FakeInstance(0.002, 0.0001), FakeInstance(0.004)]
    for instance in instances:
        instance.fails = lambda name: int(name) % 31 == 0
    batcher = make(ordered(8, max_queue_delay_s=0.001, default_queue_policy=QueuePolicy(10_000)), *instances)
    ended, tasks = [], []
    for number in range(1500):
        tasks.append(noting(ended, number, ask(batcher, str(number), chance.randint(1, 8), chance.choice("aab"))))
        if chance.random() < 0.05:
            chance.choice(tasks).cancel()
        if chance.random() < 0.01:
            victim = chance.choice(instances)
            victim.die()
            victim.come_back()
            batcher.room()
        if chance.random() < 0.1:
            await asyncio.sleep(0.002)
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    kept = [n for n in ended if not isinstance(answers[n], asyncio.CancelledError)]
    assert kept == sorted(kept)
    assert len(kept) > 1000
    assert all(said(answers[n]) == str(n) for n in kept if not isinstance(answers[n], Exception))
    assert (batcher.pending, batcher.in_flight, len(batcher._order)) == (0, 0, 0)
