from __future__ import annotations

import asyncio
from typing import List

import pytest

from edge_agent.domain.clock import Clock
from edge_agent.engines.patience import Patience

WARM, OTHER = (((4,),), 1), (((4,),), 8)


class Watched:
    def __init__(self, batch_s: float = 0.05, load_s: float = 0.3) -> None:
        self.hangs: List[str] = []
        self.busy: List[float] = []
        self.patience = Patience("m/1", Clock(), batch_s, load_s, self.hangs.append, self.busy.append)
        self.patience.forget(WARM)

    async def until_hang(self, within_s: float = 3.0) -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not self.hangs:
            assert loop.time() - started < within_s
            await asyncio.sleep(0.005)
        return loop.time() - started


@pytest.fixture
async def watched():
    watched = Watched()
    yield watched
    watched.patience.stop()


async def test_the_first_batch_of_a_shape_has_as_long_as_a_load_unless_the_warm_up_ran_it(watched):
    patience = watched.patience
    assert [patience.budget_s(shape) for shape in (WARM, OTHER)] == [0.05, 0.3]
    patience.ran(OTHER)
    assert patience.budget_s(OTHER) == 0.05
    patience.forget(WARM)
    assert patience.budget_s(OTHER) == 0.3


async def test_shapes_without_end_do_not_fill_the_memory(watched):
    for width in range(10_000):
        watched.patience.ran((((width,),), 1))
    assert len(watched.patience._run) <= 256


async def test_a_batch_over_its_budget_is_a_hang_and_is_told_once(watched):
    watched.patience.begin(0.05)
    assert 0.04 < await watched.until_hang() < 1
    assert watched.hangs == ["a batch of m/1 ran for more than 0.05 s"]
    await asyncio.sleep(0.12)
    assert len(watched.hangs) == 1


async def test_each_batch_that_begins_has_its_whole_budget(watched):
    for _ in range(8):
        watched.patience.begin(0.05)
        await asyncio.sleep(0.02)
    assert watched.hangs == []
    watched.patience.begin(None)
    await asyncio.sleep(0.12)
    assert watched.hangs == []


async def test_a_long_budget_after_a_short_one_is_kept(watched):
    watched.patience.begin(0.05)
    watched.patience.begin(0.3)
    assert 0.25 < await watched.until_hang() < 1.5


async def test_the_host_may_be_silent_as_long_as_the_batch_may_run(watched):
    before = Clock().monotonic()
    watched.patience.begin(5.0)
    watched.patience.begin(None)
    assert watched.busy[0] - before == pytest.approx(5.0, abs=0.5)
    assert watched.busy[1] == 0.0


async def test_nothing_hangs_after_the_end(watched):
    watched.patience.begin(0.02)
    watched.patience.stop()
    await asyncio.sleep(0.06)
    assert watched.hangs == []


async def test_a_batch_that_waits_for_another_model_goes_on_with_what_was_left(watched):
    watched.patience.begin(0.2)
    watched.patience.pause()
    watched.patience.pause()
    assert watched.busy[-1] == 0.0
    await asyncio.sleep(0.4)
    assert watched.hangs == []
    watched.patience.resume()
    watched.patience.resume()
    assert watched.busy[-1] > 0.0
    assert 0.1 < await watched.until_hang() < 1.0
    assert watched.hangs[0] == "a batch of m/1 ran for more than 0.2 s"


async def test_the_pause_of_one_batch_is_not_the_next_ones(watched):
    watched.patience.begin(10.0)
    watched.patience.pause()
    watched.patience.begin(0.1)
    watched.patience.resume()
    assert await watched.until_hang() < 1.0


async def test_without_a_warm_up_every_first_shape_has_as_long_as_a_load(watched):
    watched.patience.forget(None)
    assert watched.patience.budget_s(WARM) == 0.3
