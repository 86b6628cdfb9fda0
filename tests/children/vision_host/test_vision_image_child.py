import os

import numpy
import pytest

IMAGE = "edge_agent.vision_host.image"
TARGET_AT = 8 * 1024 * 1024


def prepare(child, data, table, **changes):
    child.bytes[: len(data)] = data
    size = table["width"] * table["height"] * 12
    fields = {
        "segment": 1,
        "offset": 0,
        "nbytes": len(data),
        "target": {"offset": TARGET_AT, "nbytes": size, "preprocess": table},
    }
    fields.update(changes)
    return child.call("prepare", fields)


@pytest.fixture
def astronaut(data_dir):
    with open(os.path.join(data_dir, "astronaut.jpg"), "rb") as file:
        return file.read()


def test_a_picture_lies_prepared_in_its_slot(start_child, astronaut, target):
    child = start_child(IMAGE)
    reply = prepare(child, astronaut, target(width=128, height=64))
    assert reply["ok"]
    assert (reply["width"], reply["height"]) == (512, 512)
    assert (reply["scale_x"], reply["scale_y"], reply["pad_x"], reply["pad_y"]) == (0.125, 0.125, 32.0, 0.0)
    assert reply["decode_us"] > 0
    filled = numpy.frombuffer(child.bytes[TARGET_AT : TARGET_AT + 128 * 64 * 12], numpy.float32).reshape(3, 64, 128)
    assert (filled[:, :, :32] == 114).all()
    assert filled[:, :, 32:96].std() > 30


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "image.empty"),
        (b"this is a text called .jpg", "image.not_a_picture"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0N \0\0N \x08\x02\0\0\0", "image.too_large"),
    ],
)
def test_a_hostile_picture_is_refused_and_the_next_good_one_works(start_child, astronaut, target, data, code):
    child = start_child(IMAGE)
    reply = prepare(child, data, target())
    assert reply["error"]["code"] == code
    assert prepare(child, astronaut, target())["ok"]


def test_a_truncated_jpeg_is_refused_and_its_slot_is_left_alone(start_child, astronaut, target):
    child = start_child(IMAGE)
    assert prepare(child, astronaut[: len(astronaut) // 2], target())["error"]["code"] == "image.truncated"
    assert set(child.bytes[TARGET_AT : TARGET_AT + 1000]) == {0}


def test_the_limit_of_pixels_is_the_callers(start_child, astronaut, target):
    child = start_child(IMAGE)
    assert prepare(child, astronaut, target(), max_pixels=512 * 512 - 1)["error"]["code"] == "image.too_large"
    assert prepare(child, astronaut, target(), max_pixels=512 * 512)["ok"]


def test_a_slot_that_is_too_small_or_elsewhere_is_refused(start_child, astronaut, target):
    child = start_child(IMAGE)
    small = {"offset": TARGET_AT, "nbytes": 100, "preprocess": target()}
    reply = prepare(child, astronaut, target(), target=small)
    assert (reply["error"]["code"], reply["error"]["detail"]["need"]) == ("image.no_room", 64 * 48 * 12)
    assert not prepare(child, astronaut, target(), segment=2)["ok"]
    assert prepare(child, astronaut, target())["ok"]


def test_a_table_that_means_nothing_is_the_callers_fault(start_child, astronaut, target):
    child = start_child(IMAGE)
    assert prepare(child, astronaut, target(resize="squash"))["error"]["code"] == "request.invalid"
