from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Callable

from edge_agent.device.sampler import DeviceSampler
from edge_agent.device.sysfs import DeviceReader


async def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 (a thread has no event of the loop)
        await asyncio.sleep(0.01)
    return condition()


async def test_values_come_soon_and_follow_the_board(orin_nano: Path) -> None:
    sampler = DeviceSampler(DeviceReader(orin_nano), interval_s=0.01)
    assert sampler.values == {}
    await sampler.start()
    assert await until(lambda: sampler.values.get("gpu_load") == 0.873)
    (orin_nano / "sys/class/devfreq/17000000.gpu/device/load").write_text("100\n")
    assert await until(lambda: sampler.values["gpu_load"] == 0.1)
    await sampler.stop()
    assert await until(lambda: not any(thread.name == "device" for thread in threading.enumerate()))


async def test_a_sensor_that_hangs_holds_up_neither_the_start_nor_the_stop(orin_nano: Path) -> None:
    """B062: a board's statistics may stall."""
    zone = next((orin_nano / "sys/class/thermal").glob("thermal_zone*")) / "temp"
    zone.unlink()
    os.mkfifo(str(zone))  # opening it for reading waits for a writer
    sampler = DeviceSampler(DeviceReader(orin_nano))
    began = time.monotonic()
    await sampler.start()
    await sampler.stop()
    assert time.monotonic() - began < 1
    assert sampler.values == {}
    zone.write_text("40000\n")  # lets the thread go
    assert await until(lambda: not any(thread.name == "device" for thread in threading.enumerate()))


async def test_it_stops_twice_and_before_it_started(orin_nano: Path) -> None:
    sampler = DeviceSampler(DeviceReader(orin_nano))
    await sampler.stop()
    await sampler.start()
    await sampler.stop()
    await sampler.stop()
    assert await until(lambda: not any(thread.name == "device" for thread in threading.enumerate()))
