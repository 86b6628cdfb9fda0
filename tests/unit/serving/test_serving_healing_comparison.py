"""Which answers of a plan are good enough."""

from __future__ import annotations

from typing import Any, Optional

import numpy
import pytest

from edge_agent.serving.healing.comparison import Verdict, compare

RIGHT = numpy.linspace(-10, 10, 1000, dtype=numpy.float32)


def judged(got: Any, right: Any = RIGHT, precision: str = "fp16", limit: Optional[float] = None) -> str:
    verdict = Verdict()
    compare(verdict, {"y": got}, {"y": right}, precision, limit, "sample")
    return verdict.wrong


def one_off(by: float) -> Any:
    array = RIGHT.copy()
    array[17] += by
    return array


@pytest.mark.parametrize(
    ("precision", "good", "bad"), [("fp32", 0.09, 0.11), ("fp16", 0.49, 0.51), ("int8", 2.4, 2.6), ("unknown", 2.4, 2.6)]
)
def test_one_value_may_be_off_by_a_share_of_the_largest(precision: str, good: float, bad: float) -> None:
    assert judged(one_off(good), precision=precision) == ""
    assert "sample: output 'y' is off by" in judged(one_off(bad), precision=precision)


@pytest.mark.parametrize(("precision", "good", "bad"), [("fp32", 0.019, 0.021), ("fp16", 0.09, 0.11), ("int8", 0.79, 0.81)])
def test_all_values_together_may_be_off_by_less(precision: str, good: float, bad: float) -> None:
    assert judged(RIGHT + numpy.float32(good), precision=precision) == ""
    assert "in the mean" in judged(RIGHT + numpy.float32(bad), precision=precision)


def test_the_operators_limit_rules_alone() -> None:
    assert judged(RIGHT + 5, limit=5.1) == ""
    assert "more than the 0.001 of max_abs_error" in judged(one_off(0.01), limit=0.001)


def test_shapes_names_and_finite_values_must_be_the_same() -> None:
    assert "has shape [999], not [1000]" in judged(RIGHT[:-1])
    assert "not finite" in judged(one_off(numpy.nan))
    assert "not finite" in judged(RIGHT, one_off(numpy.inf))
    assert judged(one_off(numpy.inf), one_off(numpy.inf)) == ""
    verdict = Verdict()
    compare(verdict, {"x": RIGHT}, {"y": RIGHT}, "fp16", None, "sample")
    assert verdict.wrong == "sample: there is no output 'y'"


def test_whole_numbers_are_compared_one_by_one() -> None:
    right = numpy.arange(1000)
    got = right.copy()
    got[:10] += 1
    assert judged(got, right, "fp16") == ""
    assert "1 % other values" in judged(got, right, "fp32")
    assert "other values" in judged(got, right, "fp16", limit=0.5)
    got[:100] = 7
    assert "other values" in judged(got, right, "int8")


def test_an_output_of_zeros_must_stay_one() -> None:
    zeros = numpy.zeros(10, numpy.float32)
    assert judged(zeros + 1e-6, zeros) == ""
    assert judged(zeros + 1e-3, zeros) != ""


def test_an_empty_output_is_equal_to_another_one() -> None:
    assert judged(RIGHT[:0], RIGHT[:0]) == ""


def test_the_figures_are_those_of_all_answers_and_the_first_fault_is_named() -> None:
    verdict = Verdict()
    compare(verdict, {"y": one_off(0.25)}, {"y": RIGHT}, "fp16", None, "first")
    compare(verdict, {"y": one_off(5)}, {"y": RIGHT}, "fp16", None, "second")
    compare(verdict, {"y": one_off(9)}, {"y": RIGHT}, "fp16", None, "third")
    assert verdict.wrong.startswith("second: ")
    assert verdict.figures() == {"compared": 3, "max_abs_error": 9.0, "max_share": 0.9}
