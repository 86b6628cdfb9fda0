import os
import socket
import time

import cv2
import numpy
import pytest

CAMERA = "edge_agent.vision_host.camera"


@pytest.fixture
def camera(start_child):
    return start_child(CAMERA)


@pytest.fixture
def clip(data_dir):
    return os.path.join(data_dir, "demo-clip.mp4")


@pytest.fixture
def short_clip(tmp_path):
    """Five frames of rising grey at 20 fps."""
    path = str(tmp_path / "short.avi")
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 20, (64, 48))
    for step in range(5):
        writer.write(numpy.full((48, 64, 3), 40 * step + 20, numpy.uint8))
    writer.release()
    return path


def fill(child, table, newer_than=0, wait_ms=5000, offset=0):
    size = table["width"] * table["height"] * 12
    fields = {"segment": 1, "offset": offset, "nbytes": size, "preprocess": table}
    return child.call("fill", dict(fields, newer_than=newer_than, wait_ms=wait_ms))


def encode(child, sequence, nbytes=1000000, **more):
    return child.call("encode", dict(more, sequence=sequence, segment=1, offset=1000000, nbytes=nbytes))


def test_a_file_opens_and_its_frames_come_at_its_pace(camera, clip, target):
    assert camera.call("open", {"source": clip})["ok"]
    opened = camera.event("opened")
    assert (opened["width"], opened["height"], opened["fps"]) == (640, 480, 10.0)
    started, sequence = time.monotonic(), 0
    for _ in range(6):
        reply = fill(camera, target(width=320, height=240), sequence)
        assert reply["ok"]
        assert reply["sequence"] > sequence
        sequence = reply["sequence"]
    assert time.monotonic() - started >= 0.4
    assert reply["scale_x"] == reply["scale_y"] == 0.5
    assert time.clock_gettime(time.CLOCK_MONOTONIC) - reply["captured_ns"] / 1e9 < 2
    filled = numpy.frombuffer(camera.bytes[: 320 * 240 * 12], numpy.float32)
    assert filled.std() > 5


def test_frames_that_nobody_asked_for_are_skipped_and_counted(camera, clip, target):
    camera.call("open", {"source": clip})
    first = fill(camera, target())
    later = fill(camera, target(), first["sequence"] + 3)
    assert later["sequence"] >= first["sequence"] + 4
    assert later["skipped"] == later["sequence"] - first["sequence"] - 1


def test_a_file_starts_again_at_its_end_and_numbers_go_on(camera, short_clip, target):
    camera.call("open", {"source": short_clip})
    assert fill(camera, target(), 12)["sequence"] >= 13


def test_a_file_that_does_not_loop_ends(camera, short_clip):
    camera.call("open", {"source": short_clip, "loop": False})
    closed = camera.event("closed")
    assert closed["code"] == "camera.ended"
    assert camera.call("status", {})["sequence"] == 5
    assert camera.call("open", {"source": short_clip})["ok"]


def test_no_frame_in_time_is_an_answer_not_a_hang(camera, target):
    reply = fill(camera, target(), wait_ms=50)
    assert reply["error"]["code"] == "camera.no_frame"


def test_ping_is_answered_while_fill_waits(camera, clip, target):
    camera.call("open", {"source": clip})
    sequence = fill(camera, target())["sequence"]
    fields = {"segment": 1, "offset": 0, "nbytes": 64 * 48 * 12, "preprocess": target()}
    before = camera._calls
    from edge_agent.engine_host import wire

    wire.send_control(camera.sock, dict(fields, op="fill", id=before + 1, newer_than=sequence + 10, wait_ms=20000))
    wire.send_control(camera.sock, {"op": "ping", "id": before + 2})
    answers = []
    while len(answers) < 2:
        message = camera._receive(20)
        if "event" not in message:
            answers.append(message["id"])
    assert answers == [before + 2, before + 1]


@pytest.mark.parametrize("source", ["csi://0", "gst:videotestsrc ! appsink", "push"])
def test_sources_of_later_versions_are_refused(camera, source):
    reply = camera.call("open", {"source": source})
    assert reply["error"]["code"] == "camera.unsupported"


