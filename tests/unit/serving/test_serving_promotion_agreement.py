from __future__ import annotations

import numpy
import pytest

from edge_agent.domain.requests import InferResponse, Timing
from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.serving.promotion.agreement import agreement

KINDS = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "int64": "INT64", "uint8": "UINT8", "bool": "BOOL"}


class Slot:
    """A lease on bytes of its own."""

    segment = offset = 0

    def __init__(self, data):
        self.nbytes = len(data)
        self._data = bytearray(data)

    def view(self):
        return memoryview(self._data)

    def retain(self):
        return self

    def release(self):
        pass


def tensor(array, name="y", kind=None):
    data = array if isinstance(array, bytes) else array.tobytes()
    shape = (len(data) // 2,) if isinstance(array, bytes) else array.shape
    return Tensor(name, DataType(kind or KINDS[array.dtype.name]), shape, Slot(data), 0, len(data))


def answer(*tensors, detections=None):
    return InferResponse("m", "1", "", tensors, detections, Timing(), 1)


def agree(first, second, **options):
    return agreement(answer(tensor(numpy.array(first))), answer(tensor(numpy.array(second))), **options)


def f32(*values):
    return numpy.array(values, numpy.float32)


def seen(label, score=0.9, box=None):
    return Detection(label, score, box)


def agree_on(first, second):
    return agreement(answer(detections=tuple(first)), answer(detections=tuple(second)))


def test_scores_agree_when_the_largest_class_is_the_same():
    assert agree(f32([1, 5, 2]), f32([0, 9, 8])) == 1
    assert agree(f32([1, 5, 2]), f32([0, 8, 9])) == 0
    assert agree(f32([1, 5], [5, 1], [2, 3], [1, 0]), f32([1, 5], [5, 1], [2, 3], [0, 1])) == 0.75


def test_a_draw_between_two_classes_that_other_kernels_decide_otherwise_agrees():
    assert agree(f32([1.000, 1.001]), f32([1.001, 1.000])) == 1


def test_values_that_are_no_scores_must_be_close():
    assert agree(f32([100.0], [200.0]), f32([100.5], [199.0])) == 1
    assert agree(f32([100.0], [200.0]), f32([100.5], [150.0])) == 0.5
    assert agree(numpy.zeros((1, 2, 2), "f4"), numpy.array([[[0, 0], [0, 7]]], "f4")) == 0.75


def test_an_error_that_is_allowed_is_the_only_thing_that_counts():
    assert agree(f32([1, 5, 2]), f32([1.09, 5, 2]), max_abs_error=0.1) == 1
    assert agree(f32([1, 5, 2]), f32([1.11, 5, 2]), max_abs_error=0.1) == 0
    assert agree(numpy.array([3, 250], "u1"), numpy.array([5, 251], "u1"), max_abs_error=1) == 0
    assert agree(numpy.array([3, 250], "u1"), numpy.array([4, 249], "u1"), max_abs_error=1) == 1
    assert agree(numpy.array([True, False]), numpy.array([True, True]), max_abs_error=0.5) == 0


def test_whole_numbers_and_bools_agree_by_the_share_that_is_equal():
    assert agree(numpy.array([1, 2, 3, 4]), numpy.array([1, 2, 3, 5])) == 0.75
    assert agree(numpy.array([True, False]), numpy.array([True, True])) == 0.5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_in_both_agrees_and_in_one_does_not(value):
    assert agree(f32([value], [1]), f32([value], [1])) == 1
    assert agree(f32([value], [1]), f32([0], [1])) == 0.5
    assert agree(f32([value], [1]), f32([0], [1]), max_abs_error=10.0) == 0


def test_other_shapes_other_kinds_and_other_outputs_agree_on_nothing():
    assert agree(f32([1, 2]), f32([1, 2], [1, 2])) == 0
    assert agree(f32([1, 2]), numpy.array([[1, 2]])) == 0
    one = answer(tensor(f32(1), "a"))
    assert agreement(one, answer(tensor(f32(1), "b"))) == 0
    assert agreement(one, answer(tensor(f32(1), "a"), tensor(f32(1), "b"))) == 0


def test_the_output_that_agrees_least_counts():
    first = answer(tensor(f32([1, 2]), "a"), tensor(numpy.array([1, 2]), "b"))
    second = answer(tensor(f32([1, 2]), "a"), tensor(numpy.array([1, 3]), "b"))
    assert agreement(first, second) == 0.5


def test_half_precision_is_compared_by_value():
    values = f32([1.5, -2.25, 3.0])
    brain = (values.view(numpy.uint32) >> 16).astype(numpy.uint16)
    bf16 = Tensor("y", DataType.BF16, (1, 3), Slot(brain.tobytes()), 0, 6)
    fp16 = tensor(values.astype(numpy.float16))
    assert agreement(answer(tensor(values)), answer(bf16), 0.0) == 1
    assert agreement(answer(tensor(values)), answer(fp16), 0.0) == 1
    assert agreement(answer(bf16), answer(tensor(-values))) == 0


def test_texts_must_be_the_same():
    assert agreement(answer(tensor(b"\1\0\0\0a", kind="BYTES")), answer(tensor(b"\1\0\0\0a", kind="BYTES"))) == 1
    assert agreement(answer(tensor(b"\1\0\0\0a", kind="BYTES")), answer(tensor(b"\1\0\0\0b", kind="BYTES"))) == 0


def test_empty_and_scalar_outputs_are_no_trouble():
    assert agree(numpy.zeros((0, 4), "f4"), numpy.zeros((0, 4), "f4")) == 1
    assert agree(numpy.float32(3), numpy.float32(3.01)) == 1
    assert agreement(answer(), answer()) == 1


def test_detections_agree_by_the_share_that_has_a_partner():
    box, near, far = (0, 0, 10, 10), (1, 0, 11, 10), (8, 8, 18, 18)
    assert agree_on([], []) == 1
    assert agree_on([seen("cat", box=box)], []) == 0
    assert agree_on([seen("cat", box=box)], [seen("cat", box=near)]) == 1
    assert agree_on([seen("cat", box=box)], [seen("dog", box=near)]) == 0
    assert agree_on([seen("cat", box=box)], [seen("cat", box=far)]) == 0
    assert agree_on([seen("cat", box=box)], [seen("cat", box=near), seen("cat", box=far)]) == pytest.approx(2 / 3)


def test_a_detection_is_the_partner_of_one_other_only():
    box, near = (0, 0, 10, 10), (1, 0, 11, 10)
    assert agree_on([seen("cat", box=box)] * 3, [seen("cat", box=near)]) == 0.5


def test_boxes_without_area_have_no_partner_and_no_trouble():
    assert agree_on([seen("cat", box=(1, 1, 1, 1))], [seen("cat", box=(1, 1, 1, 1))]) == 0


def test_classes_of_a_whole_picture_agree_when_the_best_one_is_the_same():
    assert agree_on([seen("cat", 0.6), seen("dog", 0.4)], [seen("dog", 0.1), seen("cat", 0.3)]) == 1
    assert agree_on([seen("cat", 0.6), seen("dog", 0.4)], [seen("dog", 0.5), seen("cat", 0.4)]) == 0


def test_thousands_of_detections_are_compared_by_the_best_ones():
    many = [seen("cat", 1.0 - place / 1e5, (place, 0, place + 1, 1)) for place in range(3000)]
    assert agree_on(many, many) == 1
