"""Rows aligned for a terminal, whatever characters are in them."""

from __future__ import annotations

import unicodedata
from itertools import islice
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Sequence, TextIO

#: rows whose widths are looked at together; a long answer is aligned in pieces instead of being held in memory
_ALIGNED_TOGETHER = 1000
_LONGEST_CELL = 120


class Column(NamedTuple):
    """A head, and what a row shows under it."""

    head: str
    text: Callable[[Dict[str, Any]], str]
    right: bool = False


def write_table(out: TextIO, columns: Sequence[Column], rows: Iterable[Dict[str, Any]]) -> None:
    """Head and rows, two spaces between columns."""
    rest = iter(rows)
    lines: List[List[str]] = [[column.head for column in columns]]
    while True:
        more = list(islice(rest, _ALIGNED_TOGETHER))
        lines += [[visible(column.text(row)) for column in columns] for row in more]
        widths = [max(width(line[i]) for line in lines) for i in range(len(columns))] if lines else []
        for line in lines:
            cells = [_padded(cell, widths[i], columns[i].right) for i, cell in enumerate(line)]
            out.write("  ".join(cells).rstrip() + "\n")
        if len(more) < _ALIGNED_TOGETHER:
            return
        lines = []


def visible(text: str, longest: int = _LONGEST_CELL) -> str:
    """One line without control characters: a text from outside must not steer the terminal."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def width(text: str) -> int:
    """Columns that a terminal needs for it: two for Chinese characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _padded(cell: str, wanted: int, right: bool) -> str:
    padding = " " * (wanted - width(cell))
    return padding + cell if right else cell + padding
