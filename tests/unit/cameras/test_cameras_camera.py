"""Cameras with real children and real sources."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from pathlib import Path
from typing import Any, List

import cv2
import numpy
import pytest

from edge_agent.domain.frames import Preprocess
from edge_agent.domain.results import Detection
from edge_agent.domain.status import State
from edge_agent.errors import InvalidRequest, SourceUnavailable
from edge_agent.processes.arena import Arena


async def test_a_looping_file_gives_frames_at_its_pace(run_camera: Any, clip: str) -> None:
    async with run_camera(clip) as watched:
        assert watched.camera.status().code == "camera.opening"
        sequence, times = 0, []
        for _ in range(8):
            frame = await watched.frame(sequence)
            assert frame.sequence > sequence
            assert (frame.geometry.width, frame.geometry.height, frame.geometry.scale_x) == (640, 480, 0.1)
            assert time.monotonic_ns() - frame.captured_ns < 1e9
            sequence = frame.sequence
            times.append(frame.captured_ns)
        assert (times[-1] - times[0]) / 7e9 == pytest.approx(0.1, abs=0.05)
        assert watched.codes == [""]
        assert watched.camera.status().state is State.OK
        assert watched.camera.frame_age_s < 1


async def test_the_pixels_are_those_of_the_clip(run_camera: Any, clip: str, arena: Arena) -> None:
    async with run_camera(clip) as watched:
        preprocess = Preprocess(640, 480, color="BGR", layout="NHWC", datatype="UINT8")
        (lease,) = await arena.acquire([(watched.camera.segment, preprocess.nbytes)], 1.0)
        await watched.camera.fill(lease, preprocess, 0, 10.0)
        seen = numpy.frombuffer(lease.view(), numpy.uint8).reshape(480, 640, 3).astype(int)
        lease.release()
        capture = cv2.VideoCapture(clip)
        first = capture.read()[1].astype(int)
        capture.release()
        assert abs(seen - first).mean() < 3


async def test_counts_of_frames_rise_by_themselves(run_camera: Any, clip: str, until: Any) -> None:
    async with run_camera(clip) as watched:
        await until(lambda: watched.camera.frames >= 15)
        assert watched.camera.fps_in == pytest.approx(10, abs=2)
        first = await watched.frame()
        await watched.frame(first.sequence + 4)
        assert watched.camera.skipped >= 4


async def test_a_snapshot_shows_the_frame_that_was_inferred(run_camera: Any, clip: str) -> None:
    async with run_camera(clip) as watched:
        frame = await watched.frame()
        boxes = [Detection("person", 0.9, (100.0, 100.0, 200.0, 200.0)), Detection("indoors", 0.8)]
        plain = await watched.camera.encode(frame.sequence)
        drawn = await watched.camera.encode(frame.sequence, boxes)
        assert plain == await watched.camera.encode(frame.sequence)
        assert drawn != plain
        assert cv2.imdecode(numpy.frombuffer(drawn, numpy.uint8), cv2.IMREAD_COLOR).shape == (480, 640, 3)
        assert await watched.camera.encode(0)
        watched.camera.drop(frame.sequence)
        await asyncio.sleep(0)
        with pytest.raises(SourceUnavailable, match="not kept"):
            await watched.camera.encode(frame.sequence)


async def test_a_snapshot_larger_than_its_slot_gets_a_larger_one(run_camera: Any, clip: str) -> None:
    async with run_camera(clip) as watched:
        frame = await watched.frame()
        watched.camera._jpeg._nbytes = 4096
        assert len(await watched.camera.encode(frame.sequence, quality=95)) > 4096


async def test_a_slot_too_small_is_the_callers_fault(run_camera: Any, clip: str, arena: Arena) -> None:
    async with run_camera(clip) as watched:
        (lease,) = await arena.acquire([(watched.camera.segment, 100)], 1.0)
        with pytest.raises(InvalidRequest, match="takes 36864 bytes"):
            await watched.camera.fill(lease, Preprocess(64, 48), 0, 10.0)
        lease.release()


async def test_a_file_that_does_not_loop_ends_and_is_off(run_camera: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "short.avi")
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    for step in range(4):
        writer.write(numpy.full((48, 64, 3), 60 * step, numpy.uint8))
    writer.release()
    async with run_camera(path, loop=False) as watched:
        await watched.code("camera.ended")
        assert watched.camera.status().state is State.OFF
        assert watched.codes == ["", "camera.ended"]
        with pytest.raises(SourceUnavailable, match="at its end"):
            await watched.frame(0, 0.1)


async def test_a_source_of_a_later_version_says_so_and_is_not_tried_again(run_camera: Any) -> None:
    async with run_camera("csi://0") as watched:
        await watched.code("camera.unsupported")
        assert watched.camera.status().state is State.FAILED
        assert "csi" in watched.camera.status().args["text"]


async def test_a_child_killed_comes_back_and_numbers_of_frames_go_on_rising(run_camera: Any, clip: str) -> None:
    async with run_camera(clip) as watched:
        before = await watched.frame()
        started = time.monotonic()
        watched.kill_child()
        with pytest.raises(SourceUnavailable):
            await watched.frame(before.sequence + 1000, 20.0)
        assert time.monotonic() - started < 3
        after = await watched.frame_sooner_or_later(before.sequence)
        assert after.sequence > before.sequence
        assert time.monotonic() - started < 5
        assert watched.codes == ["", "camera.child_died", ""]
        assert watched.camera.restarts == 1


async def test_who_waits_for_a_snapshot_of_a_child_that_dies_is_told(run_camera: Any, clip: str) -> None:
    async with run_camera(clip) as watched:
        frame = await watched.frame()
        watched.kill_child(signal.SIGSTOP)
        waiting = asyncio.ensure_future(watched.camera.encode(frame.sequence))
        await asyncio.sleep(0.05)
        watched.kill_child()
        with pytest.raises(SourceUnavailable):
            await waiting


async def test_a_stopped_child_is_killed_and_comes_back(run_camera: Any, clip: str) -> None:
    async with run_camera(clip, stale_after_s=1.0) as watched:
        before = await watched.frame()
        watched.kill_child(signal.SIGSTOP)
        await watched.code("camera.stalled")
        await watched.frame_sooner_or_later(before.sequence)
        assert watched.codes == ["", "camera.stalled", ""]


async def test_a_slot_stays_taken_until_the_child_answers_even_if_the_caller_leaves(
    run_camera: Any, clip: str, arena: Arena, until: Any
) -> None:
    async with run_camera(clip) as watched:
        await watched.frame()
        watched.kill_child(signal.SIGSTOP)
        (lease,) = await arena.acquire([(watched.camera.segment, 36864)], 1.0)
        waiting = asyncio.ensure_future(watched.camera.fill(lease, Preprocess(64, 48), 0, 0.0))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        lease.release()
        assert arena.status()["slots"] == 1
        watched.kill_child(signal.SIGCONT)
        await until(lambda: arena.status()["slots"] == 0)


async def test_mjpeg_server_killed_and_started_again(run_camera: Any, mjpeg_server: Any) -> None:
    server = mjpeg_server()
    async with run_camera("http://127.0.0.1:%d/stream.mjpeg" % server.port) as watched:
        before = await watched.frame()
        assert (before.geometry.width, before.geometry.height) == (600, 400)
        server.kill()
        await watched.code("camera.unreachable")
        with pytest.raises(SourceUnavailable):
            await watched.frame(0, 0.2)
        await asyncio.sleep(1.5)
        assert watched.codes == ["", "camera.unreachable"]
        server.start()
        await watched.frame_sooner_or_later(before.sequence)
        assert watched.codes == ["", "camera.unreachable", ""]
        assert watched.camera.restarts == 0


async def test_mjpeg_server_stopped_is_stalled_and_comes_back_after_it_goes_on(run_camera: Any, mjpeg_server: Any) -> None:
    server = mjpeg_server()
    async with run_camera("http://127.0.0.1:%d/stream.mjpeg" % server.port, stale_after_s=1.5) as watched:
        before = await watched.frame()
        server.signal(signal.SIGSTOP)
        assert await watched.code("camera.stalled") < 4
        server.signal(signal.SIGCONT)
        after = await watched.frame_sooner_or_later(before.sequence)
        assert watched.codes[0] == ""
        assert watched.codes[-1] == ""
        assert time.monotonic_ns() - after.captured_ns < 2e9


async def test_a_frozen_picture_is_noticed_and_stays_noticed_until_it_changes(
    run_camera: Any, mjpeg_server: Any, until: Any
) -> None:
    server = mjpeg_server("--frozen")
    async with run_camera("http://127.0.0.1:%d/stream.mjpeg" % server.port, frozen_after_s=1.0) as watched:
        await watched.code("camera.frozen")
        await until(lambda: watched.camera.restarts >= 2)
        assert watched.codes == ["", "camera.frozen"]
        assert watched.camera.status().state is State.FAILED


async def test_a_wrong_password_is_told_and_a_corrected_one_works_at_once(
    run_camera: Any, mjpeg_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = mjpeg_server("--user", "us er", "--password", "p@s/:%w")
    password: List[str] = ["geheim"]
    source = "http://127.0.0.1:%d/stream.mjpeg" % server.port
    async with run_camera(source, username="us er", read_password=lambda: password[0]) as watched:
        await watched.code("camera.wrong_password")
        password[0] = "p@s/:%w"
        assert await watched.code("") < 10
        assert watched.codes == ["camera.wrong_password", ""]
        assert "geheim" not in caplog.text
        assert "p@s" not in caplog.text
        command = Path("/proc/%d/cmdline" % watched.camera.pid)
        assert b"p@s" not in command.read_bytes()  # noqa: ASYNC240


async def test_a_path_the_server_does_not_have_is_unreachable_in_words(run_camera: Any, mjpeg_server: Any) -> None:
    server = mjpeg_server()
    async with run_camera("http://127.0.0.1:%d/elsewhere" % server.port) as watched:
        await watched.code("camera.unreachable")
        assert "404" in watched.camera.status().args["text"]


async def test_rtsp_gives_frames_and_survives_the_death_of_its_server(run_camera: Any, rtsp_server: Any) -> None:
    server = rtsp_server()
    async with run_camera("rtsp://127.0.0.1:%d/stream" % server.port) as watched:
        before = await watched.frame(0, 20.0)
        assert (before.geometry.width, before.geometry.height) == (640, 480)
        server.kill()
        assert await watched.code("camera.unreachable") < 5
        server.start()
        await watched.frame_sooner_or_later(before.sequence)
        assert watched.codes == ["", "camera.unreachable", ""]


async def test_rtsp_server_stopped_is_stalled_and_comes_back_after_it_goes_on(run_camera: Any, rtsp_server: Any) -> None:
    server = rtsp_server()
    async with run_camera("rtsp://127.0.0.1:%d/stream" % server.port, stale_after_s=4.0) as watched:
        before = await watched.frame(0, 20.0)
        server.signal(signal.SIGSTOP)
        assert await watched.code("camera.stalled") < 6
        server.signal(signal.SIGCONT)
        await watched.frame_sooner_or_later(before.sequence)
        assert watched.codes[-1] == ""


async def test_rtsp_over_udp_gives_frames(run_camera: Any, rtsp_server: Any) -> None:
    server = rtsp_server()
    async with run_camera("rtsp://127.0.0.1:%d/stream" % server.port, transport="udp") as watched:
        first = await watched.frame(0, 20.0)
        later = await watched.frame(first.sequence + 3, 20.0)
        assert later.sequence > first.sequence + 3
        assert later.captured_ns > first.captured_ns
        assert watched.codes == [""]


async def test_rtsp_with_a_password_opens_and_without_it_says_so(run_camera: Any, rtsp_server: Any) -> None:
    server = rtsp_server("us er", "p@s/:%w")
    source = "rtsp://127.0.0.1:%d/stream" % server.port
    async with run_camera(source, username="us er", password="p@s/:%w", transport="auto") as watched:
        await watched.frame(0, 20.0)
    async with run_camera(source, username="us er", password="other") as watched:
        await watched.code("camera.wrong_password")
    async with run_camera(source) as watched:
        await watched.code("camera.wrong_password")
        assert "wants a password" in watched.camera.status().args["text"]


async def test_stop_leaves_no_process_and_can_be_called_twice(run_camera: Any, clip: str, arena: Arena) -> None:
    async with run_camera(clip) as watched:
        await watched.frame()
        pid = watched.camera.pid
        await watched.camera.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        await watched.camera.stop()
        with pytest.raises(SourceUnavailable):
            await watched.camera.encode(0)
    assert arena.status()["segments"] == 0


async def test_secrets_of_the_address_are_in_nothing_that_is_said_of_the_camera(run_camera: Any) -> None:
    async with run_camera("http://127.0.0.1:1/video?user=a&pwd=hunter2") as watched:
        await watched.code("camera.unreachable")
        with pytest.raises(SourceUnavailable) as caught:
            await watched.frame(0, 0.1)
        assert watched.camera.status().args["source"] == "http://127.0.0.1:1/video?user=a&pwd=***"
        assert "hunter2" not in str(watched.camera.status()) + str(caught.value)
