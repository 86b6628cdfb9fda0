from __future__ import annotations

from typing import Any, List, Tuple

import pytest
from pydantic import ValidationError

from edge_agent.config.ensemble import EnsembleScheduling

Step = Tuple[str, str, str]


def _ensemble(*steps: Step) -> EnsembleScheduling:
    return EnsembleScheduling.model_validate(
        {"step": [{"model_name": name, "input_map": {"i": taken}, "output_map": {"o": made}} for name, taken, made in steps]}
    )


def _faults(*steps: Step) -> List[str]:
    return list(_ensemble(*steps).faults(["IN"], ["OUT"]))


def test_steps_may_stand_in_any_order() -> None:
    assert _faults(("second", "mid", "OUT"), ("first", "IN", "mid")) == []


def test_an_input_may_be_taken_twice_and_an_output_be_left_alone() -> None:
    assert _faults(("one", "IN", "OUT"), ("two", "IN", "unused")) == []


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([("a", "nowhere", "OUT")], "step a takes the tensor nowhere"),
        ([("a", "IN", "mid")], "no step makes the output OUT"),
        ([("a", "IN", "OUT"), ("b", "OUT", "IN")], "a step makes the tensor IN, which is an input"),
        ([("a", "x", "y"), ("b", "y", "x"), ("c", "IN", "OUT")], "steps wait for each other's outputs: a, b"),
        ([("a", "OUT", "OUT")], "steps wait for each other's outputs: a"),
    ],
)
def test_steps_that_do_not_fit_together_are_named(steps: List[Step], says: str) -> None:
    assert says in " ".join(_faults(*steps))


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"model_name": "a", "input_map": {"i": "x"}}, "output_map should name a tensor"),
        ({"model_name": "a", "input_map": {"i": ""}, "output_map": {"o": "y"}}, "input_map should name a tensor"),
        ({"model_name": "a b", "input_map": {"i": "x"}, "output_map": {"o": "y"}}, "a model's name"),
        ({"model_name": "a", "model_version": -2, "input_map": {"i": "x"}, "output_map": {"o": "y"}}, "greater than or equal"),
        ({"model_name": "a", "model_namespace": "n", "input_map": {"i": "x"}, "output_map": {"o": "y"}}, "no namespaces"),
    ],
)
def test_a_step_that_says_too_little_is_a_fault(step: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        EnsembleScheduling.model_validate({"step": [step]})


def test_one_tensor_is_made_once() -> None:
    with pytest.raises(ValidationError, match="two steps make the tensor OUT"):
        _ensemble(("a", "IN", "OUT"), ("b", "IN", "OUT"))


def test_silence_about_the_version_is_the_newest() -> None:
    step = {"model_name": "a", "model_version": 0, "input_map": {"i": "x"}, "output_map": {"o": "y"}}
    assert EnsembleScheduling.model_validate({"step": [step]}).step[0].model_version == -1
