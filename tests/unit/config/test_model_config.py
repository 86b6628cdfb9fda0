from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

from edge_agent.config.model_config import ModelConfig, load_model_config
from edge_agent.domain.tensors import DataType
from edge_agent.errors import ConfigError

WHOLE = """
name = "detector"
backend = "onnxruntime"
max_batch_size = 8
host = "night"
default_model_filename = "net.onnx"
input = [{ name = "images", data_type = "TYPE_FP32", dims = [3, -1, 640], format = "FORMAT_NCHW" }]
output = [{ name = "out", data_type = "TYPE_STRING", dims = [-1], label_filename = "l.txt" }]
[[instance_group]]
count = 2
kind = "KIND_CPU"
[[instance_group]]
[dynamic_batching]
preferred_batch_size = [8, 4, 4]
max_queue_delay_microseconds = 500
priority_levels = 2
default_priority_level = 1
preserve_ordering = true
[dynamic_batching.default_queue_policy]
max_queue_size = 16
default_timeout_microseconds = 1000
allow_timeout_override = true
[version_policy.latest]
num_versions = 2
[optimization.graph]
level = 1
[response_cache]
enable = false
[image]
width = 640
height = "auto"
mean = [1, 2.5, 3]
std = 2
scale = 1.0
[decode]
kind = "yolo"
labels = "labels.txt"
max_objects = 300
[build]
precision = "fp16"
"""


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str], Path]:
    def model(text: str) -> Path:
        folder = tmp_path / "detector"
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(text)
        return folder

    return model


def faults(folder: Path) -> Any:
    with pytest.raises(ConfigError) as caught:
        load_model_config(folder)
    prefix = "%s: " % (folder / "config.toml")
    return {path.replace(prefix, ""): (what, cure) for path, what, cure in caught.value.faults}


def test_tritons_keys_and_the_agents_own_are_read(model: Any) -> None:
    folder = model(WHOLE)
    (folder / "labels.txt").write_bytes(b"\xef\xbb\xbfperson\r\n\r\n car \r\n\n")
    (folder / "l.txt").write_text("yes\nno\n")
    config = load_model_config(folder)
    assert (config.platform, config.max_batch_size, config.host_name(), config.instances) == ("onnxruntime_onnx", 8, "night", 3)
    assert config.input[0].spec(batched=True).shape == (-1, 3, -1, 640)
    assert config.output[0].datatype is DataType.BYTES
    assert config.dynamic_batching is not None
    assert config.dynamic_batching.preferred_batch_size == (4, 8)
    assert config.dynamic_batching.default_queue_policy.max_queue_size == 16
    assert config.image is not None
    assert (config.image.width, config.image.height, config.image.mean, config.image.std) == (
        640,
        "auto",
        (1, 2.5, 3),
        (2, 2, 2),
    )
    assert config.labels == ("person", "", "car")
    assert config.decode_json() == {
        "kind": "yolo",
        "labels": ["person", "", "car"],
        "min_score": 0.25,
        "iou": 0.45,
        "max_objects": 300,
    }
    assert config.dynamic_batching.priority_levels == 2
    assert config.dynamic_batching.preserve_ordering
    assert config.labels_of("out") == ("yes", "no")
    assert config.labels_of("other") == config.labels
    assert [key.split(" (")[0] for key in config.ignored] == ["optimization.graph", "input.images.format", "build"]
    assert config.refused == ""


def test_a_folder_without_a_config_leaves_everything_to_the_model_file(tmp_path: Path) -> None:
    config = load_model_config(tmp_path)
    assert (config.platform, config.max_batch_size, config.instances, config.ignored, config.labels) == ("", None, 1, (), ())
    assert config.host_name("tensorrt_plan") == "gpu"
    assert config.host_name("onnxruntime_onnx") == "cpu"
    assert config.host_name("python") == "python"
    assert config.decode_json() is None


def test_an_empty_config_is_a_fault(model: Any) -> None:
    with pytest.raises(ConfigError, match="empty"):
        load_model_config(model(""))


