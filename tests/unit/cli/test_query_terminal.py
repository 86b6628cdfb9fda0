from __future__ import annotations

import io

import pytest

from edge_agent.cli.terminal import Column, visible, width, write_table

COLUMNS = [Column("NAME", lambda row: row["name"]), Column("N", lambda row: str(row["n"]), right=True)]


def _lines(rows):
    out = io.StringIO()
    write_table(out, COLUMNS, rows)
    return out.getvalue().splitlines()


def test_columns_are_as_wide_as_their_widest_cell():
    assert _lines([{"name": "a", "n": 1}, {"name": "bbbbbb", "n": 100}]) == ["NAME      N", "a         1", "bbbbbb  100"]


def test_wide_characters_count_as_two_columns():
    assert _lines([{"name": "人脸", "n": 1}, {"name": "abcd", "n": 2}])[1:] == ["人脸  1", "abcd  2"]
    assert width("e\u0301") == 1


def test_a_long_answer_is_printed_in_pieces_without_a_second_head():
    lines = _lines({"name": "n%d" % n, "n": n} for n in range(2500))
    assert len(lines) == 2501
    assert [line for line in lines if "NAME" in line] == lines[:1]


@pytest.mark.parametrize(
    ("text", "shown"), [("plain", "plain"), ("a\nb\x1b[2J", "a\\nb\\x1b[2J"), ("人", "人"), ("x" * 200, "x" * 119 + "…")]
)
def test_a_cell_is_one_harmless_line(text, shown):
    assert visible(text) == shown
