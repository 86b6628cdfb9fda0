import numpy
import pytest

from edge_agent.engine_host.decoders import registry
from edge_agent.engine_host.decoders.decoder import DecodeError
from edge_agent.engine_host.tensors import Spec


def decode(array, **fields):
    config = dict({"kind": "classification", "labels": ["cat", "dog"], "min_score": 0.2, "max_objects": 5}, **fields)
    decoder = registry.make(config, [], [Spec("scores", "FP32", (-1,) + array.shape[1:])])
    return decoder.decode({"scores": array}, len(array), (8, 8))


def pairs(found):
    return [(item["label"], item["score"]) for item in found]


def test_probabilities_are_taken_as_they_are_best_first():
    (first, second) = decode(numpy.array([[0.25, 0.625, 0.125], [0.875, 0.0625, 0.0625]], numpy.float32))
    assert pairs(first) == [("dog", 0.625), ("cat", 0.25)]
    assert pairs(second) == [("cat", 0.875)]
    assert first[0]["box"] is None


def test_logits_go_through_softmax():
    (found,) = decode(numpy.array([[0.0, numpy.log(3), -50.0]], numpy.float32))
    assert pairs(found) == [("dog", 0.75), ("cat", 0.25)]


def test_huge_logits_do_not_overflow():
    (found,) = decode(numpy.array([[5000.0, -5000.0]], numpy.float32))
    assert pairs(found) == [("cat", 1.0)]


def test_quantised_probabilities_are_256ths():
    (found,) = decode(numpy.array([[64, 192]], numpy.uint8))
    assert pairs(found) == [("dog", 0.75), ("cat", 0.25)]


def test_trailing_ones_and_half_precision_do_not_matter():
    (found,) = decode(numpy.array([0.25, 0.75], numpy.float16).reshape(1, 2, 1, 1))
    assert pairs(found) == [("dog", 0.75), ("cat", 0.25)]


def test_one_column_is_a_probability_or_a_logit():
    (probable,), (sure,) = decode(numpy.array([[0.75], [0.5]], numpy.float32))
    assert (probable["score"], sure["score"]) == (0.75, 0.5)
    assert pairs(decode(numpy.array([[50.0]], numpy.float32))[0]) == [("cat", 1.0)]


def test_scores_that_are_no_numbers_are_dropped():
    (found,) = decode(numpy.array([[numpy.nan, 0.75, 0.25]], numpy.float32))
    assert pairs(found) == [("dog", 0.75), ("class_2", 0.25)]
    assert decode(numpy.full((1, 3), numpy.nan, numpy.float32), min_score=0) == [[]]


def test_no_more_than_max_objects_come():
    (found,) = decode(numpy.full((1, 8), 0.125, numpy.float32), min_score=0, max_objects=3)
    assert [item["label"] for item in found] == ["cat", "dog", "class_2"]


def test_several_outputs_are_refused():
    specs = [Spec(name, "FP32", (-1, 3)) for name in "ab"]
    with pytest.raises(DecodeError, match="the model has 2"):
        registry.make({"kind": "classification"}, [], specs)
