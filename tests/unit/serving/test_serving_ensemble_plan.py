from __future__ import annotations

import pytest

from edge_agent.config.ensemble import EnsembleScheduling
from edge_agent.config.model_schema import ModelConfig
from edge_agent.serving.ensemble_plan import EnsemblePlan, cycle_through, dependencies_first, step_models


def scheduling(*steps):
    return EnsembleScheduling.model_validate(
        {
            "step": [
                {
                    "model_name": model,
                    "model_version": version,
                    "input_map": {"in%d" % number: tensor for number, tensor in enumerate(takes.split())},
                    "output_map": {"out%d" % number: tensor for number, tensor in enumerate(makes.split())},
                }
                for model, version, takes, makes in steps
            ]
        }
    )


#: what is made: a -> b, c; b -> d; c -> e; d and e -> f; c -> g
DIAMOND = scheduling(
    ("join", -1, "d e", "f"),
    ("left", 2, "b", "d"),
    ("right", -1, "c", "e"),
    ("aside", -1, "c", "g"),
    ("split", 0, "a", "b c"),
)


def names(steps):
    return [step.model for step in steps]


def test_every_step_comes_after_those_that_make_its_inputs():
    assert names(EnsemblePlan(DIAMOND, ["a"], ["f", "g"]).steps) == ["split", "left", "right", "aside", "join"]


def test_versions_are_those_that_are_named_or_the_newest():
    versions = {step.model: step.version for step in EnsemblePlan(DIAMOND, ["a"], ["f"]).steps}
    assert versions == {"join": None, "left": "2", "right": None, "aside": None, "split": None}


@pytest.mark.parametrize(
    ("wanted", "needed"),
    [
        ((), ["split", "left", "right", "aside", "join"]),
        (("f",), ["split", "left", "right", "join"]),
        (("g",), ["split", "aside"]),
        (("g", "e"), ["split", "right", "aside"]),
        (("b",), ["split"]),
    ],
)
def test_only_what_leads_to_the_wanted_outputs_is_needed(wanted, needed):
    assert names(EnsemblePlan(DIAMOND, ["a"], ["f", "g"]).needed(wanted)) == needed


def test_of_a_step_only_those_outputs_are_asked_that_somebody_needs():
    (split, _) = EnsemblePlan(DIAMOND, ["a"], ["f", "g"]).needed(("g",))
    assert split.makes == {"out1": "c"}


def test_models_of_an_ensemble_are_named_once_and_others_call_nobody():
    tensors = {"data_type": "TYPE_FP32", "dims": [1]}
    config = ModelConfig.model_validate(
        {
            "input": [{"name": "a", **tensors}],
            "output": [{"name": "c", **tensors}],
            "ensemble_scheduling": scheduling(("one", -1, "a", "b"), ("two", -1, "b", "x"), ("one", -1, "x", "c")),
        }
    )
    assert step_models(config) == ("one", "two")
    assert step_models(ModelConfig()) == ()


@pytest.mark.parametrize(
    ("calls", "chain"),
    [
        ({"a": "b", "b": "c"}, ()),
        ({"a": "a"}, ("a", "a")),
        ({"a": "x b", "b": "c", "c": "a", "x": "y"}, ("a", "b", "c", "a")),
        ({"a": "b", "b": "c", "c": "b"}, ()),  # the circle is the others' own
        ({"a": "b c", "b": "d", "c": "d", "d": ""}, ()),
    ],
)
def test_a_model_that_calls_itself_by_others_is_found_with_the_chain(calls, chain):
    assert cycle_through("a", lambda name: calls.get(name, "").split()) == chain


def test_models_come_after_those_that_they_call_as_far_as_that_can_be():
    calls = {"a": ["z", "b"], "b": ["absent"], "z": [], "p": ["q"], "q": ["p"]}
    assert dependencies_first({name: name for name in calls}, lambda name: calls[name]) == ["z", "b", "a", "q", "p"]
