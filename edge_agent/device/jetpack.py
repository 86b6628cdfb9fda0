"""Which JetPack runs here: L4T and chip looked up in the table, and what to take an L4T for that the table does not know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Tuple

from edge_agent.device.board import Board, read_board
from edge_agent.device.matrix import Family, Matrix, Numbers, Release, Soc, matrix, numbers

_PLAIN = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}")


@dataclass(frozen=True)
class JetPack:
    """What the table says of this machine; everything None on a machine that is no Jetson."""

    name: Optional[str]  #: 6.2; 6.x where the L4T itself is not in the table
    family: Optional[Family]
    release: Optional[Release]  #: the nearest one where the L4T itself is not in the table
    soc: Optional[Soc]
    note: str  #: what is not as the table has it; empty when all is

    @property
    def sm(self) -> Optional[int]:
        """87 is compute capability 8.7."""
        return self.soc.sm if self.soc else None


def read_jetpack(root: Path = Path("/")) -> JetPack:
    """The JetPack of the machine under `root`; never raises."""
    return jetpack_of(read_board(root))


def jetpack_of(board: Board, table: Optional[Matrix] = None) -> JetPack:
    """The JetPack of a board that was read."""
    table = table or matrix()
    soc = table.soc(board.soc)
    if board.l4t is None:
        note = "%s, but nothing tells its L4T release" % board.soc if board.soc else ""
        return JetPack(None, None, None, soc, note)
    if not _PLAIN.fullmatch(board.l4t):
        return JetPack(None, None, None, soc, "L4T %s is no release number" % board.l4t[:40])
    name, family, release, note = _look_up(table, board.l4t)
    return JetPack(name, family, release, soc, note or _misfit(board, soc, release))


def _look_up(table: Matrix, l4t: str) -> Tuple[Optional[str], Optional[Family], Optional[Release], str]:
    wanted = numbers(l4t)
    exact = table.release(wanted)
    family = table.family(wanted[0])
    if exact is not None:
        return exact.jetpack, family, exact, ""
    if family is None:
        return None, None, None, _strange_major(table, wanted, l4t)
    text, release = table.nearest(wanted)
    taken = "taken as %s (JetPack %s)" % (text, release.jetpack)
    return "%s.x" % family.jetpack, family, release, "L4T %s is %s: %s" % (l4t, _where(table, wanted), taken)


def _where(table: Matrix, wanted: Numbers) -> str:
    known = sorted(numbers(text) for release in table.releases for text in release.l4t if numbers(text)[0] == wanted[0])
    if wanted > known[-1]:
        return "newer than known"
    return "older than known" if wanted < known[0] else "not in the table"


def _strange_major(table: Matrix, wanted: Numbers, l4t: str) -> str:
    newest = max(major for family in table.families for major in family.l4t_majors)
    word = "newer than this version of the agent knows" if wanted[0] > newest else "none that this agent knows"
    return "L4T %s is %s: its JetPack is not guessed" % (l4t, word)


def _misfit(board: Board, soc: Optional[Soc], release: Optional[Release]) -> str:
    """A release file of another machine, as a copied root or a container may have it."""
    if board.soc is None or release is None:
        return ""
    if soc is None:
        return "the chip %s is not in the table" % board.soc
    if soc.name not in release.socs:
        return "JetPack %s is not made for %s (%s)" % (release.jetpack, soc.name, ", ".join(soc.boards))
    return ""
