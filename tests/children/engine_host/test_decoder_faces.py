import numpy
import pytest

from edge_agent.engine_host.decoders import registry
from edge_agent.engine_host.decoders.decoder import DecodeError
from edge_agent.engine_host.tensors import Spec

SIZE = (64, 96)
CONFIG = {"labels": [], "min_score": 0.5, "iou": 0.3, "max_objects": 10}


def centerface(rows=1):
    height, width = SIZE[0] // 4, SIZE[1] // 4
    shapes = [("537", 1), ("538", 2), ("539", 2), ("540", 10)]
    outputs = [Spec(name, "FP32", (-1, channels, -1, -1)) for name, channels in shapes]
    arrays = {name: numpy.zeros((rows, channels, height, width), numpy.float32) for name, channels in shapes}
    return registry.make(dict(CONFIG, kind="centerface"), [], outputs), arrays


def test_centerface_places_a_face_by_cell_offset_and_size():
    decoder, arrays = centerface(2)
    arrays["537"][1, 0, 5, 7] = 0.75
    arrays["538"][1, :, 5, 7] = numpy.log([4, 3])  # height, width in cells
    arrays["539"][1, :, 5, 7] = [0.25, -0.5]  # down, left
    centre_x, centre_y = (7 - 0.5 + 0.5) * 4, (5 + 0.25 + 0.5) * 4
    face = {"label": "face", "score": 0.75, "box": [centre_x - 6, centre_y - 8, centre_x + 6, centre_y + 8]}
    assert decoder.decode(arrays, 2, SIZE) == [[], [face]]


def test_centerface_gives_neighbouring_cells_one_face():
    decoder, arrays = centerface()
    arrays["537"][0, 0, 5, 7:9] = [0.625, 0.875]
    arrays["538"][0] = numpy.log(5)
    assert [face["score"] for face in decoder.decode(arrays, 1, SIZE)[0]] == [0.875]


def test_centerface_survives_numbers_that_are_none():
    decoder, arrays = centerface()
    arrays["537"][0, 0, 1, 1] = numpy.nan
    arrays["537"][0, 0, 2, 2] = 0.9
    arrays["538"][0, :, 2, 2] = 1e9
    assert decoder.decode(arrays, 1, SIZE) == [[]]


def yunet(rows=1, size=SIZE):
    outputs, arrays = [], {}
    for stride in (8, 16, 32):
        cells = (size[0] // stride) * (size[1] // stride)
        for name, width in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
            outputs.append(Spec("%s_%d" % (name, stride), "FP32", (-1, -1, width)))
            arrays["%s_%d" % (name, stride)] = numpy.zeros((rows, cells, width), numpy.float32)
    return registry.make(dict(CONFIG, kind="yunet", labels=["head"]), [], outputs), arrays


@pytest.mark.parametrize("stride", [8, 16, 32])
def test_yunet_places_a_face_on_each_grid(stride):
    decoder, arrays = yunet(2)
    columns = SIZE[1] // stride
    cell = columns + 2  # second line, third column
    arrays["cls_%d" % stride][1, cell, 0] = 0.81
    arrays["obj_%d" % stride][1, cell, 0] = 0.64
    arrays["bbox_%d" % stride][1, cell] = [0.5, -0.25, numpy.log(0.5), numpy.log(0.75)]
    x, y, width, height = 2.5 * stride, 0.75 * stride, stride / 2, stride * 0.75
    nothing, (face,) = decoder.decode(arrays, 2, SIZE)
    assert nothing == []
    assert (face["label"], face["score"]) == ("head", 0.72)
    expected = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    numpy.testing.assert_allclose(face["box"], expected, atol=1e-3)


def test_yunet_says_when_the_cells_do_not_fit_the_picture():
    decoder, arrays = yunet()
    with pytest.raises(DecodeError, match="cls_8 has 96 cells for an input of 64x64"):
        decoder.decode(arrays, 1, (64, 64))


def test_yunet_survives_numbers_that_are_none():
    decoder, arrays = yunet()
    arrays["cls_8"][:] = numpy.nan
    arrays["cls_16"][:], arrays["obj_16"][:], arrays["bbox_16"][:] = 1, 1, numpy.inf
    assert decoder.decode(arrays, 1, SIZE) == [[]]


def test_models_without_the_outputs_are_refused():
    with pytest.raises(DecodeError, match="missing: cls_8, obj_8"):
        registry.make(dict(CONFIG, kind="yunet"), [], [Spec("bbox_8", "FP32", (-1, -1, 4))])
    with pytest.raises(DecodeError, match="1, 2, 2 and 10 channels"):
        registry.make(dict(CONFIG, kind="centerface"), [], [Spec("y", "FP32", (-1, 1, -1, -1))])
