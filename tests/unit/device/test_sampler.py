from __future__ import annotations

import asyncio
import time
from pathlib import Path

from edge_agent.device.sampler import DeviceSampler
from edge_agent.device.sysfs import DeviceReader


async def test_values_are_there_after_start_and_follow_the_board(orin_nano: Path) -> None:
    sampler = DeviceSampler(DeviceReader(orin_nano), interval_s=0.01)
    assert sampler.values == {}
    await sampler.start()
    assert sampler.values["gpu_load"] == 0.873
    (orin_nano / "sys/class/devfreq/17000000.gpu/device/load").write_text("100\n")
    deadline = time.monotonic() + 10
    while sampler.values["gpu_load"] != 0.1 and time.monotonic() < deadline:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    await sampler.stop()
    assert sampler.values["gpu_load"] == 0.1


async def test_it_stops_twice_and_before_it_started(orin_nano: Path) -> None:
    sampler = DeviceSampler(DeviceReader(orin_nano))
    await sampler.stop()
    await sampler.start()
    await sampler.stop()
    await sampler.stop()
