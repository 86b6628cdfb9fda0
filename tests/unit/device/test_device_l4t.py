from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.device.l4t import read_l4t
from tests.jetson_roots import ORIN_NANO, Jetson, release_line


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("l4t", ["32.7.6", "35.1.0", "36.4", "38.2.1", "39.0.0"])
def test_the_release_file_tells_it(tmp_path: Path, l4t: str) -> None:
    _write(tmp_path / "etc/nv_tegra_release", release_line(l4t).encode())
    assert read_l4t(tmp_path) == l4t


@pytest.mark.parametrize(
    ("dpkg", "l4t"),
    [
        ("36.4.3-20250107174145", "36.4.3"),
        ("32.7.1-20220219090432", "32.7.1"),
        ("38.2.0", "38.2.0"),
        ("36.4.3.1~rc1", "36.4.3.1"),
        ("unknown", None),
        ("", None),
        ("36", None),
        ("36.4.3.1.9", None),
        ("99999999999999.1", None),
    ],
)
def test_without_it_dpkg_does(tmp_path: Path, dpkg: str, l4t: str) -> None:
    assert read_l4t(Jetson("x", "nvidia,tegra234", dpkg=dpkg).plant(tmp_path)) == l4t


def test_the_release_file_comes_first(tmp_path: Path) -> None:
    assert read_l4t(Jetson("x", "nvidia,tegra234", l4t="36.4.3", dpkg="36.4.4-1").plant(tmp_path)) == "36.4.3"


def test_a_release_file_that_says_nothing_gives_way_to_dpkg(tmp_path: Path) -> None:
    Jetson("x", "nvidia,tegra234", dpkg="36.4.4-1").plant(tmp_path)
    _write(tmp_path / "etc/nv_tegra_release", b"# a file of somebody's own\n")
    assert read_l4t(tmp_path) == "36.4.4"


@pytest.mark.parametrize("status", ["deinstall ok config-files", "install ok half-installed", ""])
def test_a_package_that_is_not_installed_does_not_count(tmp_path: Path, status: str) -> None:
    assert read_l4t(Jetson("x", "nvidia,tegra234", dpkg="36.4.4-1", status=status).plant(tmp_path)) is None


def test_the_package_may_be_the_last_without_an_empty_line(tmp_path: Path) -> None:
    _write(tmp_path / "var/lib/dpkg/status", b"Package: nvidia-l4t-core\nStatus: install ok installed\nVersion: 35.6.1-1")
    assert read_l4t(tmp_path) == "35.6.1"


def test_on_another_chip_dpkg_is_left_alone(tmp_path: Path) -> None:
    assert read_l4t(Jetson("x", "nvidia,tegra234", dpkg="36.4.4-1").plant(tmp_path), tegra=False) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff\xfe" * 1000,
        b"# R36 (release), REVISION: \n",
        b"# R36 (release), REVISION: 4.3.2.1.0, x\n",
        b"# R99999 (release), REVISION: 1.0, x\n",
        b"# R" + b"9" * 100_000 + b" (release), REVISION: 1.0\n",
        "# R٣٦ (release), REVISION: ٤.٣, x\n".encode(),
        b"Package: nvidia-l4t-core\n" * 10_000,
        b"Package: nvidia-l4t-core\nStatus: install ok installed\nVersion: " + b"1." * 50_000,
        b"Package: nvidia-l4t-core\nStatus: install ok installed\n\n",
        b":" * 1_000_000,
    ],
)
def test_garbage_is_unknown_and_never_raises(tmp_path: Path, content: bytes) -> None:
    _write(tmp_path / "etc/nv_tegra_release", content)
    _write(tmp_path / "var/lib/dpkg/status", content)
    assert read_l4t(tmp_path) is None


def test_folders_and_dangling_links_in_their_places_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "etc/nv_tegra_release").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").symlink_to(tmp_path / "nowhere")
    assert read_l4t(tmp_path) is None


def test_nothing_there_is_unknown(tmp_path: Path) -> None:
    assert read_l4t(ORIN_NANO.plant(tmp_path / "a")) == "36.4.3"
    assert read_l4t(tmp_path / "not/there") is None
