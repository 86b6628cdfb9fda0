from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from edge_agent.device.board import read_board
from edge_agent.device.jetpack import read_jetpack
from edge_agent.device.matrix import Release, matrix, numbers
from edge_agent.device.sysfs import DeviceReader
from tests.jetson_roots import AGX_ORIN, NANO, ORIN_NANO, ORIN_ON_7, THOR, XAVIER_NX, Jetson

ROWS = [
    pytest.param(release, l4t, soc, id="%s-%s" % (l4t, soc))
    for release in matrix().releases
    for l4t in release.l4t
    for soc in release.socs
]


@pytest.mark.parametrize(("release", "l4t", "soc"), ROWS)
def test_each_row_of_the_table_is_found(tmp_path: Path, release: Release, l4t: str, soc: str) -> None:
    found = read_jetpack(Jetson("a board", "nvidia,%s" % soc, l4t).plant(tmp_path))
    assert (found.name, found.release, found.note) == (release.jetpack, release, "")
    assert found.family is not None
    assert numbers(l4t)[0] in found.family.l4t_majors
    assert found.soc is not None
    assert (found.soc.name, found.sm) == (soc, found.soc.sm)


@pytest.mark.parametrize(
    ("board", "module", "name", "sm", "python"),
    [
        pytest.param(NANO, "p3448-0000", "4.6.6", 53, "3.6", id="nano"),
        pytest.param(XAVIER_NX, "p3668-0000", "5.1.4", 72, "3.8", id="xavier nx"),
        pytest.param(ORIN_NANO, "p3767-0005", "6.2", 87, "3.10", id="orin nano"),
        pytest.param(AGX_ORIN, "p3701-0005", "6.0", 87, "3.10", id="agx orin"),
        pytest.param(THOR, "p3834-0008", "7.0", 110, "3.12", id="thor"),
        pytest.param(ORIN_ON_7, "p3701-0005", "7.2.2", 87, "3.12", id="agx orin on 7"),
    ],
)
def test_each_board_is_known(tmp_path: Path, board: Jetson, module: str, name: str, sm: int, python: str) -> None:
    root = board.plant(tmp_path)
    found = read_jetpack(root)
    assert (read_board(root).module, found.name, found.sm) == (module, name, sm)
    assert found.family is not None
    assert found.family.python == python


def test_a_module_is_found_by_the_name_of_the_device_tree_s_source(tmp_path: Path) -> None:
    dts = "/dvs/git/hardware/tegra210-p3448-0002-p3449-0000-b00.dts"
    assert read_board(Jetson("a Nano", "nvidia,jetson-nano|nvidia,tegra210", dts=dts).plant(tmp_path)).module == "p3448-0002"


def test_a_carrier_alone_is_no_module(tmp_path: Path) -> None:
    assert read_board(Jetson("x", "nvidia,p3768-0000|nvidia,tegra234").plant(tmp_path)).module is None


@pytest.mark.parametrize(
    ("l4t", "name", "nearest", "note"),
    [
        ("36.9", "6.x", "6.2.3", "L4T 36.9 is newer than known: taken as 36.5.2 (JetPack 6.2.3)"),
        ("36.9.1", "6.x", "6.2.3", "L4T 36.9.1 is newer than known: taken as 36.5.2 (JetPack 6.2.3)"),
        ("36.4.5", "6.x", "6.2.1", "L4T 36.4.5 is not in the table: taken as 36.4.4 (JetPack 6.2.1)"),
        ("36.2.0", "6.x", "6.0", "L4T 36.2.0 is older than known: taken as 36.3.0 (JetPack 6.0)"),
        ("39.1.0", "7.x", "7.2 EA", "L4T 39.1.0 is not in the table: taken as 39.0.0 (JetPack 7.2 EA)"),
        ("39.3", "7.x", "7.2.2", "L4T 39.3 is newer than known: taken as 39.2.2 (JetPack 7.2.2)"),
        ("41.1.0", None, None, "L4T 41.1.0 is newer than this version of the agent knows: its JetPack is not guessed"),
        ("34.1.1", None, None, "L4T 34.1.1 is none that this agent knows: its JetPack is not guessed"),
        ("28.5.0", None, None, "L4T 28.5.0 is none that this agent knows: its JetPack is not guessed"),
    ],
)
def test_an_unknown_release_is_taken_as_the_nearest_of_its_major(
    tmp_path: Path, l4t: str, name: Optional[str], nearest: Optional[str], note: str
) -> None:
    found = read_jetpack(Jetson("an Orin", "nvidia,tegra234", l4t).plant(tmp_path))
    assert (found.name, found.release.jetpack if found.release else None, found.note) == (name, nearest, note)
    assert (found.family is None) == (name is None)
    assert found.sm == 87


