"""Who listens hears each event, on the loop, whichever thread it came from."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

from edge_agent.domain.clock import Clock
from edge_agent.store.store import Store, StoreOptions


async def test_each_event_is_told_on_the_loop_as_its_row_will_say_it(db_path: Path, until: Callable[..., Any]) -> None:
    heard: List[Dict[str, Any]] = []
    threads: List[int] = []

    def hear(event: Dict[str, Any]) -> None:
        heard.append(event)
        threads.append(threading.get_ident())

    store = Store(StoreOptions(db_path, "box"), Clock(), hear)
    await store.start()
    store.event("camera.down", "gate\0", code="camera.unreachable", args={"host": "h", "n": float("nan")}, text="gone")
    await asyncio.get_running_loop().run_in_executor(None, store.event, "store.ok")  # as the writer thread does
    await until(lambda: len(heard) == 2)
    assert set(threads) == {threading.get_ident()}
    first = heard[0]
    assert first.pop("at").endswith("Z")
    assert first == {
        "kind": "camera.down",
        "subject": "gate\ufffd",
        "actor": "self",
        "code": "camera.unreachable",
        "args": {"host": "h", "n": None},
        "text": "gone",
        "detail": {},
    }
    await store.stop()
