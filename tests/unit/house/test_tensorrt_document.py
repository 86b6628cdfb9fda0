"""docs/tensorrt.md against the code: keys with their defaults, codes, metrics; what checks allow is tested with them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Type

import pytest
from pydantic import BaseModel

from edge_agent.config.models import ModelsSection
from edge_agent.config.optimization import AcceptConfig, BuildConfig
from edge_agent.domain.codes import CODES
from edge_agent.domain.codes_build import BUILDS
from edge_agent.domain.codes_engines import ENGINES
from edge_agent.engines.plans.tries import TRIES_A_BOOT
from edge_agent.telemetry.metrics import Metrics

TEXT = (Path(__file__).resolve().parents[3] / "docs/tensorrt.md").read_text(encoding="utf-8")


def _default(value: Any) -> str:
    if value is None:
        return "none"
    shown = "%d" % value if isinstance(value, float) and value == int(value) else json.dumps(value)
    return "`%s`" % shown


@pytest.mark.parametrize("section", [BuildConfig, AcceptConfig])
def test_every_key_is_there_with_its_default(section: Type[BaseModel]) -> None:
    for name, field in section.model_fields.items():
        assert "\n| `%s` | %s | " % (name, _default(field.default)) in TEXT, name


def test_the_bound_of_plans_is_the_default() -> None:
    assert ModelsSection.model_fields["plans_max_bytes"].default == 4 << 30
    assert "`[models] plans_max_bytes` (4 GiB;" in TEXT
    assert '`[models] trust_plans` (`"%s"`)' % ModelsSection.model_fields["trust_plans"].default in TEXT


def test_every_code_is_explained_and_none_that_there_is_not() -> None:
    rows = [line.split(" | ")[0] for line in TEXT[TEXT.index("## Codes") :].splitlines() if line.startswith("| `")]
    explained = {code for row in rows for code in re.findall(r"`([a-z_]+\.[a-z_]+)`", row)}
    assert explained >= {*ENGINES, *BUILDS}
    assert explained <= set(CODES)


def test_the_metrics_are_those_that_are_given() -> None:
    families = {family.name for family in Metrics().plans.families()}
    named = set(re.findall(r"^\| `(edge_agent_\w+)", TEXT, flags=re.MULTILINE))
    assert {name.replace("_total", "") for name in named} == families


def test_tries_are_as_many_as_there_are() -> None:
    assert (TRIES_A_BOOT, "\n- Three tries for a key and boot of the box" in TEXT) == (3, True)
