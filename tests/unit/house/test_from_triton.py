"""docs/from-triton.md against the code: its tables are made of these lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, Sequence

import pytest

from edge_agent.config.model_keys import IGNORED, REFUSED, Unserved
from edge_agent.config.model_schema import OWN_KEYS, ModelConfig
from edge_agent.config.root import AgentConfig

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs/from-triton.md").read_text(encoding="utf-8")

_WHOLE = {row.path[0] for row in (*IGNORED, *REFUSED) if len(row.path) == 1}


def used() -> List[str]:
    """A line for each field that is read and not wholly ignored or refused."""
    return [
        "| `%s` | %s |" % (name, field.description)
        for name, field in ModelConfig.model_fields.items()
        if name not in OWN_KEYS and name not in _WHOLE and name not in ("model_operations", "optimization")
    ]


def unserved(rows: Sequence[Unserved]) -> List[str]:
    return ["| `%s` | %s |" % (".".join(row.path), row.why) for row in rows if row.path[0] not in OWN_KEYS]


@pytest.mark.parametrize("line", [*used(), *unserved(IGNORED), *unserved(REFUSED)])
def test_the_document_says_what_becomes_of_every_field(line: str) -> None:
    assert line in DOCUMENT.splitlines()


def test_the_document_has_no_field_that_the_code_has_not() -> None:
    lines = set(re.findall(r"^\| `[a-z_.*A-Z]+` \| .*$", DOCUMENT, flags=re.MULTILINE))
    assert lines == {*used(), *unserved(IGNORED), *unserved(REFUSED)}


def test_every_key_that_the_document_leads_to_exists() -> None:
    named = set(re.findall(r"`\[([a-z]+)\] ([a-z_]+)", DOCUMENT))
    assert len(named) > 10
    for section, key in sorted(named):
        kind = AgentConfig.model_fields[section].annotation
        fields = [each.model_fields for each in (kind, *getattr(kind, "__args__", ())) if hasattr(each, "model_fields")]
        assert any(key in each for each in fields), "%s.%s" % (section, key)