def test_what_cannot_be_opened_says_why(camera, tmp_path):
    text = tmp_path / "letter.mp4"
    text.write_text("Dear reader, this is no video. " * 20)
    for source, words in ((str(tmp_path / "none.mp4"), "no file"), (str(text), "cannot open"), ("/dev/video63", "device")):
        assert camera.call("open", {"source": source})["ok"]
        closed = camera.event("closed")
        assert closed["code"] == "camera.unreachable"
        assert words in closed["text"]


def test_a_server_that_is_not_there_is_unreachable_at_once(camera):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        for scheme in ("rtsp", "http"):
            camera.call("open", {"source": "%s://127.0.0.1:%d/stream" % (scheme, port), "username": "u", "password": "geheim"})
            closed = camera.event("closed")
            assert closed["code"] == "camera.unreachable"
            assert "no connection" in closed["text"]
            assert "geheim" not in closed["text"]
    assert "geheim" not in camera.printed()


def test_the_frame_that_was_filled_can_be_had_as_jpeg_later(camera, clip, target):
    camera.call("open", {"source": clip})
    table = target(width=640, height=480, color="BGR")
    first = fill(camera, table)
    pixels = numpy.frombuffer(camera.bytes[: 640 * 480 * 12], numpy.float32).reshape(3, 480, 640).transpose(1, 2, 0)
    fill(camera, table, first["sequence"], offset=6000000)
    reply = encode(camera, first["sequence"], quality=95)
    assert (reply["width"], reply["height"]) == (640, 480)
    jpeg = cv2.imdecode(numpy.frombuffer(camera.bytes[1000000 : 1000000 + reply["nbytes"]], numpy.uint8), cv2.IMREAD_COLOR)
    assert abs(jpeg.astype(float) - pixels).mean() < 12


def test_boxes_are_drawn_on_the_picture_but_not_on_the_kept_frame(camera, clip, target):
    camera.call("open", {"source": clip})
    sequence = fill(camera, target())["sequence"]
    plain = encode(camera, sequence)
    before = camera.bytes[1000000 : 1000000 + plain["nbytes"]]
    boxes = [
        {"label": "cat", "score": 0.9, "box": [100.0, 100.0, 300.0, 300.0]},
        {"label": "\u732b", "score": 0.5, "box": [-50.0, -10.0, 9999.0, 20.0]},
        {"label": "whole picture", "score": 0.5, "box": None},
    ]
    drawn = encode(camera, sequence, boxes=boxes)
    first = cv2.imdecode(numpy.frombuffer(before, numpy.uint8), cv2.IMREAD_COLOR).astype(int)
    data = numpy.frombuffer(camera.bytes[1000000 : 1000000 + drawn["nbytes"]], numpy.uint8)
    second = cv2.imdecode(data, cv2.IMREAD_COLOR).astype(int)
    changed = abs(first - second).max(axis=2)
    assert changed[150:250, 98:103].mean() > 20
    assert changed[150:250, 150:250].mean() < 5
    again = encode(camera, sequence)
    assert camera.bytes[1000000 : 1000000 + again["nbytes"]] == before


def test_frames_that_are_gone_and_slots_that_are_small_are_refused(camera, clip, target):
    camera.call("open", {"source": clip})
    sequence = fill(camera, target())["sequence"]
    small = encode(camera, sequence, nbytes=100)
    assert small["error"]["code"] == "image.no_room"
    assert small["error"]["detail"]["need"] > 100
    assert encode(camera, sequence, nbytes=small["error"]["detail"]["need"])["ok"]
    assert camera.call("drop", {"sequence": sequence})["ok"]
    assert encode(camera, sequence)["error"]["code"] == "camera.frame_gone"
    assert encode(camera, 0)["ok"]


def test_signs_of_life_come_with_the_first_frame_and_go_on(camera, clip):
    camera.call("open", {"source": clip, "alive_every_ms": 200, "sequence": 5000})
    camera.event("opened")
    first = camera.event("alive")
    assert (first["sequence"], first["changes"]) == (5001, 0)
    deadline = time.monotonic() + 20
    while camera.event("alive")["sequence"] < 5004:
        assert time.monotonic() < deadline
    assert camera.event("alive")["fps_in"] == pytest.approx(10, abs=3)


def test_one_source_at_a_time(camera, clip):
    camera.call("open", {"source": clip})
    camera.event("opened")
    assert camera.call("open", {"source": clip})["error"]["code"] == "child.busy"
