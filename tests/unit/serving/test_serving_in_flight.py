from __future__ import annotations

import asyncio

from edge_agent.serving.in_flight import InFlight


async def test_the_end_of_the_last_request_is_waited_for():
    flight = InFlight()
    assert await flight.ended(0)
    flight.enter()
    flight.enter()
    flight.leave()
    assert not await flight.ended(0.01)
    waiting = asyncio.ensure_future(flight.ended(20))
    await asyncio.sleep(0)
    assert not waiting.done()
    flight.leave()
    assert await waiting
