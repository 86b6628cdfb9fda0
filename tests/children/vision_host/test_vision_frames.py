import threading
import time

import numpy

from edge_agent.vision_host.frames import KEPT, Frames


def picture(value):
    return numpy.full((120, 160, 3), value, numpy.uint8)


def filled_with(*values):
    frames = Frames()
    frames.begin(0)
    for value in values:
        frames.put(picture(value))
    return frames


def test_only_the_newest_frame_is_there():
    frames = filled_with(1, 2, 3)
    newest = frames.newer(0, 0)
    assert (newest.sequence, int(newest.picture[0, 0, 0])) == (3, 3)
    assert frames.newer(3, 0) is None


def test_waiting_ends_with_the_next_frame():
    frames = filled_with(1)
    threading.Timer(0.05, frames.put, [picture(2)]).start()
    assert frames.newer(1, 10).sequence == 2


def test_waiting_ends_when_the_source_ends():
    frames = filled_with(1)
    threading.Timer(0.05, frames.end).start()
    started = time.monotonic()
    assert frames.newer(1, 10) is None
    assert time.monotonic() - started < 5


def test_the_last_picture_of_a_source_that_ended_is_not_given_out_as_new():
    frames = filled_with(1)
    frames.end()
    assert frames.newer(0, 0) is None
    assert frames.kept(0) is None


def test_numbers_go_on_after_the_source_was_opened_again_and_never_fall():
    frames = filled_with(1, 2)
    frames.begin(0)
    frames.put(picture(3))
    assert frames.newer(2, 0).sequence == 3
    frames.begin(1000)
    frames.put(picture(4))
    assert frames.newer(3, 0).sequence == 1001


def test_few_frames_are_kept_and_the_oldest_goes_first():
    frames = filled_with()
    for value in range(KEPT + 2):
        frames.put(picture(value))
        frames.keep(frames.newer(0, 0))
    assert [number for number in range(1, KEPT + 3) if frames.kept(number)] == list(range(3, KEPT + 3))
    frames.drop(4)
    assert frames.kept(4) is None
    assert frames.kept(0).sequence == KEPT + 2


def test_frames_that_nobody_took_are_counted_as_skipped():
    frames = filled_with(1, 2, 3)
    assert frames.keep(frames.newer(0, 0)) == 0
    frames.put(picture(4))
    assert frames.keep(frames.newer(0, 0)) == 0
    for value in (5, 6, 7):
        frames.put(picture(value))
    assert frames.keep(frames.newer(0, 0)) == 2


def test_the_same_picture_again_is_no_change():
    frames = filled_with(1, 1, 1)
    signs = frames.signs()
    assert (signs["sequence"], signs["changes"]) == (3, 0)
    assert signs["changing_ns"] < signs["frame_ns"]
    frames.put(picture(2))
    signs = frames.signs()
    assert signs["changes"] == 1
    assert signs["changing_ns"] == signs["frame_ns"]


def test_a_small_moving_thing_is_a_change():
    still, moved = picture(9), picture(9)
    moved[50:60, 80:84] = 200
    frames = filled_with()
    frames.put(still)
    frames.put(moved)
    assert frames.signs()["changes"] == 1


def test_signs_before_the_first_frame_say_so():
    assert filled_with().signs() == {"sequence": 0, "frame_ns": 0, "changing_ns": 0, "changes": 0, "fps_in": 0.0}
