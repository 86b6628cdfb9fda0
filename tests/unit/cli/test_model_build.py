from __future__ import annotations

import io

from edge_agent.cli.model_build import Progress

BUILD = {"state": "building", "phase": "build", "percent": 43.0, "eta_s": None, "tries": 1, "reason": "", "text": ""}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_is_written_over():
    out = Terminal()
    progress = Progress(out, "face/1:")
    progress.show(BUILD)
    progress.show({**BUILD, "percent": 44.0, "text": "\x1b[2J"})
    progress.end()
    assert out.getvalue() == "\rface/1: builds, 43 %\x1b[K\rface/1: builds, 44 % \\x1b[2J\x1b[K\n"


def test_elsewhere_a_line_comes_with_each_phase_and_each_try():
    out = io.StringIO()
    progress = Progress(out, "face/1:")
    for build in (
        BUILD,
        {**BUILD, "percent": 44.0},
        {**BUILD, "phase": "serialize"},
        {**BUILD, "phase": "serialize", "tries": 2},
    ):
        progress.show(build)
    progress.end()
    assert out.getvalue().splitlines() == [
        "face/1: builds, 43 %", "face/1: writes the plan, 43 %", "face/1: writes the plan, 43 %, try 2",
    ]  # fmt: skip


def test_nothing_shown_leaves_no_empty_line():
    out = Terminal()
    Progress(out, "face/1:").end()
    assert out.getvalue() == ""
