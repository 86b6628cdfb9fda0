"""Models in several versions, whose difference a test chooses, and traffic until something came of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy
from onnx import TensorProto, helper, save

from edge_agent.domain.clock import Clock
from tests.serving_rig import TRICKS, Rig

#: agreement by value, and no judgement on time: tests share a busy machine
ACCEPT = "[accept]\nmax_abs_error = 0.01\nmax_p95_ms = 60000\nshadow_requests = 20\n"

#: like a tiny model, but its second version can do what it likes
PYTHON = """
import os, time

class Model:
    def load(self, config):
        %s

    def infer(self, inputs):
        x = inputs["x"]
        %s
        return {"y": x + 1}
"""
PYTHON_CONFIG = (
    'max_batch_size = 8\ninput = [{name = "x", data_type = "TYPE_FP32", dims = [4]}]\n'
    'output = [{name = "y", data_type = "TYPE_FP32", dims = [4]}]\n'
)


def add_affine(repository: Path, name: str, version: int, config: str = "", offset: float = 1.0, factor: float = 1.0) -> None:
    """A version that answers x * factor + offset, rows of four."""
    constants = [helper.make_tensor(key, TensorProto.FLOAT, [], [value]) for key, value in (("f", factor), ("o", offset))]
    nodes = [helper.make_node("Mul", ["x", "f"], ["m"]), helper.make_node("Add", ["m", "o"], ["y"])]
    x, y = (helper.make_tensor_value_info(key, TensorProto.FLOAT, ["N", 4]) for key in "xy")
    graph = helper.make_graph(nodes, "affine", [x], [y], constants)
    _put(repository, name, version, config, graph)


def add_tricks_version(repository: Path, name: str, version: int, config: str = "", offset: float = 0.0) -> None:
    """A version whose detections are labelled with the picture's value and the offset: see TRICKS for what harms."""
    constants = [helper.make_tensor("offset", TensorProto.FLOAT, [], [offset])]
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Add", ["flat", "offset"], ["scores"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 3])
    graph = helper.make_graph(nodes, "tricks", [image], [scores], constants)
    _put(repository, name, version, config + '[decode]\nkind = "python:tricks:Decoder"\n', graph)
    (repository / name / "tricks.py").write_text(TRICKS)


def add_python(repository: Path, name: str, version: int, config: str = "", load: str = "pass", infer: str = "pass") -> None:
    """A Python version that answers x + 1 after a line of its own."""
    _folder(repository, name, version, PYTHON_CONFIG + config)
    (repository / name / str(version) / "model.py").write_text(PYTHON % (load, infer))


def _put(repository: Path, name: str, version: int, config: str, graph: Any) -> None:
    folder = _folder(repository, name, version, config)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    save(model, str(folder / ".model"))
    (folder / ".model").rename(folder / "model.onnx")


def _folder(repository: Path, name: str, version: int, config: str) -> Path:
    folder = repository / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    file = repository / name / "config.toml"
    if config and (not file.exists() or file.read_text() != config):
        file.write_text(config)
    return folder


def rows(value: float = 1.0, count: int = 1) -> Any:
    """An input of the affine and the Python models."""
    return numpy.full((count, 4), value, numpy.float32) + numpy.arange(4, dtype=numpy.float32)


def shown(rig: Rig, name: str) -> Dict[str, Any]:
    """Versions of a model by number, as the status has them."""
    (model,) = [model for model in rig.serving.status() if model["name"] == name]
    return {version["version"]: version for version in model["versions"]}


def kinds(rig: Rig, name: str) -> List[Any]:
    """What became of a model's versions, in order: (kind, subject, code)."""
    wanted = ("model.promoted", "model.rolled_back", "model.shadowing")
    return [event for event in rig.journal.events if event[0] in wanted and event[1].split("/")[0] == name]


async def until(condition: Callable[[], Any], within_s: float = 30.0, tell: Callable[[], Any] = lambda: "") -> None:
    """Waits for something that stays true."""
    end = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < end, tell()
        await asyncio.sleep(0.02)


async def ask_until(rig: Rig, name: str, condition: Callable[[], Any], offset: float = 1.0, within_s: float = 40.0) -> int:
    """Asks an affine or Python model one request after another; every answer must be x + offset. How many were asked."""
    loop = asyncio.get_running_loop()
    end, asked = loop.time() + within_s, 0
    while not condition():
        assert loop.time() < end, rig.serving.status()
        x = rows(float(asked % 7))
        answer = await rig.ask(name, x)
        asked += 1
        if not condition():
            assert answer.tolist() == (x + offset).tolist()
        await asyncio.sleep(0.002)
    return asked


class Ahead(Clock):
    """A clock that a test puts forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        """So much later than it is."""
        return super().monotonic() + self.ahead_s


def spoil(path: Path) -> Tuple[bytes, os.stat_result]:
    """Makes a file unusable; neither size nor time nor identity tell. What `mend` needs."""
    content, stat = path.read_bytes(), path.stat()
    _overwrite(path, b"\0" * len(content), stat)
    return content, stat


def mend(path: Path, spoilt: Tuple[bytes, os.stat_result]) -> None:
    """Takes `spoil` back."""
    _overwrite(path, *spoilt)


def _overwrite(path: Path, content: bytes, stat: os.stat_result) -> None:
    with path.open("r+b") as file:
        file.write(content)
    os.utime(str(path), ns=(stat.st_atime_ns, stat.st_mtime_ns))


async def looked(rig: Rig, times: int = 4) -> None:
    """Until the repository was looked at so often, and what that began has ended: what would come of it has come."""
    control = rig.serving._control
    watch, count = control._watch, [0]
    look = watch.look

    async def counted(known: Any) -> Any:
        count[0] += 1
        return await look(known)

    watch.look = counted  # type: ignore[method-assign]
    try:
        await until(lambda: count[0] > times and not control._doing)
    finally:
        watch.look = look  # type: ignore[method-assign]
