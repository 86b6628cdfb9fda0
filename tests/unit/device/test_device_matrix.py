"""The table itself: whole, without contradictions, readable by the shell, and no truer than what was tested."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

import pytest

from edge_agent.device.matrix import MATRIX, matrix, numbers

TREE = Path(__file__).resolve().parents[3]
NAMES = TREE / "tests/contract/names"
TABLE = matrix()


def test_each_l4t_stands_once() -> None:
    found: List[str] = [l4t for release in TABLE.releases for l4t in release.l4t]
    assert len(found) == len(set(found))
    for l4t in found:
        assert [release.jetpack for release in TABLE.releases if release.has(numbers(l4t))] == [
            release.jetpack for release in TABLE.releases if l4t in release.l4t
        ]


def test_each_row_is_of_a_known_family_with_known_chips() -> None:
    for release in TABLE.releases:
        for l4t in release.l4t:
            family = TABLE.family(numbers(l4t)[0])
            assert family is not None
            assert release.jetpack.startswith(family.jetpack + ".")
        assert all(TABLE.soc(soc) is not None for soc in release.socs)


def test_the_rows_go_from_old_to_new() -> None:
    firsts = [numbers(release.l4t[0]) for release in TABLE.releases]
    assert firsts == sorted(firsts)


def test_each_chip_has_a_row_and_a_compute_capability() -> None:
    assert {soc.name: soc.sm for soc in TABLE.socs} == {
        "tegra210": 53,
        "tegra186": 62,
        "tegra194": 72,
        "tegra234": 87,
        "tegra264": 110,
    }
    assert {soc for release in TABLE.releases for soc in release.socs} == {soc.name for soc in TABLE.socs}


@pytest.mark.parametrize("release", TABLE.releases, ids=lambda release: release.jetpack)
def test_what_is_called_tested_has_names_to_test_against(release: object) -> None:
    row = next(row for row in TABLE.releases if row is release)
    if row.verified == "untested":
        assert row.contract == ""
        return
    assert row.verified == "contract-tested"
    assert (NAMES / ("%s.json" % row.contract)).is_file()
    assert numbers(row.contract)[:2] == numbers(row.tensorrt)[:2]


@pytest.mark.parametrize("family", TABLE.families, ids=lambda family: family.jetpack)
def test_each_family_names_constraints_that_exist(family: object) -> None:
    row = next(row for row in TABLE.families if row is family)
    for name in (row.agent_constraints, row.host_constraints):
        assert (TREE / "jetpack" / name).is_file()
    assert (row.agent_constraints == row.host_constraints) == (row.python == row.agent_python)


def test_there_is_one_table() -> None:
    link = TREE / "jetpack/matrix.toml"
    assert link.is_symlink()
    assert link.resolve() == MATRIX.resolve()


def test_the_table_has_the_form_that_the_shell_reads() -> None:
    line = re.compile(r'^(|#.*|\[\[(family|soc|release)\]\]|[a-z0-9_]+ = ("[^"]*"|\d+|true|false|\[[^\]]*\])( +#.*)?)$')
    assert [text for text in MATRIX.read_text(encoding="utf-8").split("\n") if not line.match(text)] == []
