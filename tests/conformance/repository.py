"""The models that the conformance suite asks, as a Triton user would lay them out."""

from __future__ import annotations

import shutil
from pathlib import Path

MODELS = Path(__file__).parent.parent / "models"

#: datatype on the wire -> model that answers with its input
SAME = {
    "BOOL": "same_bool", "UINT8": "same_uint8", "UINT16": "same_uint16", "UINT32": "same_uint32", "UINT64": "same_uint64",
    "INT8": "same_int8", "INT16": "same_int16", "INT32": "same_int32", "INT64": "same_int64", "FP16": "same_half",
    "FP32": "same_fp32", "FP64": "same_fp64", "BF16": "same_bf16", "BYTES": "same_text",
}  # fmt: skip

_COLOURS = """
max_batch_size: 8
input { name: "image" data_type: TYPE_FP32 dims: [ 3, 8, 8 ] }
output { name: "scores" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "colours.txt" }
"""
_PYTHON = """
import time

class Model:
    def infer(self, inputs):
        %s
"""
_PYTHON_CONFIG = """
backend: "python"
max_batch_size: %d
input { name: "x" data_type: %s dims: [ -1 ] }
output { name: "y" data_type: %s dims: [ -1 ] }
"""


def add(repository: Path, name: str, file: str, config: str = "max_batch_size: 8\n", version: int = 1) -> Path:
    """One version of a model; answers the model's folder."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True)
    shutil.copy(MODELS / (file + ".onnx"), folder / "model.onnx")
    (repository / name / "config.pbtxt").write_text(config)
    return repository / name


def python(repository: Path, name: str, does: str, datatype: str, max_batch_size: int) -> None:
    """A Python model x -> y."""
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(_PYTHON % does)
    (repository / name / "config.pbtxt").write_text(_PYTHON_CONFIG % (max_batch_size, datatype, datatype))


def build(repository: Path) -> None:
    """All of them, with config.pbtxt as their only configuration."""
    for model in SAME.values():
        if model != "same_bf16":
            add(repository, model, model)
    python(repository, "same_bf16", 'return {"y": inputs["x"]}', "TYPE_BF16", 8)  # ONNX Runtime takes none from Python
    add(repository, "add_one", "add_one", "max_batch_size: 4\nversion_policy { all {} }\n")
    add(repository, "add_one", "add_one", "max_batch_size: 4\nversion_policy { all {} }\n", version=3)
    add(repository, "fixed", "add_one_fixed", "max_batch_size: 0\n")
    add(repository, "pair", "sum_and_difference")
    add(repository, "lookup", "lookup")
    add(repository, "dotted.name-1", "add_one")
    add(repository, "spare", "add_one")
    colours = add(repository, "colours", "mean_colour", _COLOURS)
    (colours / "colours.txt").write_text("red\ngreen\nblue\n")
    python(repository, "slow", 'time.sleep(0.3); return {"y": inputs["x"]}', "TYPE_FP32", 1)
    broken = add(repository, "broken", "add_one")
    (broken / "1" / "model.onnx").write_bytes((MODELS / "add_one.onnx").read_bytes()[:60])
