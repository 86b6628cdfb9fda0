from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from edge_agent.domain.clock import Clock
from edge_agent.domain.results import Detection, RequestRecord, Result
from edge_agent.store.store import Store, StoreOptions


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def db_path(tmp_path):
    return tmp_path / "edge-agent.db"


@pytest.fixture
def make_result(clock):
    def make(**changes):
        face = Detection("face", 0.98765, (1.005, 2, 3, 4))
        captured = replace(clock.instant(), clock_synced=True)  # whatever this machine's clock follows
        result = Result("camera/dock", "face", "1", captured, 640, 480, (face,), {"queue": 5, "infer": 900}, 1200, "r-1")
        return replace(result, **changes)

    return make


@pytest.fixture
def make_record(clock):
    def make(**changes):
        record = RequestRecord("id-1", "face", "1", "http/door", clock.now(), 1000, 2, 10, 20, 40, "ok")
        return replace(record, **changes)

    return make


@pytest.fixture
async def open_store(db_path, clock):
    """Starts stores, and stops those that a test leaves running."""
    running = []

    async def start(**options):
        store = Store(StoreOptions(**{"path": db_path, "agent_id": "box", **options}), clock)
        running.append(store)
        await store.start()
        return store

    yield start
    for store in running:
        await store.stop()


@pytest.fixture
def until():
    """Polls a condition, which may be a coroutine function, until it holds."""

    async def wait(condition, limit_s=10.0):
        give_up = time.monotonic() + limit_s
        while True:
            held = condition()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return held
            assert time.monotonic() < give_up, "did not come true in time"
            await asyncio.sleep(0.01)

    return wait
