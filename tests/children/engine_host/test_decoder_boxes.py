import numpy
import pytest

from edge_agent.engine_host.decoders.decoder import CANDIDATES, Options, objects, sigmoid, suppress

SIZE = (100, 200)


def options(**fields):
    return Options(dict({"labels": ["cat", "dog"], "min_score": 0.5, "iou": 0.5, "max_objects": 10}, **fields))


def found(boxes, scores, classes=None, **fields):
    classes = [0] * len(boxes) if classes is None else classes
    arrays = numpy.array(boxes, numpy.float32).reshape(-1, 4), numpy.array(scores, numpy.float32), numpy.array(classes)
    return objects(arrays[0], arrays[1], arrays[2], options(**fields), SIZE)


def test_the_better_of_two_boxes_on_one_thing_stays():
    boxes = [[0, 0, 10, 10], [1, 0, 11, 10], [50, 50, 60, 60]]
    assert [(item["score"], item["box"]) for item in found(boxes, [0.75, 0.875, 0.625])] == [
        (0.875, [1, 0, 11, 10]),
        (0.625, [50, 50, 60, 60]),
    ]


def test_classes_do_not_take_each_other_away():
    assert [item["label"] for item in found([[0, 0, 10, 10]] * 3, [0.9, 0.8, 0.7], [1, 0, 17])] == ["dog", "cat", "class_17"]


@pytest.mark.parametrize(("iou", "stay"), [(0.3, 1), (1 / 3, 2), (0.6, 2)])
def test_overlap_at_the_limit_is_allowed_and_over_it_is_not(iou, stay):
    assert len(found([[0, 0, 10, 10], [0, 5, 10, 15]], [0.9, 0.8], iou=iou)) == stay


def test_a_box_taken_away_takes_no_other_away():
    chain = [[0, 0, 10, 10], [0, 4, 10, 14], [0, 8, 10, 18]]
    assert len(found(chain, [0.9, 0.8, 0.7], iou=0.3)) == 2


@pytest.mark.parametrize(
    ("box", "score"),
    [
        ([0, 0, 10, 10], numpy.nan),
        ([0, 0, 10, 10], numpy.inf),
        ([0, 0, 10, 10], 0.49),
        ([0, numpy.nan, 10, 10], 0.9),
        ([0, 0, numpy.inf, 10], 0.9),
        ([10, 0, 10, 10], 0.9),
        ([0, 10, 10, 5], 0.9),
        ([300, 0, 310, 10], 0.9),
    ],
)
def test_what_is_no_box_in_the_picture_is_dropped(box, score):
    assert [item["box"] for item in found([[20, 20, 30, 30], box], [0.6, score])] == [[20, 20, 30, 30]]


def test_boxes_are_cut_at_the_edges_of_the_picture():
    assert found([[-5, -5, 500, 500]], [0.9])[0]["box"] == [0, 0, 200, 100]


def test_equal_scores_keep_their_order_and_the_limit_holds():
    boxes = [[step, 0, step + 1, 1] for step in range(0, 40, 2)]
    assert [item["box"][0] for item in found(boxes, [0.5] * 20, max_objects=3)] == [0, 2, 4]


def test_nothing_found_is_an_empty_list():
    assert found([], []) == []


def test_suppression_looks_at_a_bounded_number_of_boxes():
    count = CANDIDATES + 500
    boxes = numpy.array([[step, 0, step + 1, 1] for step in range(count)], numpy.float32)
    scores = numpy.linspace(0.1, 0.9, count, dtype=numpy.float32)
    kept = suppress(boxes, scores, numpy.zeros(count, int), 0.5, count)
    assert kept.tolist() == list(range(count - 1, count - 1 - CANDIDATES, -1))


def test_suppression_agrees_with_the_plain_loop():
    chance = numpy.random.RandomState(7)
    corners = chance.randint(0, 60, (200, 2))
    boxes = numpy.concatenate([corners, corners + chance.randint(5, 40, (200, 2))], axis=1).astype(numpy.float32)
    scores, classes = chance.rand(200).astype(numpy.float32), chance.randint(0, 3, 200)
    assert suppress(boxes, scores, classes, 0.4, 300).tolist() == plain(boxes.astype(float), scores, classes, 0.4)


def plain(boxes, scores, classes, iou):
    kept = []
    for place in sorted(range(len(boxes)), key=lambda at: -scores[at]):
        if all(classes[place] != classes[other] or overlap(boxes[place], boxes[other]) <= iou for other in kept):
            kept.append(place)
    return kept


def overlap(a, b):
    shared = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def test_sigmoid_takes_any_number():
    with numpy.errstate(all="raise"):
        values = sigmoid(numpy.array([-1000, 0, 1000], numpy.float32))
    assert values.tolist() == [0, 0.5, 1]