def test_two_numbers_are_that_release_with_a_nought(tmp_path: Path) -> None:
    assert read_jetpack(Jetson("x", "nvidia,tegra234", "36.4").plant(tmp_path)).name == "6.1"


def test_a_jetson_that_hides_its_release_keeps_its_chip(tmp_path: Path) -> None:
    found = read_jetpack(Jetson("Yocto on an Orin", "nvidia,p3701-0000|nvidia,tegra234").plant(tmp_path))
    assert (found.name, found.family, found.sm) == (None, None, 87)
    assert found.note == "tegra234, but nothing tells its L4T release"


def test_a_release_on_a_chip_that_it_is_not_made_for_is_said(tmp_path: Path) -> None:
    found = read_jetpack(Jetson("a Nano", "nvidia,tegra210", "36.4.3").plant(tmp_path))
    assert (found.name, found.note) == ("6.2", "JetPack 6.2 is not made for tegra210 (Nano, TX1)")


def test_a_chip_that_nobody_knows_yet_is_said(tmp_path: Path) -> None:
    found = read_jetpack(Jetson("a board to come", "nvidia,tegra299", "39.2.0").plant(tmp_path))
    assert (found.sm, found.note) == (None, "the chip tegra299 is not in the table")


def test_a_release_file_without_a_device_tree_is_a_container_and_has_its_jetpack(tmp_path: Path) -> None:
    root = ORIN_NANO.plant(tmp_path)
    for file in (root / "proc/device-tree").iterdir():
        file.unlink()
    found = read_jetpack(root)
    assert (found.name, found.sm, found.note) == ("6.2", None, "")


def test_a_pc_is_no_jetson(tmp_path: Path) -> None:
    found = read_jetpack(tmp_path)
    assert (found.name, found.family, found.release, found.soc, found.sm, found.note) == (None, None, None, None, None, "")


@pytest.mark.parametrize(
    "compatible", [b"", b"\0\0\0", b"nvidia,tegra", b"nvidia,tegra" + b"9" * 100_000, b"\xff" * 4096, b"nvidia,tegra2345"]
)
def test_a_garbled_device_tree_is_no_jetson_and_never_raises(tmp_path: Path, compatible: bytes) -> None:
    root = ORIN_NANO.plant(tmp_path)
    (root / "etc/nv_tegra_release").unlink()
    (root / "proc/device-tree/compatible").write_bytes(compatible)
    assert (read_jetpack(root).sm, read_board(root).module) == (None, None)


def test_the_device_s_values_carry_it(tmp_path: Path) -> None:
    values = DeviceReader(ORIN_NANO.plant(tmp_path)).read()
    assert {key: values[key] for key in ("l4t", "jetpack", "jetpack_note", "module", "sm")} == {
        "l4t": "36.4.3",
        "jetpack": "6.2",
        "jetpack_note": None,
        "module": "p3767-0005",
        "sm": 87,
    }


def test_the_device_s_values_say_what_an_unknown_release_is_taken_for(tmp_path: Path) -> None:
    values = DeviceReader(Jetson("x", "nvidia,tegra234", "36.9").plant(tmp_path)).read()
    assert (values["jetpack"], values["jetpack_note"]) == (
        "6.x",
        "L4T 36.9 is newer than known: taken as 36.5.2 (JetPack 6.2.3)",
    )
