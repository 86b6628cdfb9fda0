"""README.md says of boards and JetPacks what the matrix says, and calls nothing supported that has not run."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Iterable, List

from edge_agent.device.matrix import Release, matrix, numbers

README = Path(__file__).resolve().parents[3] / "README.md"
_STATES = {"contract-tested": "contract-tested; untested on hardware", "untested": "untested"}


def _expected() -> List[str]:
    groups = groupby(matrix().releases, key=lambda release: (release.socs, release.tensorrt, release.verified))
    return [_line(list(releases)) for _, releases in groups]


def _line(releases: List[Release]) -> str:
    first, last = releases[0], releases[-1]
    table = matrix()
    family = table.family(numbers(first.l4t[0])[0])
    assert family is not None
    pythons = family.python if family.python == family.agent_python else "%s, agent %s" % (family.python, family.agent_python)
    boards = ", ".join(board for soc in table.socs if soc.name in first.socs for board in soc.boards)
    named = first.jetpack if first is last else "%s to %s" % (first.jetpack, last.jetpack)
    return "| %s | %s | %s | %s | %s |" % (boards, named, pythons, first.tensorrt, _STATES[first.verified])


def _table() -> Iterable[str]:
    lines = README.read_text(encoding="utf-8").splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("| board | JetPack |"))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield line


def test_the_support_table_is_the_matrix() -> None:
    assert [line for line in _table() if "any Linux" not in line] == _expected()


def test_only_what_every_check_runs_on_is_called_supported() -> None:
    assert [line.split(" |")[0] for line in _table() if "| supported" in line] == ["| any Linux, x86-64"]
    assert [line for line in _table() if "supported" in line and "any Linux" not in line] == []
