import itertools

import cv2
import numpy
import pytest

from edge_agent.vision_host import preprocess

SCALE, MEAN, STD = 1 / 255.0, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def picture_of(height, width, channels=3):
    random = numpy.random.RandomState(7)
    shape = (height, width, channels) if channels == 3 else (height, width)
    return random.randint(0, 256, shape).astype(numpy.uint8)


def fill(table, picture):
    """(array as the model sees it, geometry); fails when bytes beside the slot were touched."""
    target = preprocess.Target(table)
    guarded = bytearray(b"\xa5" * (target.nbytes + 128))
    geometry = target.write(picture, memoryview(guarded)[64 : 64 + target.nbytes])
    assert bytes(guarded[:64]) == bytes(guarded[-64:]) == b"\xa5" * 64
    flat = numpy.frombuffer(bytes(guarded[64:-64]), dtype=target.dtype)
    channels = 1 if table["color"] == "GRAY" else 3
    if table["layout"] == "NCHW":
        return flat.reshape(channels, table["height"], table["width"]).transpose(1, 2, 0), geometry
    return flat.reshape(table["height"], table["width"], channels), geometry


def by_hand(table, picture, geometry):
    """The same in plain float64, the whole canvas at once."""
    x, y, width, height = geometry.crop
    part = cv2.resize(picture[y : y + height, x : x + width], geometry.place[2:])
    canvas = numpy.full((table["height"], table["width"], 3), 114, numpy.uint8)
    left, top = geometry.place[:2]
    canvas[top : top + part.shape[0], left : left + part.shape[1]] = part
    if table["color"] == "RGB":
        canvas = canvas[:, :, ::-1]
    if table["color"] == "GRAY":
        canvas = cv2.cvtColor(canvas, cv2.COLOR_BGR2GRAY)[:, :, None]
    mean, std = (numpy.array(table[name][: canvas.shape[2]]) for name in ("mean", "std"))
    return (canvas.astype(numpy.float64) * table["scale"] - mean) / std


@pytest.mark.parametrize(
    ("layout", "resize", "color"),
    list(itertools.product(("NCHW", "NHWC"), ("letterbox", "stretch", "center_crop"), ("RGB", "BGR", "GRAY"))),
)
def test_values_are_those_of_the_formula(target, layout, resize, color):
    picture = picture_of(90, 160)
    for datatype, tolerance in (("FP32", 1e-6), ("FP16", 2e-3)):
        table = target(layout=layout, resize=resize, color=color, datatype=datatype, scale=SCALE, mean=MEAN, std=STD)
        filled, geometry = fill(table, picture)
        numpy.testing.assert_allclose(filled.astype(numpy.float64), by_hand(table, picture, geometry), atol=tolerance)


def test_uint8_without_numbers_is_the_picture_itself(target):
    picture = picture_of(48, 64)
    filled, _ = fill(target(datatype="UINT8", color="BGR", layout="NHWC"), picture)
    assert (filled == picture).all()


def test_uint8_is_rounded_and_cut_at_its_ends(target):
    picture = numpy.array([[[0, 100, 255]]], numpy.uint8)
    filled, _ = fill(target(width=1, height=1, datatype="UINT8", color="BGR", scale=1.5, mean=[10.0], std=[1.0]), picture)
    assert filled[0, 0].tolist() == [0, 140, 255]


def test_letterbox_puts_grey_around_and_keeps_the_ratio(target):
    filled, geometry = fill(target(width=64, height=64), numpy.zeros((30, 60, 3), numpy.uint8))
    assert geometry.as_json() == {
        "width": 60, "height": 30, "scale_x": 64 / 60.0, "scale_y": 32 / 30.0, "pad_x": 0.0, "pad_y": 16.0,
    }  # fmt: skip
    assert (filled[:16] == 114).all()
    assert (filled[48:] == 114).all()
    assert (filled[16:48] == 0).all()


def test_centre_crop_takes_the_middle(target):
    picture = numpy.zeros((100, 300, 3), numpy.uint8)
    picture[:, 100:200] = 200
    filled, geometry = fill(target(width=50, height=50, resize="center_crop"), picture)
    assert (filled == 200).all()
    assert (geometry.scale_x, geometry.pad_x) == (0.5, -50.0)


@pytest.mark.parametrize("resize", ["letterbox", "stretch", "center_crop"])
def test_a_mark_in_the_source_lies_where_the_geometry_says(target, resize):
    picture = numpy.zeros((240, 320, 3), numpy.uint8)
    cv2.rectangle(picture, (140, 100), (179, 139), (255, 255, 255), -1)
    filled, geometry = fill(target(width=200, height=100, resize=resize), picture)
    rows, columns = numpy.nonzero((filled[:, :, 0] > 127) & (filled[:, :, 1] != 114))
    assert (columns.min() - geometry.pad_x) / geometry.scale_x == pytest.approx(140, abs=3)
    assert (columns.max() + 1 - geometry.pad_x) / geometry.scale_x == pytest.approx(180, abs=3)
    assert (rows.min() - geometry.pad_y) / geometry.scale_y == pytest.approx(100, abs=3)
    assert (rows.max() + 1 - geometry.pad_y) / geometry.scale_y == pytest.approx(140, abs=3)


@pytest.mark.parametrize("resize", ["letterbox", "stretch", "center_crop"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("size", [(1, 1), (1, 2000), (2000, 1), (3, 5), (48, 64)])
def test_odd_sizes_fill_the_whole_slot(target, resize, layout, size):
    for color in ("RGB", "GRAY"):
        table = target(width=33, height=17, resize=resize, layout=layout, color=color)
        picture = numpy.full(size + (3,), 9, numpy.uint8)
        filled, _ = fill(table, picture)
        assert set(numpy.unique(filled)) <= {9.0, 114.0}


def test_a_grey_camera_feeds_a_colour_model_and_a_colour_camera_a_grey_one(target):
    grey = picture_of(48, 64, 1)
    filled, _ = fill(target(), grey)
    assert (filled == grey[:, :, None]).all()
    filled, _ = fill(target(color="GRAY"), grey)
    assert (filled[:, :, 0] == grey).all()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"width": 0}, "width"),
        ({"height": 100000}, "height"),
        ({"width": "auto"}, "width"),
        ({"resize": "squash"}, "resize"),
        ({"layout": "CHW"}, "layout"),
        ({"color": "YUV"}, "color"),
        ({"datatype": "INT8"}, "datatype"),
        ({"std": [0.0]}, "std"),
    ],
)
def test_a_table_that_means_nothing_is_refused_by_name(target, changes, word):
    with pytest.raises(preprocess.BadTarget, match=word):
        preprocess.Target(target(**changes))


def test_targets_are_made_once_and_their_number_is_bounded(target):
    targets = preprocess.Targets()
    first = targets.get(target())
    assert targets.get(target()) is first
    for width in range(1, 40):
        targets.get(target(width=width))
    assert len(targets._kept) <= 8
