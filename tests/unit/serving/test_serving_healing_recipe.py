from __future__ import annotations

from typing import Any, Dict, Tuple

import pytest

from edge_agent.config.optimization import BuildConfig
from edge_agent.domain.gpu import GpuFacts
from edge_agent.serving.healing.recipe import precisions

FAST: Dict[str, Any] = {"available": True, "tensorrt": "10.3.0", "fp16": True, "int8": True}


@pytest.mark.parametrize(
    ("said", "facts", "asked"),
    [
        ({}, FAST, ("fp16",)),
        ({}, {**FAST, "fp16": False}, ("fp32",)),
        ({}, {**FAST, "strongly_typed_only": True}, ("fp32",)),
        ({"strongly_typed": True}, FAST, ("fp32",)),
        ({"precision": "fp16"}, {**FAST, "fp16": False}, ("fp16",)),
        ({"precision": "fp16"}, {**FAST, "strongly_typed_only": True}, ("fp16",)),
        ({"precision": "int8", "precision_fallback": True}, FAST, ("int8", "fp16", "fp32")),
        ({"precision": "int8", "precision_fallback": True, "strongly_typed": True}, FAST, ("int8",)),
    ],
    ids=["silent", "slow", "TensorRT 11", "typed", "said, slow", "said, TensorRT 11", "falls", "typed does not fall"],
)
def test_a_silent_configuration_asks_only_for_what_there_is(
    said: Dict[str, Any], facts: Dict[str, Any], asked: Tuple[str, ...]
) -> None:
    assert precisions(BuildConfig(**said), GpuFacts(**facts)) == asked
