"""A plan's key changes with everything that a plan depends on, and with nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict

import pytest

from edge_agent.domain.gpu import GpuFacts
from edge_agent.engines.plans import key as key_module
from edge_agent.engines.plans.key import PlanKey, PlanRecipe, PlanTarget

FACTS = GpuFacts(
    available=True,
    tensorrt="10.3.0.26",
    cuda_driver=12060,
    cuda_runtime=12050,
    plugins=("b" * 64, "a" * 64),
    device="Orin",
    compute_capability=(8, 7),
    multiprocessors=16,
)
TARGET = PlanTarget.of(FACTS, l4t="36.4.3")
PROFILE = {"x": {"min": (1, 4), "opt": (4, 4), "max": (8, 4)}}
RECIPE = PlanRecipe(
    precision="fp16", calibration="c" * 64, profiles=(PROFILE,), max_batch_size=8, inputs={"x": (4,)}, workspace_mb=256
)
KEY = PlanKey("d" * 64, TARGET, RECIPE)

OTHER_TARGETS: Dict[str, Any] = {
    "tensorrt": "10.3.0.27",
    "cuda_driver": 12020,
    "cuda_runtime": 12040,
    "compute_capability": (8, 6),
    "device": "Orin NX",
    "multiprocessors": 8,
    "l4t": "36.4.4",
    "plugins": ("a" * 64,),
}
OTHER_RECIPES: Dict[str, Any] = {
    "precision": "fp32",
    "strongly_typed": True,
    "calibration": "e" * 64,
    "profiles": ({"x": {"min": (1, 4), "opt": (4, 4), "max": (16, 4)}},),
    "max_batch_size": 16,
    "inputs": {"x": (5,)},
    "workspace_mb": 128,
    "optimization_level": 2,
    "flags": ("SPARSE_WEIGHTS",),
    "dla_core": 0,
    "gpu_fallback": False,
}
OF_THE_MODEL = {"calibration", "profiles", "max_batch_size", "inputs"}


def test_the_tables_name_every_field() -> None:
    assert set(OTHER_TARGETS) == {field.name for field in dataclasses.fields(PlanTarget)}
    assert set(OTHER_RECIPES) == {field.name for field in dataclasses.fields(PlanRecipe)}


def test_the_key_is_a_name_for_a_file() -> None:
    assert len(KEY.digest) == 32
    assert set(KEY.digest) <= set("0123456789abcdef")


@pytest.mark.parametrize("name", sorted(OTHER_TARGETS))
def test_another_box_is_another_plan_and_other_timings(name: str) -> None:
    other = PlanKey(KEY.model, dataclasses.replace(TARGET, **{name: OTHER_TARGETS[name]}), RECIPE)
    assert other.digest != KEY.digest
    assert other.timing_name != KEY.timing_name


@pytest.mark.parametrize("name", sorted(OTHER_RECIPES))
def test_another_way_of_building_is_another_plan(name: str) -> None:
    other = PlanKey(KEY.model, TARGET, dataclasses.replace(RECIPE, **{name: OTHER_RECIPES[name]}))
    assert other.digest != KEY.digest
    assert (other.timing_name == KEY.timing_name) == (name in OF_THE_MODEL)


def test_another_model_is_another_plan_with_the_same_timings() -> None:
    other = PlanKey("f" * 64, TARGET, RECIPE)
    assert other.digest != KEY.digest
    assert other.timing_name == KEY.timing_name


def test_another_builder_is_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_module, "BUILDER_VERSION", key_module.BUILDER_VERSION + 1)
    assert PlanKey(KEY.model, TARGET, RECIPE).digest != KEY.digest


def test_the_order_of_what_has_none_does_not_count() -> None:
    profile = {"x": {"max": [8, 4], "min": [1, 4], "opt": [4, 4]}}
    recipe = dataclasses.replace(RECIPE, profiles=(profile,), flags=("B", "A"))
    target = PlanTarget.of(dataclasses.replace(FACTS, plugins=("a" * 64, "b" * 64)), "36.4.3")
    assert (
        PlanKey(KEY.model, target, recipe).digest
        == PlanKey(KEY.model, TARGET, dataclasses.replace(RECIPE, flags=("A", "B"))).digest
    )


def test_what_the_host_says_of_its_libraries_is_in_the_key() -> None:
    reply = {
        "available": True,
        "tensorrt": "10.3.0",
        "compute_capability": [8, 7],
        "plugins": ["b" * 64],
        "cuda_runtime": 12050,
    }
    target = PlanTarget.of(GpuFacts.from_reply(reply))
    assert (target.plugins, target.cuda_runtime) == (("b" * 64,), 12050)


def test_the_digest_is_the_same_in_every_run_and_python() -> None:
    """A change of this number makes every box build all its plans again: raise BUILDER_VERSION instead, and say so."""
    assert (
        PlanKey("0" * 64, PlanTarget("10.3.0", 12060, (8, 7), "Orin", 16), PlanRecipe("fp16")).digest
        == "36d491d4713cd538217ac7c2aad0db5e"
    )
