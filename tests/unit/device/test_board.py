from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from edge_agent.device.board import Board, agent_id, read_board, root_of


def test_an_orin_nano_is_recognised(orin_nano: Path) -> None:
    assert read_board(orin_nano) == Board(
        model="NVIDIA Jetson Orin Nano Developer Kit",
        soc="tegra234",
        serial="1421123456789",
        l4t="36.4.3",
        machine_id="0123456789abcdef0123456789abcdef",
        module="p3767-0005",
    )


def test_a_nano_is_recognised(nano: Path) -> None:
    board = read_board(nano)
    assert (board.soc, board.l4t, board.machine_id) == ("tegra210", "32.7.1", None)


def test_a_machine_that_tells_nothing_is_all_none(bare: Path) -> None:
    assert read_board(bare) == Board(None, None, None, None, None)


def test_the_id_is_twelve_digits_of_the_serials_hash(orin_nano: Path) -> None:
    assert agent_id(orin_nano) == hashlib.sha256(b"1421123456789").hexdigest()[:12]


@pytest.mark.parametrize("nothing", ["", "0000000000000", "Default string", "To Be Filled By O.E.M."])
def test_a_serial_that_says_nothing_gives_way_to_the_machine_id(orin_nano: Path, nothing: str) -> None:
    (orin_nano / "proc/device-tree/serial-number").write_text(nothing)
    assert agent_id(orin_nano) == hashlib.sha256(b"0123456789abcdef0123456789abcdef").hexdigest()[:12]


def test_two_boards_have_two_ids_and_keep_them(orin_nano: Path, nano: Path) -> None:
    assert agent_id(orin_nano) == agent_id(orin_nano) != agent_id(nano)


def test_without_serial_and_machine_id_the_machines_name_counts(bare: Path) -> None:
    (bare / "etc").mkdir()
    (bare / "etc/hostname").write_text("dock-3\n")
    assert agent_id(bare) == hashlib.sha256(b"dock-3").hexdigest()[:12]


def test_a_pc_tells_by_dmi(bare: Path) -> None:
    dmi = bare / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "product_name").write_text("ThinkCentre\n")
    (dmi / "product_serial").write_text("PC1234\n")
    board = read_board(bare)
    assert (board.model, board.serial, board.soc) == ("ThinkCentre", "PC1234", None)


@pytest.mark.parametrize("release", ["", "R36", "# KERNEL_VARIANT: oot\n", "\x00\xff"])
def test_an_odd_release_file_is_unknown(orin_nano: Path, release: str) -> None:
    (orin_nano / "etc/nv_tegra_release").write_text(release)
    assert read_board(orin_nano).l4t is None


def test_the_root_can_be_moved() -> None:
    assert root_of({"EDGE_AGENT_ROOT": "/fake"}) == Path("/fake")
    assert root_of({"EDGE_AGENT_ROOT": ""}) == root_of({}) == Path("/")
