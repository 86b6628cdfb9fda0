from __future__ import annotations

import datetime
from typing import Any, Dict

import pytest

from edge_agent.config import toml

TABLES: Dict[str, Any] = {
    "config_version": 1,
    "http": {"port": 8000, "hosts": ["a", "b"], "empty": [], "lan": {"on": True}},
    "cameras": [{"name": "a b", "zones": {"gate": [[0.1, 1.0], [0, 1e30]]}}, {"name": "c", "inner": [{"x": 1}]}],
    "odd key.": 'quote " backslash \\ tab \t line\n del \x7f nul \x00 \u4e2d',
    "when": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    "day": datetime.date(2026, 1, 2),
    "nothing": {},
    "mixed": [1, {"a": 2}],
}


def test_what_is_written_reads_the_same() -> None:
    text = toml.write(TABLES)
    assert toml.parse(text) == TABLES
    assert '[["cameras"]]' in text


@pytest.mark.parametrize("tables", [{}, {"a": {}}, {"a": {"b": {"c": {}}}}, {"a": [{}]}])
def test_empty_tables_are_kept(tables: Dict[str, Any]) -> None:
    assert toml.parse(toml.write(tables)) == tables
