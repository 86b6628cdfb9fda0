"""Models that lie on disk are served without a network, and one read that fails is not held against a file.

B083, roboflow/inference PR#2263: a box without a route refused its cached models, and its loader removed good files on
passing read errors.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy
import pytest

from edge_agent import errors
from tests.agent_process import ROOT
from tests.doubles.engine_host import until
from tests.io_shim import io_shim
from tests.serving_rig import Rig, add_model, running

ROW = numpy.array([[1, 2, 3, 4]], numpy.float32)
UNREADABLE = ("failed", "model.unreadable")

#: serves a repository, asks its model and tells how that went; where there is a gate it is removed on the way
SERVES = """
import asyncio, json, os, sys, time
from pathlib import Path
import numpy
from tests.serving_rig import running

ROW = numpy.array([[1, 2, 3, 4]], numpy.float32)

async def main(repository, gate):
    began = time.monotonic()
    async with running(repository, control_mode="poll", poll_interval_s=0.1) as rig:
        told = {"s": time.monotonic() - began, "ready": rig.serving.is_ready("add")}
        if gate:
            told["first"] = rig.serving.status()[0]["code"]
            await asyncio.sleep(0.5)
            told["later"] = rig.serving.status()[0]["code"]
            os.unlink(gate)
            await rig.until_ready("add")
        told["answer"] = (await rig.ask("add", ROW)).tolist()
        told["failures"] = sum(kind == "model.failed" for kind, _, _ in rig.journal.events)
    print(json.dumps(told))

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    add_model(folder, "add", "add_one.onnx")
    return folder


@pytest.fixture
def shim(tmp_path: Path) -> Dict[str, str]:
    folder = tmp_path / "shim"
    folder.mkdir()
    return io_shim(folder)


def serve(repository: Path, before: List[str], environ: Dict[str, str], gate: str = "") -> Any:
    made = subprocess.run(
        [*before, sys.executable, "-c", SERVES, str(repository), gate],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return json.loads(made.stdout.splitlines()[-1])


def without_network() -> List[str]:
    """What a command is begun with so that it has no network, not even loopback."""
    before = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody take the network away")
    return before


def content(repository: Path) -> Dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(repository.rglob("*")) if path.is_file()}


# -- no network ---------------------------------------------------------------------------------------------------------


def test_models_on_disk_are_served_as_fast_without_a_route_as_with_one(repository: Path) -> None:
    """B083, case 1: ready within two seconds of the time that it takes with a network; names and routes are not asked for."""
    apart = without_network()
    offline = [serve(repository, apart, {}) for _ in range(2)]
    online = [serve(repository, [], {}) for _ in range(2)]
    for told in (*offline, *online):
        assert told["ready"]
        assert told["answer"] == [[2, 3, 4, 5]]
    assert min(told["s"] for told in offline) < min(told["s"] for told in online) + 2.0


def test_loading_and_serving_connect_to_nothing_but_local_sockets(
    repository: Path, tmp_path: Path, shim: Dict[str, str]
) -> None:
    """B083: seen where the C library is called, in the agent's process and in the engine host's."""
    log = tmp_path / "connected"
    told = serve(repository, [], {**shim, "SHIM_LOG": str(log)})
    assert told["answer"] == [[2, 3, 4, 5]]
    assert not log.exists(), log.read_text()
    probe = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))"
    subprocess.run([sys.executable, "-c", probe], env={**os.environ, **shim, "SHIM_LOG": str(log)}, check=True, timeout=30)
    assert log.read_text() == "connect family 2\n"  # so it would have been seen


# -- a read that fails --------------------------------------------------------------------------------------------------


def test_a_model_that_the_agent_cannot_read_now_is_tried_again_and_served_with_its_file_untouched(
    repository: Path, tmp_path: Path, shim: Dict[str, str]
) -> None:
    """B083, case 6: EIO for the agent's own read, look after look; told once; nothing but time cures it."""
    gate = tmp_path / "gate"
    gate.touch()
    before = content(repository)
    told = serve(repository, [], {**shim, "SHIM_FILE": "/1/model.onnx", "SHIM_GATE": str(gate)}, str(gate))
    assert not told["ready"]
    assert (told["first"], told["later"]) == ("model.unreadable", "model.unreadable")
    assert told["answer"] == [[2, 3, 4, 5]]
    assert told["failures"] == 1
    assert content(repository) == before


