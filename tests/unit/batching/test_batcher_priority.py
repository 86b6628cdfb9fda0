from __future__ import annotations

import asyncio
import random

import pytest

from edge_agent import errors
from edge_agent.batching.policy import BatchPolicy, QueuePolicy
from edge_agent.domain.clock import Clock
from tests.doubles.batching import ask, make, said
from tests.doubles.instance import FakeInstance


def levels(size=1, count=3, **options):
    return BatchPolicy(size, priority_levels=count, default_priority_level=2, **options)


async def busy(batcher, instance, rows=1):
    """A batch runs: whatever comes now waits, for nobody knows yet how long one takes."""
    tasks = [ask(batcher, "busy", rows)]
    await asyncio.sleep(0)
    assert len(instance.held) == 1
    return tasks


def order(instance):
    return [name for ids in instance.ran for name in ids if not name.startswith("busy")]


async def answers_of(tasks):
    return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)


async def test_a_higher_priority_is_served_first_whenever_it_came():
    instance = FakeInstance(0.02)
    batcher = make(levels(), instance)
    tasks = await busy(batcher, instance)
    asked = [("low", 3), ("default", 0), ("high", 1), ("middle", 2), ("out of range", 9), ("high again", 1)]
    tasks += [ask(batcher, name, priority=priority) for name, priority in asked]
    await answers_of(tasks)
    assert order(instance) == ["high", "high again", "default", "middle", "out of range", "low"]


async def test_without_levels_the_priority_of_a_request_means_nothing():
    instance = FakeInstance(0.02)
    batcher = make(BatchPolicy(1), instance)
    tasks = await busy(batcher, instance)
    tasks += [ask(batcher, name, priority=priority) for name, priority in [("first", 7), ("second", 1)]]
    await answers_of(tasks)
    assert order(instance) == ["first", "second"]


async def test_levels_share_a_batch_highest_first():
    instance = FakeInstance(0.02)
    batcher = make(levels(4), instance)
    tasks = await busy(batcher, instance, rows=4)
    tasks += [ask(batcher, "%d%s" % (level, name), priority=level) for name in "ab" for level in (3, 2, 1)]
    await answers_of(tasks)
    assert instance.ran[1:] == [["1a", "1b", "2a", "2b"], ["3a", "3b"]]


async def test_company_is_waited_for_as_long_as_the_oldest_of_any_level_may_wait():
    instance = FakeInstance(0.001)
    batcher = make(levels(8, max_queue_delay_s=1.0), instance)
    started = Clock().monotonic()
    tasks = [ask(batcher, "old and low", priority=3)]
    await asyncio.sleep(0.6)
    tasks.append(ask(batcher, "new and high", priority=1))
    await answers_of(tasks)
    assert 0.99 < Clock().monotonic() - started < 1.4
    assert instance.ran == [["new and high", "old and low"]]
    assert instance.reasons == ["delay"]


async def test_no_request_is_ever_sent_before_one_of_a_higher_priority():
    chance = random.Random(11)
    instances = [FakeInstance(0.001, 0.0002), FakeInstance(0.001, 0.0002)]
    batcher = make(levels(8, 4, max_queue_delay_s=0.002), *instances)
    batches = []

    def look(batch):
        waiting = [p.level for line in batcher.queue._lines.values() for p in line if not p.ended]
        batches.append((max(item.level for item in batch.items), min(waiting, default=9)))
        assert not any(item.ended for item in batch.items)

    for instance in instances:
        instance.on_send = look
    tasks = []
    for number in range(1500):
        priority, rows, key = chance.randint(0, 5), chance.randint(1, 8), chance.choice("aaab")
        tasks.append(ask(batcher, str(number), rows, key, priority=priority))
        if chance.random() < 0.1:
            chance.choice(tasks).cancel()
        if chance.random() < 0.05:
            await asyncio.sleep(0.004)
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    assert [pair for pair in batches if pair[0] > pair[1]] == []
    assert len(batches) > 100
    assert batcher.idle


