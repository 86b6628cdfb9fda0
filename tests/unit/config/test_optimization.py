from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from edge_agent.config.optimization import AcceptConfig, BuildConfig, build_of


def test_a_silent_build_is_fp16_for_the_gpu_and_never_falls_by_itself() -> None:
    build = BuildConfig()
    assert (build.precision, build.precision_fallback, build.strongly_typed, build.calibration) == ("fp16", False, "auto", "")
    assert (build.workspace_mb, build.dla_core, build.optimization_level, build.cuda_graphs) == (256, -1, "auto", True)
    assert build.timeout_s == 7200


def test_a_silent_accept_compares_a_hundred_requests_for_a_day_at_most() -> None:
    accept = AcceptConfig()
    assert (accept.golden, accept.max_abs_error, accept.max_p95_ms) == ("", None, None)
    assert (accept.shadow_requests, accept.min_agreement, accept.shadow_timeout_s) == (100, 0.9, 86_400)


@pytest.mark.parametrize("level", ["auto", 0, 5])
def test_the_builders_level_is_auto_or_a_number_of_tensorrts(level: Any) -> None:
    assert BuildConfig(optimization_level=level).optimization_level == level


@pytest.mark.parametrize(
    "said",
    [
        {"optimization_level": 6},
        {"optimization_level": "most"},
        {"optimization_level": -1},
        {"strongly_typed": "yes please"},
        {"calibration": "../cache"},
        {"calibration": ".."},
        {"timeout_s": 0},
        {"precision": "fp8"},
    ],
)
def test_what_no_builder_takes_is_a_fault(said: Any) -> None:
    with pytest.raises(ValidationError):
        BuildConfig(**said)


def test_tritons_accelerator_without_parameters_is_fp32_with_a_gigabyte() -> None:
    assert build_of({}, -1) == BuildConfig(precision="fp32", workspace_mb=1024)
