"""Which try comes next."""

import pytest

from edge_agent.engine_host.build.failures import lacks_implementation, lacks_memory
from edge_agent.engine_host.build.tries import Tries

SIZES = [256, 128, 64]
MEMORY, KERNEL = "after_memory", "after_implementation"


def tried(answers, larger=0, can_be_lean=True, short=False):
    """(workspace, lean) of each try, with these ends; all of them must have been asked for."""
    tries = Tries(SIZES, larger, can_be_lean, short)
    found = [(tries.workspace, tries.lean)]
    for number, answer in enumerate(answers, 1):
        more = getattr(tries, answer)()
        assert more or number == len(answers)
        if more:
            found.append((tries.workspace, tries.lean))
    return found


@pytest.mark.parametrize(
    ("answers", "options", "expected"),
    [
        ([], {}, [(256, False)]),
        ([], {"short": True}, [(256, True)]),
        ([], {"short": True, "can_be_lean": False}, [(256, False)]),
        ([MEMORY] * 3, {}, [(256, False), (128, True), (64, True)]),
        ([MEMORY] * 3, {"can_be_lean": False}, [(256, False), (128, False), (64, False)]),
        ([KERNEL], {}, [(256, False)]),
        ([KERNEL] * 2, {"larger": 512}, [(256, False), (512, False)]),
        ([KERNEL], {"can_be_lean": False}, [(256, False)]),
        ([KERNEL] * 2, {"can_be_lean": False, "larger": 512}, [(256, False), (512, False)]),
        ([KERNEL] * 2, {"short": True}, [(256, True), (256, False)]),
        ([KERNEL] * 3, {"short": True, "larger": 512}, [(256, True), (256, False), (512, False)]),
        ([KERNEL, MEMORY, MEMORY, MEMORY], {"short": True}, [(256, True), (256, False), (128, False), (64, False)]),
        ([KERNEL, MEMORY], {"larger": 512, "can_be_lean": False}, [(256, False), (512, False)]),
        ([MEMORY, KERNEL, KERNEL], {"larger": 512}, [(256, False), (128, True), (256, True)]),
    ],
)
def test_memory_makes_it_smaller_and_want_of_kernels_never(answers, options, expected):
    assert tried(answers, **options) == expected


@pytest.mark.parametrize(
    ("line", "memory", "implementation"),
    [
        ("Error Code 2: OutOfMemory (no further information): Cuda Runtime (out of memory)", True, False),
        ("Could not find any implementation for node Conv_0.", False, True),
        ("Tactic Device request: 538MB Available: 166MB. Device memory is insufficient to use tactic.", True, False),
        ("Skipping tactic 3 due to insufficient memory on requested size of 538", True, False),
        ("Assertion failed", False, False),
    ],
)
def test_tensorrt_s_words_are_told_apart(line, memory, implementation):
    assert (lacks_memory([line]), lacks_implementation([line])) == (memory, implementation)


def test_kernels_that_were_skipped_for_want_of_workspace_are_no_want_of_memory():
    lines = ["Skipping tactic 3 due to insufficient memory on requested size of 538", "Could not find any implementation for x"]
    assert (lacks_memory(lines), lacks_implementation(lines)) == (False, True)
