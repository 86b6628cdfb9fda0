"""Memory that a GPU takes of the machine's own."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

import pytest

from edge_agent.engines.shared_memory import shared_shortage
from tests.jetson_memory import machine, process

MB = 1 << 20
BOUND = 1024 * MB


def short(root: Path, used: int = 300, bound: int = BOUND) -> str:
    return shared_shortage(root, bound, 7, used * MB)


def test_a_host_whose_gpu_has_nearly_all_of_the_memory_is_to_blame(tmp_path: Path) -> None:
    machine(tmp_path, available=150)
    process(tmp_path, 7, 300)
    process(tmp_path, 8, 900)
    assert short(tmp_path) == "the machine has 150 MB left, under 198 MB, and it takes about 2650 MB with its GPU's buffers"


@pytest.mark.parametrize(
    ("fields", "bound"),
    [
        ({"available": 210}, BOUND),
        ({"available": 150, "total": 2000}, BOUND),
        ({"available": 150}, 140 * MB),
        ({"available": 210, "total": 32000}, BOUND),
    ],
    ids=["enough", "small board", "small bound", "large board"],
)
def test_above_the_floor_nobody_is(tmp_path: Path, fields: Dict[str, int], bound: int) -> None:
    machine(tmp_path, **fields)
    assert short(tmp_path, bound=bound) == ""


def test_another_process_that_has_more_is_to_blame_itself(tmp_path: Path) -> None:
    machine(tmp_path, available=150, anonymous=3000)
    process(tmp_path, 8, 2500)
    assert short(tmp_path) == ""


def test_swap_within_memory_is_not_the_gpu_s(tmp_path: Path) -> None:
    machine(tmp_path, available=150)
    process(tmp_path, 8, 2500)
    assert short(tmp_path)
    (tmp_path / "sys/block/zram0").mkdir(parents=True)
    (tmp_path / "sys/block/zram0/mm_stat").write_text("999 888 %d 0 0 0 0 0\n" % (500 * MB))
    assert short(tmp_path) == ""


def test_where_the_kernel_tells_nothing_nobody_is(tmp_path: Path) -> None:
    assert short(tmp_path) == ""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 4059000 kB\n")
    assert short(tmp_path) == ""
