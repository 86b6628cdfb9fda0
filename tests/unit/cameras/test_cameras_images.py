"""The image child with real and hostile pictures."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import zlib
from pathlib import Path
from typing import AsyncIterator

import numpy
import pytest

from edge_agent.cameras.images import ImageChild
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import Preprocess
from edge_agent.errors import DeadlineExceeded, Draining, InvalidRequest, PayloadTooLarge, QueueFull
from edge_agent.processes.arena import Arena

DATA = Path(__file__).parents[2] / "data"
INPUT = Preprocess(160, 120, scale=1 / 255)
ASTRONAUT = (DATA / "astronaut.jpg").read_bytes()


def png_header(width: int, height: int) -> bytes:
    data = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + data + struct.pack(">I", zlib.crc32(data))


@pytest.fixture
async def images(arena: Arena) -> AsyncIterator[ImageChild]:
    child = ImageChild(arena, Clock())
    yield child
    await child.stop()


async def works(images: ImageChild, data: bytes = ASTRONAUT) -> None:
    lease, frame = await images.prepare(data, INPUT, 20.0)
    pixels = numpy.frombuffer(lease.view(), numpy.float32)
    lease.release()
    assert pixels.size == 3 * 160 * 120
    assert 0.05 < pixels.std() < 0.5
    assert frame.geometry.width == 512


async def test_a_picture_is_prepared_and_only_its_pixels_stay_leased(images: ImageChild, arena: Arena) -> None:
    lease, frame = await images.prepare(memoryview(ASTRONAUT), INPUT, 20.0)
    assert (frame.geometry.width, frame.geometry.height) == (512, 512)
    assert frame.geometry.scale_x == frame.geometry.scale_y == 120 / 512
    assert frame.geometry.pad_x == 20
    assert frame.decode_us > 0
    assert arena.status()["slots"] == 1
    assert lease.segment == images.segment.number
    lease.release()


async def test_the_child_starts_with_its_first_use(images: ImageChild) -> None:
    assert images.pid == 0
    await works(images)
    assert images.pid != 0


async def test_nothing_is_started_for_an_empty_picture(images: ImageChild) -> None:
    with pytest.raises(InvalidRequest, match="empty") as caught:
        await images.prepare(b"", INPUT, 20.0)
    assert caught.value.args_by_name["refusal"] == "image.empty"
    assert images.pid == 0


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"Not a picture but a text called holiday.jpg", "image.not_a_picture"),
        (ASTRONAUT[:30000], "image.truncated"),
        (png_header(20000, 20000), "image.too_large"),
    ],
)
async def test_hostile_pictures_are_refused_and_the_next_good_one_works(
    images: ImageChild, arena: Arena, data: bytes, refusal: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await images.prepare(data, INPUT, 20.0)
    assert caught.value.args_by_name["refusal"] == refusal
    assert arena.status()["slots"] == 0
    await works(images)
    assert images.restarts == 0


async def test_many_at_once_are_each_answered_with_their_own(images: ImageChild) -> None:
    sizes = {"astronaut.jpg": 512, "coffee.jpg": 600, "chelsea.jpg": 451}

    async def one(name: str) -> None:
        lease, frame = await images.prepare((DATA / name).read_bytes(), INPUT, 20.0)
        lease.release()
        assert frame.geometry.width == sizes[name]

    await asyncio.gather(*(one(name) for name in list(sizes) * 10))


async def test_too_many_at_once_are_refused_and_counted(images: ImageChild) -> None:
    answers = await asyncio.gather(*(images.prepare(ASTRONAUT, INPUT, 20.0) for _ in range(80)), return_exceptions=True)
    good = [answer for answer in answers if isinstance(answer, tuple)]
    for lease, _ in good:
        lease.release()
    assert all(isinstance(answer, (tuple, QueueFull)) for answer in answers)
    assert images.refused == 80 - len(good) == 14


async def test_requests_in_a_child_that_dies_are_tried_again(images: ImageChild) -> None:
    await works(images)
    os.kill(images.pid, signal.SIGSTOP)
    waiting = [asyncio.ensure_future(works(images)) for _ in range(4)]
    await asyncio.sleep(0.05)
    os.kill(images.pid, signal.SIGKILL)
    await asyncio.gather(*waiting)
    assert images.restarts == 1


async def test_a_picture_that_ends_the_decoder_twice_is_the_callers_fault(images: ImageChild, arena: Arena) -> None:
    await works(images)
    first = images.pid
    os.kill(first, signal.SIGSTOP)
    waiting = asyncio.ensure_future(images.prepare(ASTRONAUT, INPUT, 20.0))
    await asyncio.sleep(0.05)
    os.kill(first, signal.SIGKILL)
    while images.pid in (0, first):  # noqa: ASYNC110 (a slower look would come after the answer)
        await asyncio.sleep(0)
    os.kill(images.pid, signal.SIGKILL)
    with pytest.raises(InvalidRequest, match="ended the decoder"):
        await waiting
    assert arena.status()["slots"] == 0
    await works(images)


async def test_who_does_not_wait_long_enough_gets_an_error_and_the_slots_come_back(images: ImageChild, arena: Arena) -> None:
    await works(images)
    os.kill(images.pid, signal.SIGSTOP)
    with pytest.raises(DeadlineExceeded):
        await images.prepare(ASTRONAUT, INPUT, 0.1)
    assert arena.status()["slots"] == 2
    os.kill(images.pid, signal.SIGCONT)
    await works(images)
    assert arena.status()["slots"] == 0


async def test_a_decoder_that_hangs_is_killed(images: ImageChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_agent.cameras.images._DECODE_S", 0.3)
    await works(images)
    os.kill(images.pid, signal.SIGSTOP)
    with pytest.raises(InvalidRequest, match="hangs the decoder"):
        await images.prepare(ASTRONAUT, INPUT, 20.0)
    await works(images)
    assert images.restarts == 1


async def test_a_picture_larger_than_tensor_memory_is_refused(images: ImageChild) -> None:
    with pytest.raises(PayloadTooLarge):
        await images.prepare(bytes(65 << 20), INPUT, 20.0)


async def test_the_limit_of_pixels_can_be_set(arena: Arena) -> None:
    images = ImageChild(arena, Clock(), max_pixels=1000)
    with pytest.raises(InvalidRequest, match="megapixels"):
        await images.prepare(ASTRONAUT, INPUT, 20.0)
    await images.stop()


async def test_after_stop_nothing_is_started_again(images: ImageChild) -> None:
    await works(images)
    await images.stop()
    await images.stop()
    with pytest.raises(Draining):
        await images.prepare(ASTRONAUT, INPUT, 20.0)
    assert images.pid == 0
