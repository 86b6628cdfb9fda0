import numpy
import pytest

from edge_agent.engine_host.decoders import registry
from edge_agent.engine_host.decoders.decoder import DecodeError
from edge_agent.engine_host.decoders.ssd import standard_anchors
from edge_agent.engine_host.tensors import Spec

SIZE = (300, 300)
CONFIG = {"kind": "ssd", "labels": ["none", "person", "car"], "min_score": 0.5, "iou": 0.5, "max_objects": 10}


def make(*outputs):
    return registry.make(CONFIG, [], [Spec(name, "FP32", shape) for name, shape in outputs])


def finished(names, count_shape):
    """Three detections, of which the count names two."""
    shapes = [(-1, 3, 4), (-1, 3), (-1, 3), count_shape]
    arrays = [
        [[[0.1, 0.2, 0.5, 0.6], [0.5, 0.5, 1, 1], [0, 0, 1, 1]]],
        [[1, 2, 1]],
        [[0.75, 0.625, 0.99]],
        numpy.full([abs(dim) for dim in count_shape], 2),
    ]
    outputs = {name: numpy.array(array, numpy.float32) for name, array in zip(names, arrays)}
    return make(*zip(names, shapes)).decode(outputs, 1, (100, 200))


@pytest.mark.parametrize(
    ("names", "count_shape"),
    [
        (("detection_boxes:0", "detection_classes:0", "detection_scores:0", "num_detections:0"), (-1,)),
        (("TFLite:0", "TFLite:1", "TFLite:2", "TFLite:3"), (-1,)),
        (("a", "b", "c", "d"), (-1, 1)),
    ],
)
def test_finished_detections_are_read_up_to_their_count(names, count_shape):
    assert finished(names, count_shape) == [
        [
            {"label": "person", "score": 0.75, "box": [40, 10, 120, 50]},
            {"label": "car", "score": 0.625, "box": [100, 50, 200, 100]},
        ]
    ]


def test_scores_are_found_by_name_and_the_count_may_be_missing():
    decoder = make(("boxes", (-1, -1, 4)), ("scores", (-1, -1)), ("labels", (-1, -1)))
    outputs = {"boxes": [[[0.1, 0.2, 0.5, 0.6]]], "scores": [[0.75]], "labels": [[2]]}
    outputs = {name: numpy.array(array, numpy.float32) for name, array in outputs.items()}
    assert decoder.decode(outputs, 1, (100, 100)) == [[{"label": "car", "score": 0.75, "box": [20, 10, 60, 50]}]]


def test_decoded_boxes_are_corners_and_class_0_is_the_background():
    decoder = make(("scores", (1, 3000, 3)), ("boxes", (1, 3000, 4)))
    scores, boxes = numpy.zeros((1, 3000, 3), numpy.float32), numpy.zeros((1, 3000, 4), numpy.float32)
    scores[..., 0] = 1
    scores[0, 9], boxes[0, 9] = [0.125, 0.75, 0.125], [0.1, 0.2, 0.5, 0.6]
    scores[0, 10], boxes[0, 10] = [0.25, 0.625, 0.125], [0.1, 0.2, 0.5, 0.62]
    assert decoder.decode({"scores": scores, "boxes": boxes}, 1, (100, 200)) == [
        [{"label": "person", "score": 0.75, "box": [20, 20, 100, 60]}]
    ]


def test_the_standard_anchors_of_300_pixels_are_the_known_1917():
    anchors = standard_anchors(SIZE)
    assert anchors.shape == (1917, 4)
    numpy.testing.assert_allclose(anchors[0], [0.5 / 19, 0.5 / 19, 0.1, 0.1], rtol=1e-6)
    numpy.testing.assert_allclose(anchors[1, 2:], [0.2 * 2**0.5, 0.2 / 2**0.5], rtol=1e-6)
    numpy.testing.assert_allclose(anchors[3 * 19 * 19], [0.05, 0.05, 0.35, 0.35], rtol=1e-6)
    numpy.testing.assert_allclose(anchors[-1], [0.5, 0.5, 0.95**0.5, 0.95**0.5], rtol=1e-6)


def test_raw_regressions_are_laid_on_the_anchors():
    place = 3 * 19 * 19 + 6 * 44  # the cell 4, 4 of ten: centre 0.45, shape 0.35
    raw, logits = numpy.zeros((1, 1917, 4), numpy.float32), numpy.full((1, 1917, 3), -8, numpy.float32)
    raw[0, place] = [1, 2, 5 * numpy.log(2), 0]  # down a tenth of the anchor, right a fifth, twice as high
    logits[0, place] = [9, -2, 2]
    (faces,) = make(("locations", (1, 1917, 4)), ("classes", (1, 1917, 3))).decode(
        {"locations": raw, "classes": logits}, 1, SIZE
    )
    (found,) = faces
    assert (found["label"], round(found["score"], 3)) == ("car", 0.881)
    centre_x, centre_y = 0.45 + 0.2 * 0.35, 0.45 + 0.1 * 0.35
    expected = [centre_x - 0.175, centre_y - 0.35, centre_x + 0.175, centre_y + 0.35]
    numpy.testing.assert_allclose(numpy.array(found["box"]) / 300, expected, atol=1e-4)


def test_four_classes_do_not_confuse_boxes_with_scores():
    decoder = make(("scores", (-1, -1, 4)), ("boxes", (-1, -1, 4)))
    scores, boxes = numpy.zeros((1, 5, 4), numpy.float32), numpy.zeros((1, 5, 4), numpy.float32)
    scores[0, 2], boxes[0, 2] = [0, 0, 0.75, 0.25], [0, 0, 0.5, 1]
    assert decoder.decode({"scores": scores, "boxes": boxes}, 1, (10, 10))[0][0]["box"] == [0, 0, 5, 10]


def test_other_outputs_are_refused_with_their_shapes():
    with pytest.raises(DecodeError, match=r"the model has 'y' \[-1, 10\]"):
        make(("y", (-1, 10)))
    decoder = make(("boxes", (-1, -1, 4)), ("scores", (-1, -1, 3)))
    with pytest.raises(DecodeError, match="do not belong together"):
        decoder.decode({"boxes": numpy.zeros((1, 5, 4)), "scores": numpy.zeros((1, 6, 3))}, 1, (10, 10))
