"""The batcher under load: what was promised is kept when many come at once."""

from __future__ import annotations

import asyncio
import collections
import logging
import random

import pytest

from edge_agent import errors
from edge_agent.batching.policy import BatchPolicy, QueuePolicy
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from tests.doubles.batching import ask, make, said
from tests.doubles.instance import FakeInstance

CLOCK = Clock()
_log = logging.getLogger(__name__)  # figures, shown by `pytest -rP`


def share(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


class Stalls:
    """How long this machine kept the loop from running: what nobody on the loop can be blamed for."""

    def __init__(self):
        self.longest = 0.0

    async def __aenter__(self):
        self._task = asyncio.ensure_future(self._watch())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()

    async def _watch(self):
        while True:
            due = CLOCK.monotonic() + 0.002
            await asyncio.sleep(0.002)
            self.longest = max(self.longest, CLOCK.monotonic() - due)


async def timed(batcher, name):
    started = CLOCK.monotonic()
    await ask(batcher, name)
    return CLOCK.monotonic() - started


# -- departed callers -------------------------------------------------------------------------------------------------


async def test_clients_that_give_up_and_try_again_do_not_make_the_instance_work_for_nobody():
    """B008: triton-inference-server/server#6920, #4618, #7532; aio-libs/aiohttp#7135, #6719."""
    instance = FakeInstance(0.06)
    sent_for_nobody = []
    instance.on_send = lambda batch: sent_for_nobody.extend(item for item in batch.items if item.ended)
    batcher = make(BatchPolicy(8), instance)
    for _ in range(5):
        impatient = [ask(batcher, "impatient") for _ in range(200)]
        await asyncio.sleep(0.02)
        for task in impatient:
            task.cancel()
    patient = [ask(batcher, "patient%d" % n) for n in range(8)]
    answers = await asyncio.wait_for(asyncio.gather(*patient), 10)
    assert [said(answer) for answer in answers] == ["patient%d" % n for n in range(8)]
    await asyncio.wait_for(batcher.drain(), 5)
    assert sent_for_nobody == []
    assert sum(instance.rows) <= 8 + 8 * 8  # of a thousand and eight
    assert batcher.pending == batcher.in_flight == 0


# -- deadlines --------------------------------------------------------------------------------------------------------


async def test_timeouts_are_exact_while_the_instance_is_busy_and_nothing_expired_is_sent():
    """triton-inference-server/server#7512."""
    instance = FakeInstance(0.3)
    expired_when_sent = []

    def look(batch):
        now = CLOCK.monotonic()
        expired_when_sent.extend(item for item in batch.items if item.deadline is not None and item.deadline < now - 0.001)

    instance.on_send = look
    policy = QueuePolicy(timeout_us=60_000_000, allow_override=True)
    batcher = make(BatchPolicy(8, default_queue_policy=policy), instance)
    late_by = []

    async def one(timeout_s):
        due = CLOCK.monotonic() + timeout_s
        try:
            await batcher.submit(InferRequest("m", (), timeout_us=int(timeout_s * 1e6)), 1, "k")
        except errors.DeadlineExceeded:
            late_by.append(CLOCK.monotonic() - due)

    chance = random.Random(3)
    async with Stalls() as stalls:
        await asyncio.wait_for(asyncio.gather(*(one(chance.uniform(0.01, 0.5)) for _ in range(300))), 20)
    assert len(late_by) > 200
    _log.warning("late by: median %.1f ms, most %.1f ms", share(late_by, 0.5) * 1e3, max(late_by) * 1e3)
    assert min(late_by) > -0.002
    assert max(late_by) < 0.02 + 2 * stalls.longest
    assert expired_when_sent == []


async def learned(instance, batcher):
    """The batcher expects 5 ms of a batch; from now on one takes 0.8 s."""
    for number in range(5):
        await ask(batcher, "learn%d" % number)
    instance.fixed_s = 0.8


async def test_a_timeout_is_kept_when_the_running_batch_takes_longer_than_usual():
    """triton-inference-server/server#7512: what was handed over ahead could not be taken back."""
    instance = FakeInstance(0.005)
    policy = QueuePolicy(timeout_us=60_000_000, allow_override=True)
    batcher = make(BatchPolicy(1, default_queue_policy=policy), instance)
    await learned(instance, batcher)
    running = ask(batcher, "running")
    await asyncio.sleep(0.05)
    due = CLOCK.monotonic() + 0.1
    with pytest.raises(errors.DeadlineExceeded):
        await batcher.submit(InferRequest("m", (), id="impatient", timeout_us=100_000), 1, "k")
    assert CLOCK.monotonic() - due < 0.4
    await running
    await batcher.drain()
    assert ["impatient"] not in instance.ran


async def test_a_higher_priority_overtakes_when_the_running_batch_takes_longer_than_usual():
    instance = FakeInstance(0.005)
    batcher = make(BatchPolicy(1, priority_levels=2, default_priority_level=2), instance)
    await learned(instance, batcher)
    running = ask(batcher, "running")
    await asyncio.sleep(0.05)
    low = ask(batcher, "low")
    await asyncio.sleep(0.05)
    high = asyncio.ensure_future(batcher.submit(InferRequest("m", (), id="high", priority=1), 1, "k"))
    instance.fixed_s = 0.005
    await asyncio.gather(running, low, high)
    assert [ids[0] for ids in instance.ran[-3:]] == ["running", "high", "low"]


# -- delay and sizes (B010) -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delay_s", "reason"), [(0.0, "idle"), (0.02, "delay")])
async def test_one_client_alone_waits_for_no_more_than_the_delay(delay_s, reason):
    """B010 (a): triton-inference-server/server#3116, #7776, #4667."""
    instance = FakeInstance(0.005, 0.001)
    batcher = make(BatchPolicy(8, max_queue_delay_s=delay_s), instance)
    async with Stalls() as stalls:
        took = [await timed(batcher, str(n)) for n in range(20)]
    assert share(took, 0.5) < delay_s + 0.006 + 0.003 + stalls.longest
    assert set(instance.reasons) == {reason}


async def test_a_steady_stream_is_joined_and_nobody_waits_for_long():
    """B010 (d): triton-inference-server/server#3116, #7776, #4667."""
    instance = FakeInstance(0.005, 0.001)
    batcher = make(BatchPolicy(8, max_queue_delay_s=0.02), instance)
    chance, tasks = random.Random(2), []
    at = CLOCK.monotonic()
    async with Stalls() as stalls:
        for number in range(300):
            at += chance.expovariate(200)
            await asyncio.sleep(max(0.0, at - CLOCK.monotonic()))
            tasks.append(asyncio.ensure_future(timed(batcher, str(number))))
        took = await asyncio.gather(*tasks)
    _log.warning("mean batch %.1f, p99 %.1f ms", 300 / len(instance.rows), share(took, 0.99) * 1e3)
    assert 300 / len(instance.rows) > 1.5
    assert share(took, 0.99) < 0.02 + 2 * 0.013 + 0.02 + 4 * stalls.longest
    assert set(instance.reasons) <= {"full", "delay"}


# -- soak -------------------------------------------------------------------------------------------------------------


async def clean_load(batcher, instances):
    """Requests that nothing happens to; the batches that they took."""
    before = sum(len(instance.ran) for instance in instances)
    names = ["clean%d" % n for n in range(150)]
    answers = await asyncio.wait_for(asyncio.gather(*(ask(batcher, name) for name in names)), 20)
    assert [said(answer) for answer in answers] == names
    return sum(len(instance.ran) for instance in instances) - before


class Troubles:
    """Ten thousand requests: some leave, expire, do not fit, fail; hosts die."""

    def __init__(self, batcher, instances):
        self.batcher = batcher
        self.instances = instances
        self.chance = random.Random(9)
        self.ends = collections.Counter()

    async def run(self, number):
        chance = self.chance
        rows = 9 if chance.random() < 0.05 else chance.randint(1, 8)
        fields = {"timeout_us": 2000} if chance.random() < 0.1 else {}
        priority, key = chance.randint(0, 4), chance.choice("aaab")
        task = ask(self.batcher, str(number), rows, key, priority=priority, **fields)
        if chance.random() < 0.1:
            asyncio.get_running_loop().call_later(chance.random() * 0.01, task.cancel)
        try:
            answer = await task
        except asyncio.CancelledError:
            self.ends["left"] += 1
        except errors.EdgeAgentError as error:
            self.ends[type(error).__name__] += 1
        else:
            assert said(answer) == str(number)
            self.ends["answered"] += 1

    async def worker(self, numbers):
        for number in numbers:
            await self.run(number)
            if self.chance.random() < 0.05:
                await asyncio.sleep(self.chance.random() * 0.005)
            if self.chance.random() < 0.001:
                self.instances[number % len(self.instances)].die()
                self.instances[number % len(self.instances)].come_back()
                self.batcher.room()


ENDS = {"answered", "left", "DeadlineExceeded", "TensorMismatch", "ExecutionError", "HostDied", "QueueFull"}


async def test_after_ten_thousand_requests_with_troubles_nothing_is_left_and_batches_are_as_full_as_before():
    """B009: triton-inference-server/server#8870."""
    instances = [FakeInstance(0.0005, 0.0001), FakeInstance(0.0005, 0.0001)]
    for instance in instances:
        instance.fails = lambda name: name.isdigit() and int(name) % 100 == 99
    low = QueuePolicy(30, 50_000, True, True)
    policy = BatchPolicy(8, (4,), 0.001, 4096, QueuePolicy(200, 10_000_000, True), 3, 2, {3: low})
    batcher = make(policy, *instances)
    before = await clean_load(batcher, instances)
    troubles = Troubles(batcher, instances)
    numbers = iter(range(10_000))
    await asyncio.wait_for(asyncio.gather(*(troubles.worker(numbers) for _ in range(120))), 50)
    await asyncio.wait_for(batcher.drain(), 5)
    _log.warning("ends: %s", dict(troubles.ends))
    assert sum(troubles.ends.values()) == 10_000
    assert set(troubles.ends) <= ENDS
    assert min(troubles.ends[end] for end in ENDS - {"HostDied", "QueueFull"}) > 40
    assert_empty(batcher, instances)
    assert await clean_load(batcher, instances) <= before * 1.2 + 2
    assert_empty(batcher, instances)


def assert_empty(batcher, instances):
    assert batcher.idle
    assert (batcher.pending, batcher.in_flight) == (0, 0)
    assert [batcher.queue.waiting_at(level) for level in (1, 2, 3)] == [0, 0, 0]
    assert batcher.queue.next_deadline() is None
    assert all(not instance.held and instance.up for instance in instances)
