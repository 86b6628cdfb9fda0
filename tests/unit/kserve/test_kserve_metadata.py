"""Metadata as Triton's clients read it."""

from __future__ import annotations

import json

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

    def __init__(self, config: ModelConfig) -> None:
        self.config = config


def test_server_metadata_names_only_extensions_that_work() -> None:
    said = codec.server_metadata("1.2")
    assert said["version"] == "1.2"
    assert "statistics" not in said["extensions"]
    assert said["extensions"] == list(EXTENSIONS)
    assert "binary_tensor_data" in EXTENSIONS


def test_model_metadata_has_the_batch_dimension_and_versions_as_text() -> None:
    said = codec.model_metadata(_Served(ModelConfig()), ["1", "2"])
    assert said["versions"] == ["1", "2"]
    assert said["inputs"][0] == {"name": "X", "datatype": "FP32", "shape": [-1, 3, 8, 8]}


def test_model_config_has_no_batch_dimension_and_no_scheduler_that_is_off() -> None:
    said = json.loads(json.dumps(codec.model_config_json(_Served(ModelConfig()))))
    assert said["max_batch_size"] == 4
    assert said["input"][0]["dims"] == [3, 8, 8]
    assert [entry["data_type"] for entry in said["input"]] == ["TYPE_FP32", "TYPE_STRING"]
    assert said["version_policy"] == {"latest": {"num_versions": 1}}
    assert said["default_model_filename"] == "model.onnx"
    assert not {"dynamic_batching", "sequence_batching", "ensemble_scheduling"} & set(said)


def test_model_config_shows_the_dynamic_batcher_with_tritons_names() -> None:
    config = ModelConfig.model_validate({"dynamic_batching": {"max_queue_delay_microseconds": 500}})
    said = json.loads(json.dumps(codec.model_config_json(_Served(config))))
    assert said["dynamic_batching"]["max_queue_delay_microseconds"] == 500
    assert said["dynamic_batching"]["default_queue_policy"]["max_queue_size"] == 0
