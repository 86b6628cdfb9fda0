"""What an ONNX model takes and gives, without ONNX Runtime: as ONNX Runtime says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Tuple

import onnxruntime
import pytest

from edge_agent import errors
from edge_agent.domain.tensors import DataType
from edge_agent.engines.plans.onnx_tensors import onnx_tensors
from tests import gpu_models

MODELS = Path(__file__).parents[2] / "models"
TYPES = {
    "tensor(float)": "FP32", "tensor(float16)": "FP16", "tensor(double)": "FP64", "tensor(string)": "BYTES",
    "tensor(bfloat16)": "BF16", "tensor(bool)": "BOOL",
}  # fmt: skip


def said(nodes: Any) -> List[Tuple[str, str, Tuple[int, ...]]]:
    return [
        (
            node.name,
            TYPES.get(node.type, node.type[7:-1].upper()),
            tuple(size if isinstance(size, int) else -1 for size in node.shape),
        )
        for node in nodes
    ]


def read(tensors: Any) -> List[Any]:
    return [(tensor.name, tensor.datatype.value, tensor.shape) for tensor in tensors]


#: but for the one where ONNX Runtime works sizes out that the file leaves open
@pytest.mark.parametrize(
    "path", sorted(set(MODELS.glob("*.onnx")) - {MODELS / "add_one_half_dynamic.onnx"}), ids=lambda path: str(path.stem)
)
def test_they_are_those_that_onnx_runtime_finds(path: Path) -> None:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = onnx_tensors(path)
    assert read(found.inputs) == said(session.get_inputs())
    assert read(found.outputs) == said(session.get_outputs())


def test_constants_among_the_inputs_are_none(tmp_path: Path) -> None:
    one, x = gpu_models.value("one", 1, []), gpu_models.value("x", 1, ["N", 4])
    path = tmp_path / "model.onnx"
    nodes = [gpu_models.node("Add", ["x", "one"], ["y"])]
    gpu_models.write(path, nodes, [one, x], [gpu_models.value("y", 1, ["N", 4])], [gpu_models.floats("one", [], [1.0])])
    assert [tensor.name for tensor in onnx_tensors(path).inputs] == ["x"]


def test_what_is_not_said_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x3a\x05\x5a\x03\x0a\x01x")
    ((name, datatype, shape),) = onnx_tensors(path).inputs
    assert (name, datatype, shape) == ("x", None, None)


@pytest.mark.parametrize("data", [b"this is no model", b"\x3a\x05\x5a\x03\x0a\x09x"])
def test_a_file_that_is_none_is_told_as_that(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(errors.EngineLoadError, match="no whole ONNX model"):
        onnx_tensors(path)


def test_a_file_that_is_not_there_is_told_as_that(tmp_path: Path) -> None:
    with pytest.raises(errors.EngineLoadError, match="cannot be read"):
        onnx_tensors(tmp_path / "model.onnx")
    assert DataType.FP32 is onnx_tensors(MODELS / "add_one.onnx").inputs[0].datatype