async def test_each_level_has_its_own_bound():
    instance = FakeInstance(0.03)
    policies = {1: QueuePolicy(1), 3: QueuePolicy(2)}
    batcher = make(levels(default_queue_policy=QueuePolicy(3), queue_policies=policies), instance)
    tasks = await busy(batcher, instance)
    asked = [ask(batcher, "%d" % level, priority=level) for level in (1, 2, 3) for _ in range(5)]
    answers = await answers_of(asked)
    full = [sum(isinstance(answer, errors.QueueFull) for answer in answers[at : at + 5]) for at in (0, 5, 10)]
    assert full == [4, 2, 3]
    assert batcher.queue.refused == 9
    await answers_of(tasks)


async def test_a_caller_that_leaves_frees_its_place_in_the_bound():
    """B008: triton-inference-server/server#6920, #4618, #7532."""
    instance = FakeInstance(0.05)
    batcher = make(BatchPolicy(1, default_queue_policy=QueuePolicy(3)), instance)
    tasks = await busy(batcher, instance)
    for _ in range(10):
        full = [ask(batcher, "leaves") for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(errors.QueueFull):
            await ask(batcher, "refused")
        for task in full:
            task.cancel()
        await asyncio.gather(*full, return_exceptions=True)
        assert batcher.pending == 0
    await answers_of(tasks)
    assert order(instance) == []


# -- waiting too long -------------------------------------------------------------------------------------------------


async def test_reject_answers_at_the_timeout_of_its_level():
    instance = FakeInstance(0.3)
    policies = {1: QueuePolicy(timeout_us=50_000)}
    batcher = make(levels(queue_policies=policies), instance)
    tasks = await busy(batcher, instance)
    short, patient = ask(batcher, "short", priority=1), ask(batcher, "patient", priority=2)
    with pytest.raises(errors.DeadlineExceeded, match="Request timeout expired"):
        await asyncio.wait_for(short, 5)
    assert not tasks[0].done()
    assert said(await asyncio.wait_for(patient, 5)) == "patient"
    await answers_of(tasks)
    assert order(instance) == ["patient"]


@pytest.mark.parametrize(("override", "ends"), [(True, True), (False, False)])
async def test_a_requests_own_timeout_counts_where_it_is_allowed_to(override, ends):
    instance = FakeInstance(0.1)
    policy = QueuePolicy(timeout_us=5_000_000, allow_override=override)
    batcher = make(BatchPolicy(1, default_queue_policy=policy), instance)
    tasks = await busy(batcher, instance)
    answers = await answers_of([ask(batcher, "asked", timeout_us=20_000)])
    assert isinstance(answers[0], errors.DeadlineExceeded) is ends
    await answers_of(tasks)


async def test_delay_serves_a_late_request_after_all_others_of_its_level_and_before_the_next_level():
    instance = FakeInstance(0.05)
    policy = QueuePolicy(timeout_us=10_000_000, allow_override=True, delays=True)
    batcher = make(levels(default_queue_policy=policy), instance)
    tasks = await busy(batcher, instance)
    tasks += [ask(batcher, "late", priority=1, timeout_us=5_000), ask(batcher, "a", priority=1)]
    tasks += [ask(batcher, "low", priority=2)]
    await asyncio.sleep(0.03)
    tasks += [ask(batcher, "b", priority=1), ask(batcher, "c", priority=1)]
    answers = await answers_of(tasks)
    assert order(instance) == ["a", "b", "c", "late", "low"]
    assert not any(isinstance(answer, Exception) for answer in answers)


async def test_a_callers_own_deadline_ends_a_request_that_was_only_delayed_by_its_timeout():
    instance = FakeInstance(0.2)
    policy = QueuePolicy(timeout_us=10_000, delays=True)
    batcher = make(BatchPolicy(1, default_queue_policy=policy), instance)
    tasks = await busy(batcher, instance)
    with pytest.raises(errors.DeadlineExceeded):
        await asyncio.wait_for(ask(batcher, "gone", deadline=Clock().monotonic() + 0.05), 5)
    assert not tasks[0].done()
    await answers_of(tasks)
    assert order(instance) == []
