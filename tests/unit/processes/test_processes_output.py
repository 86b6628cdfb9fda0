from __future__ import annotations

import asyncio
import os

from edge_agent.domain.clock import Clock
from edge_agent.processes.output import ChildOutput


class Told(Clock):
    """A clock that stands where it is told."""

    def __init__(self) -> None:
        super().__init__("boot")
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


async def test_a_line_of_long_ago_says_nothing_about_the_end():
    theirs, ours = os.pipe()
    clock = Told()
    output = ChildOutput(theirs, "odd", clock)
    os.write(ours, b"AttributeError: of a model that failed and lived on\n")
    for _ in range(100):
        await asyncio.sleep(0.01)
        if output.last:
            break
    assert output.last.startswith("AttributeError")
    clock.seconds += 27
    assert output.last == ""
    os.write(ours, b"Segmentation fault\n")
    os.close(ours)
    output.close()
    assert output.last == "Segmentation fault"
