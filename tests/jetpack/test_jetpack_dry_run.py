"""What jetpack/bootstrap.sh would do on each board, command by command."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import List, NamedTuple

import pytest

from edge_agent.device.jetpack import read_jetpack
from tests.jetson_roots import AGX_ORIN, NANO, ORIN_NANO, ORIN_ON_7, THOR, XAVIER_NX, Jetson

REPO = Path(__file__).resolve().parents[2]
PACK = REPO / "jetpack"
PATH = "PATH=/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOOK = "import %s as m; import numpy; print(getattr(m, '__version__', ''), m.__file__, 'numpy', numpy.__version__)"


class Said(NamedTuple):
    code: int
    commands: List[List[str]]
    files: List[str]
    output: str
    errors: str


def _dry_run(root: Path, *options: str) -> Said:
    done = subprocess.run(
        [str(PACK / "bootstrap.sh"), "--dry-run", "--root", str(root), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    commands = [shlex.split(line[2:]) for line in lines if line.startswith("+ ")]
    return Said(done.returncode, commands, [line[2:] for line in lines if line.startswith("> ")], done.stdout, done.stderr)


def _pip(venv: str, *words: str) -> List[str]:
    return [venv + "/bin/python", "-m", "pip", "install", "--disable-pip-version-check", *words]


def _agent(venv: str, constraints: str) -> List[List[str]]:
    source = venv + "-source"
    limits = ["-c", str(PACK / constraints)]
    return [
        ["rm", "-rf", source],
        ["mkdir", "-p", source],
        ["cp", "-r", *(str(REPO / name) for name in ("edge_agent", "pyproject.toml", "README.md")), source],
        _pip(venv, *limits, "--upgrade", "pip", "setuptools>=61", "wheel"),
        _pip(venv, *limits, "--no-build-isolation", source + "[jetson]"),
        ["rm", "-rf", source],
    ]


def _pycuda(venv: str, constraints: str) -> List[str]:
    env = ["env", "CUDA_ROOT=/usr/local/cuda", PATH, "LIBRARY_PATH=/usr/local/cuda/lib64/stubs"]
    return [*env, *_pip(venv, "-c", str(PACK / constraints), "--no-build-isolation", "pycuda")]


def _checks(venv: str, host: str) -> List[List[str]]:
    modules = ("tensorrt", "pycuda.driver", "cv2")
    return [[venv + "/bin/edge-agent", "version"], *([host + "/bin/python", "-I", "-c", LOOK % module] for module in modules)]


def test_a_nano_gets_an_agent_on_3_8_and_a_host_on_3_6(tmp_path: Path) -> None:
    said = _dry_run(NANO.plant(tmp_path))
    host, limits = "/opt/edge-agent-host", ["-c", str(PACK / "constraints-jp4-host.txt")]
    assert said.code == 0
    assert said.commands == [
        ["/usr/bin/python3.8", "-m", "venv", "/opt/edge-agent"],
        *_agent("/opt/edge-agent", "constraints-jp4-agent.txt"),
        ["/usr/bin/python3.6", "-m", "venv", "--system-site-packages", host],
        _pip(host, *limits, "--upgrade", "pip", "setuptools", "wheel"),
        _pip(host, *limits, "numpy"),
        _pycuda(host, "constraints-jp4-host.txt"),
        *_checks("/opt/edge-agent", host),
    ]
    assert said.files == [
        host + "/lib/python3.6/site-packages/edge_agent_openblas.pth",
        "/opt/edge-agent/.bootstrap",
        "/etc/edge-agent/conf.d/10-jetpack.toml",
    ]
    assert '[hosts.gpu]\n  | python = "%s/bin/python"' % host in said.output
    assert '[vision]\n  | python = "%s/bin/python"' % host in said.output


@pytest.mark.parametrize(
    ("board", "python", "constraints"),
    [
        pytest.param(XAVIER_NX, "3.8", "constraints-jp5.txt", id="xavier nx"),
        pytest.param(ORIN_NANO, "3.10", "constraints-jp6.txt", id="orin nano"),
        pytest.param(AGX_ORIN, "3.10", "constraints-jp6.txt", id="agx orin"),
        pytest.param(THOR, "3.12", "constraints-jp7.txt", id="thor"),
        pytest.param(ORIN_ON_7, "3.12", "constraints-jp7.txt", id="agx orin on 7"),
        pytest.param(Jetson("x", "nvidia,tegra234", dpkg="36.4.4-20250616"), "3.10", "constraints-jp6.txt", id="by dpkg"),
        pytest.param(Jetson("x", "nvidia,tegra234", "36.9"), "3.10", "constraints-jp6.txt", id="newer than known"),
    ],
)
def test_others_get_one_venv_that_sees_jetpack_s_packages(tmp_path: Path, board: Jetson, python: str, constraints: str) -> None:
    said = _dry_run(board.plant(tmp_path))
    assert said.code == 0
    assert said.commands == [
        ["/usr/bin/python" + python, "-m", "venv", "--system-site-packages", "/opt/edge-agent"],
        *_agent("/opt/edge-agent", constraints),
        _pycuda("/opt/edge-agent", constraints),
        *_checks("/opt/edge-agent", "/opt/edge-agent"),
    ]
    assert said.files == ["/opt/edge-agent/.bootstrap", "/etc/edge-agent/conf.d/10-jetpack.toml"]
    assert '[hosts.gpu]\n  | python = "/opt/edge-agent/bin/python"' in said.output


def test_a_machine_that_is_no_jetson_gets_the_agent_with_its_own_opencv_and_nothing_else(tmp_path: Path) -> None:
    said = _dry_run(tmp_path, "--python", "/usr/bin/python3.11", "--prefix", "/srv/agent")
    source = "/srv/agent-source"
    assert (said.code, said.files) == (0, ["/srv/agent/.bootstrap"])
    assert [command for command in said.commands if command[0] not in ("rm", "mkdir", "cp")] == [
        ["/usr/bin/python3.11", "-m", "venv", "/srv/agent"],
        _pip("/srv/agent", "--upgrade", "pip", "setuptools>=61", "wheel"),
        _pip("/srv/agent", "--no-build-isolation", source + "[cpu]"),
        ["/srv/agent/bin/edge-agent", "version"],
    ]
    assert said.errors == "No Jetson: ONNX Runtime on the CPU\n"


def test_places_and_interpreters_can_be_others(tmp_path: Path) -> None:
    wheels = tmp_path / "some wheels"
    wheels.mkdir()
    options = ["--prefix", "/srv/a", "--config", "/srv/etc/", "--python", "/p/8", "--host-python", "/p/6", "--cuda", "/cuda"]
    said = _dry_run(NANO.plant(tmp_path / "root"), *options, "--offline", str(wheels))
    pips = [command for command in said.commands if "pip" in command]
    assert [command[0] for command in said.commands if "venv" in command] == ["/p/8", "/p/6"]
    assert {tuple(command[command.index("--no-index") :][:3]) for command in pips} == {
        ("--no-index", "--find-links", str(wheels))
    }
    assert [word for command in pips for word in command if word.startswith("CUDA_ROOT=")] == ["CUDA_ROOT=/cuda"]
    assert said.files[-1] == "/srv/etc/conf.d/10-jetpack.toml"
    assert '"/srv/a-host/bin/python"' in said.output


def test_nothing_is_written_and_nothing_is_installed_by_a_dry_run(tmp_path: Path) -> None:
    root = NANO.plant(tmp_path / "root")
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    assert _dry_run(root, "--prefix", str(tmp_path / "agent"), "--config", str(tmp_path / "etc")).code == 0
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "board",
    [
        pytest.param(Jetson("Yocto", "nvidia,tegra234"), id="no release"),
        pytest.param(Jetson("x", "nvidia,tegra234", "41.1.0"), id="too new"),
        pytest.param(Jetson("x", "nvidia,tegra210", "28.5.0"), id="too old"),
    ],
)
def test_a_jetson_that_cannot_be_told_is_asked_about_and_can_be_named(tmp_path: Path, board: Jetson) -> None:
    root = board.plant(tmp_path)
    said = _dry_run(root)
    assert (said.code, said.commands) == (1, [])
    assert "--jetpack" in said.errors
    assert _dry_run(root, "--jetpack", "6").commands[0][0] == "/usr/bin/python3.10"
    assert _dry_run(root, "--jetpack", "none", "--python", "/p").commands[0] == ["/p", "-m", "venv", "/opt/edge-agent"]


@pytest.mark.parametrize(
    "release", ["", "\0\0\0", "# R36 (release), REVISION: \n", "# R36 (release), REVISION: 4.3.2.1.0\n", "x" * 100_000]
)
def test_a_garbled_release_file_is_none(tmp_path: Path, release: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").write_text(release)
    said = _dry_run(tmp_path, "--python", "/p")
    assert (said.code, said.errors) == (0, "No Jetson: ONNX Runtime on the CPU\n")


_MANY = [
    "32.6.1",
    "32.7.6",
    "34.1.0",
    "35.1.0",
    "35.6.5",
    "36.3",
    "36.4.7",
    "36.99.1",
    "38.2.1",
    "38.4.0",
    "39.0.0",
    "39.2.2",
    "40.1.0",
]


@pytest.mark.parametrize("by", ["l4t", "dpkg"])
@pytest.mark.parametrize("l4t", _MANY)
def test_the_shell_and_the_agent_see_the_same_family(tmp_path: Path, l4t: str, by: str) -> None:
    board = Jetson("x", "nvidia,tegra234", l4t) if by == "l4t" else Jetson("x", "nvidia,tegra234", dpkg=l4t + "-2025")
    family = read_jetpack(board.plant(tmp_path)).family
    said = _dry_run(tmp_path)
    if family is None:
        assert (said.code, said.commands) == (1, [])
        assert "L4T %s " % l4t in said.errors
    else:
        assert said.errors == "L4T %s: JetPack %s\n" % (l4t, family.jetpack)
        assert said.commands[0][0] == "/usr/bin/python" + family.agent_python


def test_a_package_whose_configuration_only_is_left_does_not_count(tmp_path: Path) -> None:
    board = Jetson("x", "nvidia,tegra234", dpkg="36.4.4-1", status="deinstall ok config-files")
    assert _dry_run(board.plant(tmp_path)).code == 1


@pytest.mark.parametrize(
    "options",
    [["--nonsense"], ["--prefix"], ["--prefix", ""], ["--jetpack", "8"], ["--config", 'a"b'], ["--offline", "/not/there"]],
)
def test_a_wrong_option_is_refused(tmp_path: Path, options: List[str]) -> None:
    said = _dry_run(tmp_path, *options)
    assert (said.code, said.commands) == (2, [])
    assert said.errors.startswith("bootstrap: ")


@pytest.mark.parametrize("script", ["bootstrap.sh", "fetch-wheels"])
@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing(script: str) -> None:
    done = subprocess.run(
        ["shellcheck", "-x", "jetpack/" + script], cwd=str(REPO), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
