"""Builds one after another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, List, Optional

import pytest

from edge_agent.config.model_config import ModelConfig
from edge_agent.domain.clock import Clock
from edge_agent.domain.gpu import GpuFacts
from edge_agent.engines.plans.key import PlanKey, PlanRecipe, PlanTarget
from edge_agent.serving.healing.job import Job
from edge_agent.serving.healing.queue import BuildQueue
from edge_agent.serving.repository import VersionEntry
from edge_agent.serving.version import ServedVersion

TARGET = PlanTarget.of(GpuFacts())


def key(model: str) -> PlanKey:
    return PlanKey(model, TARGET, PlanRecipe("fp16"))


def version(name: str = "m") -> ServedVersion:
    return ServedVersion(name, VersionEntry(1, "tensorrt_plan", Path("model.onnx")), ModelConfig(), Clock())


class Worker:
    """Does jobs when it is let."""

    def __init__(self) -> None:
        self.began: List[str] = []
        self.ended: List[str] = []
        self.cancelled: List[str] = []
        self.broke: List[str] = []
        self.answers: List[Any] = []
        self.may_end = asyncio.Event()

    async def work(self, job: Job) -> Optional[float]:
        name = job.key.model
        self.began.append(name)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        self.ended.append(name)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def broken(self, job: Job, error: BaseException) -> None:
        self.broke.append("%s: %s" % (job.key.model, error))


async def until(what: Any) -> None:
    for _ in range(1000):
        if what():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to be")


@pytest.fixture
async def worker() -> Worker:
    return Worker()


@pytest.fixture
async def queue(worker: Worker) -> Any:
    made = BuildQueue(worker.work, worker.broken, Clock())
    yield made
    await made.stop()


async def test_jobs_are_done_in_the_order_of_the_wishes_one_at_a_time(queue: BuildQueue, worker: Worker) -> None:
    for name in ("a", "b", "c"):
        queue.want(version(name), key(name), "fp16")
    await until(lambda: worker.began)
    assert worker.began == ["a"]
    worker.may_end.set()
    await until(lambda: not queue.jobs())
    assert worker.ended == ["a", "b", "c"]


async def test_equal_wishes_are_one_job(queue: BuildQueue, worker: Worker) -> None:
    first = queue.want(version("a"), key("same"), "fp16")
    second = queue.want(version("b"), key("same"), "fp16")
    assert first is second
    assert first is not None
    assert first.labels() == ["a/1", "b/1"]


async def test_a_job_that_nobody_wants_any_more_ends_also_while_it_runs(queue: BuildQueue, worker: Worker) -> None:
    one, other = version("a"), version("b")
    queue.want(one, key("same"), "fp16")
    queue.want(other, key("same"), "fp16")
    await until(lambda: worker.began)
    queue.leave(one)
    await asyncio.sleep(0)
    assert worker.cancelled == []
    queue.leave(other)
    await until(lambda: worker.cancelled)
    assert queue.jobs() == []


async def test_a_wish_for_another_plan_leaves_the_first(queue: BuildQueue, worker: Worker) -> None:
    one = version()
    queue.want(one, key("a"), "fp16")
    await until(lambda: worker.began)
    queue.want(one, key("b"), "fp16")
    await until(lambda: worker.began == ["a", "b"])
    assert worker.cancelled == ["a"]


async def test_a_job_that_is_being_swapped_in_is_not_ended_by_the_version_that_goes_for_it(
    queue: BuildQueue, worker: Worker
) -> None:
    one = version()
    job = queue.want(one, key("a"), "fp16")
    assert job is not None
    await until(lambda: worker.began)
    job.ending = True
    queue.leave(one)
    worker.may_end.set()
    await until(lambda: worker.ended)
    assert worker.cancelled == []


async def test_a_job_comes_again_after_its_pause_and_others_go_first(queue: BuildQueue, worker: Worker) -> None:
    worker.answers = [0.2]
    worker.may_end.set()
    queue.want(version("a"), key("a"), "fp16")
    queue.want(version("b"), key("b"), "fp16")
    await until(lambda: worker.ended == ["a", "b", "a"])
    assert queue.jobs() == []


async def test_a_job_that_breaks_does_not_end_the_others(queue: BuildQueue, worker: Worker) -> None:
    worker.answers = [ValueError("broken")]
    worker.may_end.set()
    queue.want(version("a"), key("a"), "fp16")
    queue.want(version("b"), key("b"), "fp16")
    await until(lambda: worker.ended == ["a", "b"])
    await until(lambda: not queue.jobs())
    assert worker.broke == ["a: broken"]


async def begun(queue: BuildQueue, worker: Worker) -> Job:
    """A job that builds."""
    job = queue.want(version(), key("a"), "fp16")
    assert job is not None
    await until(lambda: worker.began)
    job.status.state, job.status.phase = "building", "build"
    return job


async def leaves(queue: BuildQueue, worker: Worker, job: Job) -> None:
    queue.leave(job.first)


async def stops(queue: BuildQueue, worker: Worker, job: Job) -> None:
    await queue.stop()


async def breaks(queue: BuildQueue, worker: Worker, job: Job) -> None:
    worker.answers = [ValueError("broken")]
    worker.may_end.set()


async def ends(queue: BuildQueue, worker: Worker, job: Job) -> None:
    worker.may_end.set()


@pytest.mark.parametrize("end", [leaves, stops, breaks, ends])
async def test_in_whatever_way_a_job_ends_its_status_does_not_say_that_it_goes_on(
    queue: BuildQueue, worker: Worker, end: Any
) -> None:
    job = await begun(queue, worker)
    await end(queue, worker, job)
    await until(lambda: not queue.jobs())
    assert (job.status.state, job.status.phase) == ("failed", "")
    assert job.status.reason


async def test_a_job_that_waits_its_turn_says_when_nobody_wants_it_any_more(queue: BuildQueue, worker: Worker) -> None:
    await begun(queue, worker)
    other = version("b")
    job = queue.want(other, key("b"), "fp16")
    assert job is not None
    assert job.status.state == "queued"
    queue.leave(other)
    assert job.status.state == "failed"


async def test_what_a_job_said_at_its_end_stays(queue: BuildQueue, worker: Worker) -> None:
    job = await begun(queue, worker)
    job.status.state, job.status.reason = "done", ""
    worker.may_end.set()
    await until(lambda: not queue.jobs())
    assert (job.status.state, job.status.reason) == ("done", "")


async def test_nothing_is_begun_after_the_end(queue: BuildQueue, worker: Worker) -> None:
    queue.want(version("a"), key("a"), "fp16")
    await until(lambda: worker.began)
    await queue.stop()
    assert worker.cancelled == ["a"]
    assert queue.want(version("b"), key("b"), "fp16") is None
    assert queue.refused == 1
    await queue.stop()