def broken_reads(monkeypatch: pytest.MonkeyPatch, shim: Dict[str, str], gate: Path, **more: str) -> None:
    """Engine hosts that are started from now on cannot read the model while the gate is there."""
    for name, value in {**shim, "SHIM_FILE": "/1/model.onnx", "SHIM_GATE": str(gate), "SHIM_NAME": "host:", **more}.items():
        monkeypatch.setenv(name, value)
    gate.touch()


def state(rig: Rig) -> Any:
    (model,) = rig.serving.status()
    return model["state"], model["code"]


async def test_a_model_that_its_host_cannot_read_now_is_tried_again_at_the_next_look(
    repository: Path, tmp_path: Path, shim: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    broken_reads(monkeypatch, shim, gate)
    before = content(repository)
    async with running(repository, control_mode="poll", poll_interval_s=0.1) as rig:
        assert state(rig) == UNREADABLE
        gate.unlink()
        await rig.until_ready("add", 30)
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]
        assert [kind for kind, _, _ in rig.journal.events].count("model.failed") == 1
    assert content(repository) == before


async def test_one_read_that_fails_within_onnx_runtime_is_not_taken_for_a_broken_model(
    repository: Path, tmp_path: Path, shim: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime says of it that the model cannot be parsed."""
    gate = tmp_path / "gate"
    broken_reads(monkeypatch, shim, gate, SHIM_SKIP="1", SHIM_ONCE="1")  # the first read is the host's own look at the file
    async with running(repository, control_mode="explicit") as rig:
        assert not gate.exists()
        assert rig.serving.is_ready("add"), rig.serving.status()
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]


async def test_in_explicit_mode_a_read_that_fails_is_told_and_the_next_request_loads_the_model(
    repository: Path, tmp_path: Path, shim: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    broken_reads(monkeypatch, shim, gate)
    before = content(repository)
    async with running(repository, control_mode="explicit") as rig:
        assert state(rig) == UNREADABLE
        for _ in range(2):
            with pytest.raises(errors.EngineLoadError, match=r"model\.onnx: cannot be read: Input/output error"):
                await rig.serving.load_model("add")
        gate.unlink()
        await rig.serving.load_model("add")
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]
    assert content(repository) == before


async def test_what_serves_goes_on_while_its_new_file_cannot_be_read(
    repository: Path, tmp_path: Path, shim: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    broken_reads(monkeypatch, shim, gate)
    gate.unlink()
    async with running(repository, control_mode="poll", poll_interval_s=0.1) as rig:
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]
        gate.touch()
        model = repository / "add" / "1" / "model.onnx"
        model.write_bytes(model.read_bytes())  # the same, and newer: it is loaded anew
        await until(lambda: [kind for kind, _, _ in rig.journal.events].count("model.failed") == 1, 20)
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]
        gate.unlink()
        await until(lambda: [kind for kind, _, _ in rig.journal.events].count("model.loaded") == 2, 20)
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]


async def test_a_host_that_comes_back_and_cannot_read_its_model_now_serves_it_later(
    repository: Path, tmp_path: Path, shim: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    broken_reads(monkeypatch, shim, gate)
    gate.unlink()
    async with running(repository, control_mode="poll", poll_interval_s=0.1) as rig:
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]
        gate.touch()
        await rig.kill_host()
        await until(lambda: state(rig) == UNREADABLE, 20)
        gate.unlink()
        await rig.until_ready("add")
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]


async def test_a_broken_file_is_not_loaded_again_and_again(repository: Path) -> None:
    """What is wrong with the file itself is told once, and left until the file changes."""
    model = repository / "add" / "1" / "model.onnx"
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    async with running(repository, control_mode="poll", poll_interval_s=0.1) as rig:
        assert state(rig) == ("failed", "model.load_failed")
        since = rig.serving.status()[0]["since"]
        looks = rig.clock.monotonic() + 1.0
        await until(lambda: rig.clock.monotonic() > looks, 20)
        assert rig.serving.status()[0]["since"] == since
        model.write_bytes(whole)
        await rig.until_ready("add")