def test_a_folder_that_cannot_be_a_models_name_is_a_fault(tmp_path: Path) -> None:
    folder = tmp_path / "my model"
    folder.mkdir()
    with pytest.raises(ConfigError, match="rename the folder"):
        load_model_config(folder)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('name = "other"', "name"),
        ('platform = "onnx_runtime"', "platform"),
        ('backend = "onnxruntim"', "backend"),
        ("max_batch_size = -1", "max_batch_size"),
        ("max_batch_sise = 1", "max_batch_sise"),
        ('host = "a b"', "host"),
        ('input = [{ name = "x", data_type = "FP32", dims = [1] }]', "input.x.data_type"),
        ('input = [{ name = "x", data_type = "TYPE_FP32", dims = [0] }]', "input.x.dims"),
        ('[[ensemble_scheduling.step]]\nmodel_name = "a"\ninput_map = { x = "y" }', "ensemble_scheduling"),
        (
            '[dynamic_batching.default_queue_policy]\ntimeout_action = "LATER"',
            "dynamic_batching.default_queue_policy.timeout_action",
        ),
        ("[dynamic_batching]\npreferred_batch_size = [0]", "dynamic_batching.preferred_batch_size"),
        ("[version_policy.latest]\n[version_policy.all]", "version_policy"),
        ("[[instance_group]]\ncount = -1", "instance_group[0].count"),
        ('[image]\nwidth = "wide"', "image.width"),
        ("[image]\nwidth = 20000", "image.width"),
        ("[image]\nstd = [1, 0, 1]", "image.std"),
        ("[image]\nmean = [1, 2]", "image.mean"),
        ("[image]\nmean = true", "image.mean"),
        ('[decode]\nkind = "yolo99"', "decode.kind"),
        ('[decode]\nkind = "python:a/b:C"', "decode.kind"),
        ("[decode]\nmax_objects = 301", "decode.max_objects"),
        ('[decode]\nlabels = "../../etc/passwd"', "decode.labels"),
        ('default_model_filename = "../x"', "default_model_filename"),
    ],
)
def test_a_fault_names_its_key(model: Any, text: str, path: str) -> None:
    found = faults(model(text))
    assert set(found) == {path}
    assert found[path][0]
    assert found[path][1]


@pytest.mark.parametrize(
    "text",
    [
        'input = [{ name = "x", data_type = "TYPE_FP32", dims = [1] }, { name = "x", data_type = "TYPE_FP32", dims = [1] }]',
        "max_batch_size = 4\n[dynamic_batching]\npreferred_batch_size = [8]",
        'input = [{ name = "x", data_type = "TYPE_FP32", dims = [1] }]\n[image]\ninput = "y"',
        'platform = "tensorrt_plan"\nbackend = "onnxruntime"',
    ],
)
def test_keys_that_contradict_each_other_are_a_fault(model: Any, text: str) -> None:
    assert set(faults(model(text))) == {"the whole"}


def test_all_faults_come_at_once(model: Any) -> None:
    found = faults(model('max_batch_size = "x"\n[sequence_batching]\nstrategy = 1\n[decode]\nkind = "q"\n'))
    assert set(found) == {"max_batch_size", "sequence_batching.strategy", "decode.kind"}


@pytest.mark.parametrize("data", [None, b"\xff\xfe"])
def test_labels_that_cannot_be_read_are_a_fault(model: Any, data: bytes | None) -> None:
    folder = model('[decode]\nkind = "yolo"\nlabels = "l.txt"')
    if data is not None:
        (folder / "l.txt").write_bytes(data)
    with pytest.raises(ConfigError, match="the labels"):
        load_model_config(folder)


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ({}, (10,)),
        ({"latest": {"num_versions": 2}}, (9, 10)),
        ({"all": {}}, (1, 9, 10)),
        ({"specific": {"versions": [9, 7]}}, (9,)),
    ],
)
def test_the_version_policy_chooses(policy: Any, served: Any) -> None:
    config = ModelConfig.model_validate({"version_policy": policy})
    assert config.version_policy.select([10, 1, 9]) == served
