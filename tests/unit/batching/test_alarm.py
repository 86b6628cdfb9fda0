from __future__ import annotations

import asyncio

from edge_agent.batching.alarm import Alarm
from edge_agent.domain.clock import Clock

CLOCK = Clock()


async def test_it_goes_off_once_at_the_moment_that_was_set_last():
    rung = asyncio.Event()
    times = []
    alarm = Alarm(CLOCK, lambda: (times.append(CLOCK.monotonic()), rung.set()))
    start = CLOCK.monotonic()
    for at in (start + 30, start + 0.01, start + 0.06, start + 0.06):
        alarm.set(at)
    await asyncio.wait_for(rung.wait(), 5)
    await asyncio.sleep(0.02)
    assert len(times) == 1
    assert times[0] - start > 0.05


async def test_it_does_not_go_off_when_it_is_taken_back():
    times = []
    alarm = Alarm(CLOCK, lambda: times.append(1))
    for never in (None, float("inf")):
        alarm.set(CLOCK.monotonic() + 0.01)
        alarm.set(never)
        await asyncio.sleep(0.03)
    assert times == []


async def test_it_can_be_set_from_its_own_ring_for_the_same_moment():
    rung = asyncio.Event()
    at = CLOCK.monotonic() + 0.01
    times = []

    def ring():
        times.append(1)
        if len(times) < 2:
            alarm.set(at)
        else:
            rung.set()

    alarm = Alarm(CLOCK, ring)
    alarm.set(at)
    await asyncio.wait_for(rung.wait(), 5)
    assert len(times) == 2
