from __future__ import annotations

import asyncio
import time

from edge_agent.telemetry.loop_lag import LoopLag


async def _until_measured(lag: LoopLag, measures: int) -> None:
    deadline = time.monotonic() + 10
    while len(lag._lags_s) < measures and time.monotonic() < deadline:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    assert len(lag._lags_s) >= measures


async def test_a_blocked_loop_shows() -> None:
    lag = LoopLag(interval_s=0.01)
    await lag.start()
    await _until_measured(lag, 3)
    time.sleep(0.15)  # noqa: ASYNC251 - the loop is blocked on purpose
    await _until_measured(lag, 5)
    await lag.stop()
    assert lag.max_ms > 100
    assert lag.p99_ms > 100
    assert lag.p50_ms < 100


async def test_only_the_latest_are_kept() -> None:
    lag = LoopLag(interval_s=0.001, kept=5)
    await lag.start()
    await _until_measured(lag, 5)
    await asyncio.sleep(0.02)
    await lag.stop()
    assert len(lag._lags_s) == 5


async def test_stop_may_come_twice_or_before_start() -> None:
    lag = LoopLag()
    await lag.stop()
    await lag.start()
    await lag.stop()
    await lag.stop()
    assert (lag.p50_ms, lag.p99_ms, lag.max_ms) == (0.0, 0.0, 0.0)
