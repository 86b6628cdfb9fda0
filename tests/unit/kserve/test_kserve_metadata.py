"""Metadata as Triton's clients read it."""

from __future__ import annotations

from typing import Any, Dict

from edge_agent.config.model_config import ModelConfig
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.kserve import codec
from edge_agent.kserve.metadata import EXTENSIONS


class _Served:
    name = "demo"
    platform = "onnxruntime_onnx"
    max_batch_size = 4
    inputs = (TensorSpec("X", DataType.FP32, (-1, 3, 8, 8)), TensorSpec("T", DataType.BYTES, (-1, 1)))
    outputs = (TensorSpec("Y", DataType.INT64, (-1, -1)),)

    config = ModelConfig()

    def config_json(self) -> Dict[str, Any]:
        return {}


def test_server_metadata_names_only_extensions_that_work() -> None:
    said = codec.server_metadata("1.2")
    assert said["version"] == "1.2"
    assert not {"sequence", "trace", "logging", "system_shared_memory", "cuda_shared_memory"} & set(said["extensions"])
    assert said["extensions"] == list(EXTENSIONS)
    assert {"binary_tensor_data", "statistics", "model_repository", "model_configuration"} <= set(EXTENSIONS)


def test_model_metadata_has_the_batch_dimension_and_versions_as_text() -> None:
    said = codec.model_metadata(_Served(), ["1", "2"])
    assert said["versions"] == ["1", "2"]
    assert said["inputs"][0] == {"name": "X", "datatype": "FP32", "shape": [-1, 3, 8, 8]}
