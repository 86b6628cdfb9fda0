import numpy
import pytest

from edge_agent.engine_host.decoders import registry
from edge_agent.engine_host.decoders.decoder import DecodeError
from edge_agent.engine_host.tensors import Spec

SIZE = (64, 64)
ANCHORS = 64 + 16 + 4  # cells of stride 8, 16 and 32
CONFIG = {"kind": "yolo", "labels": ["person", "car", "dog"], "min_score": 0.5, "iou": 0.5, "max_objects": 10}


def decoder(shape, *others, **fields):
    outputs = [Spec("out", "FP32", shape)] + [Spec("other%d" % place, "FP32", other) for place, other in enumerate(others)]
    return registry.make(dict(CONFIG, **fields), [Spec("images", "FP32", (-1, 3) + SIZE)], outputs)


def decode(array, *others, **fields):
    made = decoder((-1,) + array.shape[1:], *others, **fields)
    return made.decode({"out": array}, len(array), SIZE)


def v5(rows=1):
    return numpy.zeros((rows, 3 * ANCHORS, 5 + 3), numpy.float32)


def v8(rows=1):
    return numpy.zeros((rows, 4 + 3, ANCHORS), numpy.float32)


def test_version_5_multiplies_objectness_and_class():
    array = v5()
    array[0, 100] = [30, 20, 10, 8, 0.75, 0.25, 0.875, 0]
    array[0, 200] = [30, 50, 10, 8, 0.625, 0, 0, 0.75]  # 0.47 in all
    assert decode(array) == [[{"label": "car", "score": 0.65625, "box": [25, 16, 35, 24]}]]


def test_version_5_of_one_class_is_not_taken_for_an_end_to_end_output():
    array = numpy.zeros((1, 3 * ANCHORS, 6), numpy.float32)
    array[0, 5] = [30, 20, 10, 8, 0.9, 1]
    assert [found["box"] for found in decode(array)[0]] == [[25, 16, 35, 24]]


def test_version_8_reads_columns_without_objectness():
    array = v8()
    array[0, :, 7] = [30, 20, 10, 8, 0.1, 0.2, 0.75]
    array[0, :, 8] = [31, 20, 10, 8, 0.1, 0.2, 0.625]
    array[0, :, 80] = [10, 50, 4, 4, 0.5, 0.2, 0.1]
    assert decode(array) == [
        [{"label": "dog", "score": 0.75, "box": [25, 16, 35, 24]}, {"label": "person", "score": 0.5, "box": [8, 48, 12, 52]}]
    ]


def test_masks_of_a_segmentation_model_are_no_classes():
    array = numpy.zeros((1, 4 + 3 + 32, ANCHORS), numpy.float32)
    array[0, :7, 7] = [30, 20, 10, 8, 0, 0.75, 0]
    array[0, 7:, 7] = 5
    assert [(found["label"], found["score"]) for found in decode(array, (-1, 32, 16, 16))[0]] == [("car", 0.75)]


def test_an_end_to_end_output_is_not_suppressed_again():
    array = numpy.zeros((1, 300, 6), numpy.float32)
    array[0, 0] = [10, 10, 20, 20, 0.625, 2]
    array[0, 1] = [10, 10, 20, 21, 0.875, 2]
    assert decode(array) == [
        [{"label": "dog", "score": 0.875, "box": [10, 10, 20, 21]}, {"label": "dog", "score": 0.625, "box": [10, 10, 20, 20]}]
    ]


@pytest.mark.parametrize("make", [v5, v8])
def test_each_picture_has_its_own_list(make):
    array = make(3)
    one = [30, 20, 10, 8, 0.9, 1, 0, 0] if make is v5 else [30, 20, 10, 8, 0.9, 0, 0]
    if make is v5:
        array[1, 3] = one
    else:
        array[1, :, 3] = one
    assert [len(found) for found in decode(array)] == [0, 1, 0]


@pytest.mark.parametrize("make", [v5, v8])
def test_numbers_that_are_none_are_dropped(make):
    array = make()
    array[:] = numpy.nan
    assert decode(array) == [[]]


def test_a_class_score_that_is_no_number_leaves_the_other_classes():
    array = v8()
    array[0, :, 7] = [30, 20, 10, 8, numpy.nan, 0.75, numpy.inf]
    assert [found["label"] for found in decode(array)[0]] == ["car"]


def test_half_precision_is_read():
    array = v8().astype(numpy.float16)
    array[0, :, 7] = [30, 20, 10, 8, 0, 0.75, 0]
    assert decode(array)[0][0]["box"] == [25, 16, 35, 24]


def test_an_output_of_another_form_is_refused_with_its_shape():
    with pytest.raises(DecodeError, match="three dimensions"):
        decoder((-1, 85))
    with pytest.raises(DecodeError, match=r"\[1, 5, 3\]"):
        decode(numpy.zeros((1, 5, 3), numpy.float32))
