"""config.pbtxt, config.toml and JSON as spellings of one schema."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

from edge_agent.config import pbtxt, protobuf, toml
from edge_agent.config.model_config import ModelConfig, load_model_config, model_config_from_json
from edge_agent.config.tensors import DataTypeName
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.errors import ConfigError
from tests.unit.config import triton_configs

WORDS_IN_TOML = """
name = "words"
backend = "onnxruntime"
max_batch_size = 16
input = [{ name = "text", data_type = "TYPE_STRING", dims = [1] }]
output = [{ name = "label", data_type = "TYPE_STRING", dims = [1], label_filename = "labels.txt" }]
model_warmup = [
  { name = "one", batch_size = 1, inputs = { text = { data_type = "TYPE_STRING", dims = [1], zero_data = true } } },
]
[version_policy.specific]
versions = [1, 3]
[dynamic_batching]
preserve_ordering = true
priority_levels = 2
default_priority_level = 2
[dynamic_batching.default_queue_policy]
max_queue_size = 100
[dynamic_batching.priority_queue_policy.1]
timeout_action = "DELAY"
default_timeout_microseconds = 20000
allow_timeout_override = true
[response_cache]
enable = true
[[optimization.execution_accelerators.gpu_execution_accelerator]]
name = "tensorrt"
parameters = { precision_mode = "FP16", max_workspace_size_bytes = "1073741824" }
"""

Load = Callable[[str], ModelConfig]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """A model's config.pbtxt, read."""

    def load(text: str) -> ModelConfig:
        folder = tmp_path / "m"
        folder.mkdir(exist_ok=True)
        (folder / "config.pbtxt").write_text(text)
        return load_model_config(folder)

    return load


def _faults(load: Load, text: str) -> Dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return {path.rpartition(": ")[2]: what for path, what, _ in caught.value.faults}


def _same(one: ModelConfig, other: ModelConfig) -> bool:
    aside = (one.ignored, one.refused, one.labels) == (other.ignored, other.refused, other.labels)
    return aside and one.model_dump() == other.model_dump()


@pytest.mark.parametrize("name", sorted(triton_configs.WHOLE))
def test_the_same_keys_in_toml_and_json_mean_the_same(tmp_path: Path, name: str) -> None:
    folder = triton_configs.write(tmp_path, name) / name
    config = load_model_config(folder)
    tables = protobuf.from_text(pbtxt.parse(triton_configs.WHOLE[name]), ModelConfig).tables
    assert _same(model_config_from_json(json.dumps(tables), folder), config)
    (folder / "config.pbtxt").unlink()
    (folder / "config.toml").write_text(toml.write(tables))
    assert _same(load_model_config(folder), config)


def test_a_config_written_by_hand_in_either_spelling_is_the_same(tmp_path: Path) -> None:
    folder = triton_configs.write(tmp_path, "words") / "words"
    config = load_model_config(folder)
    (folder / "config.pbtxt").unlink()
    (folder / "config.toml").write_text(WORDS_IN_TOML)
    assert _same(load_model_config(folder), config)
    assert config.dynamic_batching is not None
    assert config.dynamic_batching.policy(1).timeout_action == "DELAY"
    assert config.dynamic_batching.policy(2).max_queue_size == 100
    assert config.cached
    assert config.labels_of("label") == ("good", "bad")
    assert config.version_policy.select([1, 2, 3]) == (1, 3)
    assert config.model_warmup[0].inputs["text"].zero_data


def test_an_onnx_model_for_a_gpu_runs_on_a_box_without_one(tmp_path: Path) -> None:
    config = load_model_config(triton_configs.write(tmp_path, "detector") / "detector")
    assert (config.platform, config.max_batch_size, config.instances, config.refused) == ("onnxruntime_onnx", 8, 2, "")
    assert config.parameter_values == {"sqlite_db_path": "/data/results.db"}
    assert "instance_group[0].kind (ONNX Runtime and Python models run on the CPU; only TensorRT uses it)" in config.ignored
    assert config.host_name() == "cpu"


def test_an_ensemble_of_preprocessing_and_inference_is_read(tmp_path: Path) -> None:
    config = load_model_config(triton_configs.write(tmp_path, "pipeline") / "pipeline")
    assert (config.platform, config.ignored, config.refused) == ("ensemble", (), "")
    assert config.ensemble_scheduling is not None
    first, second = config.ensemble_scheduling.step
    assert (first.model_name, first.model_version, first.input_map, first.output_map) == (
        "preprocess",
        -1,
        {"raw": "PICTURE"},
        {"tensor": "prepared"},
    )
    assert second.input_map == {"images": "prepared"}


def test_a_field_that_is_repeated_may_stand_alone(tmp_path: Path) -> None:
    config = load_model_config(triton_configs.write(tmp_path, "preprocess") / "preprocess")
    assert config.output[0].dims == (3, 640, 640)
    assert config.input[0].dims == (-1,)
    assert config.parameter_values["mean"] == "0.5"
    assert [key.split(" (")[0] for key in config.ignored] == ["parameters.EXECUTION_ENV_PATH"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("tracker", "sequence_batching: sequence batching comes"), ("chat", "the backend 'vllm' (a language model's server)")],
)
def test_what_cannot_be_served_is_refused_with_a_word_not_with_a_fault(tmp_path: Path, name: str, says: str) -> None:
    assert says in load_model_config(triton_configs.write(tmp_path, name) / name).refused


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('input { name: "x" data_type: TYPE_FP32 dims: 1 allow_ragged_batch: true }', "input.x.allow_ragged_batch"),
        ('input { name: "x" data_type: TYPE_FP32 dims: 1 reshape { shape: [] } }', "input.x.reshape"),
        ('output { name: "x" data_type: TYPE_FP32 dims: 1 is_shape_tensor: true }', "output.x.is_shape_tensor"),
        ("model_transaction_policy { decoupled: true }", "model_transaction_policy.decoupled"),
        ('batch_input { kind: BATCH_ITEM_SHAPE target_name: "t" source_input: "x" }', "batch_input"),
        ('model_operations { op_library_filename: "ops.so" }', "model_operations.op_library_filename"),
    ],
)
def test_a_refusal_names_its_key_and_a_way_out(load: Load, text: str, key: str) -> None:
    assert load(text).refused.startswith(key + ": ")


@pytest.mark.parametrize(
    "text",
    [
        'input { name: "x" data_type: TYPE_FP32 dims: [1, 2] allow_ragged_batch: false format: FORMAT_NONE }',
        'input { name: "x" data_type: TYPE_FP32 dims: [1, 2] reshape { shape: [1, 2] } }',
        "model_transaction_policy { decoupled: false }",
        "optimization { graph { level: 0 } priority: PRIORITY_DEFAULT }",
        "instance_group [ { kind: KIND_CPU count: 2 } ]",
        "response_cache { enable: false }",
    ],
)
def test_what_asks_for_nothing_is_neither_refused_nor_ignored(load: Load, text: str) -> None:
    config = load(text)
    assert (config.refused, config.ignored) == ("", ())


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("max_batch_sise: 1", "max_batch_sise", "unknown key"),
        ('input { name: "x" data_typ: TYPE_FP32 data_type: TYPE_FP32 dims: 1 }', "input.x.data_typ", "unknown key"),
        ("max_batch_size: 1 max_batch_size: 2", "max_batch_size", "is given 2 times"),
        ("max_batch_size: []", "max_batch_size", "should be one value, not a list"),
        ("platform: onnxruntime_onnx", "platform", "should be text in quotes, not onnxruntime_onnx"),
        ('max_batch_size: "8"', "max_batch_size", "should be a whole number"),
        ("max_batch_size { }", "max_batch_size", "should be a whole number"),
        ("response_cache: true", "response_cache", "should be a table"),
        ('response_cache { enable: "true" }', "response_cache.enable", "should be true or false"),
        ("response_cache { enable: 2 }", "response_cache.enable", "should be true or false"),
        ("response_cache { enable: maybe }", "response_cache.enable", "should be true or false"),
        ("instance_group { kind: KIND_TPU }", "instance_group[0].kind", "should be"),
        ("instance_group { kind: 9 }", "instance_group[0].kind", "should be"),
        ("instance_group { gpus: 4294967296 }", "instance_group[0].gpus[0]", "should be at most 2147483647"),
        (
            "dynamic_batching { max_queue_delay_microseconds: 18446744073709551616 }",
            "dynamic_batching.max_queue_delay_microseconds",
            "should be at most 18446744073709551615",
        ),
        ('input { name: "x" data_type: TYPE_INVALID dims: 1 }', "input.x.data_type", "should be one of TYPE_BOOL"),
        ('input { name: "x" data_type: TYPE_FP32 dims: 9223372036854775808 }', "input.x.dims[0]", "should be at most"),
        ('parameters { key: "a" value: 1 }', "parameters.a", "should be a table"),
        ('parameters { ky: "a" }', "parameters", "an entry should be { key: ... value: ... }"),
        ("parameters: 1", "parameters", "an entry should be"),
        ('metric_tags { key: "a" value: "1" } metric_tags { key: "a" value: "2" }', "metric_tags.a", "is given twice"),
        ("dynamic_batching {} sequence_batching {}", "the whole", "takes one of"),
        ("version_policy { all {} latest { num_versions: 1 } }", "version_policy", "takes one of"),
        ("dynamic_batching { priority_levels: 2 }", "dynamic_batching", "default_priority_level should be from 1"),
        (
            "dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value {} } }",
            "dynamic_batching",
            "level 3 is not from 1",
        ),
        ('platform: "ensemble"', "the whole", "belong together"),
        (
            'model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 dims: 1 } } }',
            "model_warmup[0].inputs.x",
            "takes one of",
        ),
        ('output { name: "x" data_type: TYPE_FP32 dims: 1 label_filename: "../x" }', "output.x.label_filename", "in the model"),
        ('output { name: "x" data_type: TYPE_FP32 dims: 1 label_filename: "none" }', "", "the labels cannot be read"),
        ('name: "other"', "name", "should be the folder's name"),
        ('backend: "onnxruntim"', "backend", "did you mean onnxruntime?"),
    ],
)
def test_a_fault_in_the_text_form_names_its_key(load: Load, text: str, key: str, says: str) -> None:
    found = _faults(load, text)
    assert says in (next(iter(found.values())) if not key else found.get(key, "%s, not %s" % (sorted(found), key)))


def test_both_files_together_are_named(load: Load, tmp_path: Path) -> None:
    load("max_batch_size: 2")
    (tmp_path / "m/config.toml").write_text("max_batch_size = 4\n")
    config = load_model_config(tmp_path / "m")
    assert config.max_batch_size == 4
    assert config.ignored == ("config.pbtxt (config.toml beside it is read instead)",)


def test_enumerations_and_truths_may_be_numbers(load: Load) -> None:
    config = load('instance_group { kind: 2 passive: 0 } input { name: "x" data_type: 11 dims: 1 optional: 1 }')
    assert config.instance_group[0].kind == "KIND_CPU"
    assert config.input[0].datatype is DataType.FP32
    assert config.input[0].optional


def test_numbers_of_datatypes_are_those_of_the_protobuf_form() -> None:
    names = DataTypeName.__args__  # type: ignore[attr-defined]
    assert [names[number] for number in (1, 2, 6, 10, 11, 13, 14)] == [
        "TYPE_BOOL", "TYPE_UINT8", "TYPE_INT8", "TYPE_FP16", "TYPE_FP32", "TYPE_STRING", "TYPE_BF16",
    ]  # fmt: skip
    assert set(names) == {"TYPE_INVALID", *(datatype.config_name for datatype in DataType)}


def test_tensorrts_parameters_are_kept_as_build(load: Load) -> None:
    text = 'optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" %s } } }'
    build = load(text % 'parameters { key: "precision_mode" value: "FP16" }').build_values
    assert build is not None
    assert (build.precision, build.workspace_mb, build.dla_core) == ("fp16", 1024, -1)
    build = load(
        text % 'parameters { key: "max_workspace_size_bytes" value: "268435456" }'
        + "instance_group { secondary_devices { kind: KIND_NVDLA device_id: 1 } }"
    ).build_values
    assert build is not None
    assert (build.precision, build.workspace_mb, build.dla_core) == ("fp32", 256, 1)
    assert load("max_batch_size: 1").build_values is None


def test_json_takes_camel_case_and_text_for_long_numbers(tmp_path: Path) -> None:
    document = {
        "maxBatchSize": 4,
        "instanceGroup": [{"kind": 2, "count": 3}],
        "dynamic_batching": {"maxQueueDelayMicroseconds": "500", "priorityQueuePolicy": {}},
        "versionPolicy": {"specific": {"versions": ["2", 3]}},
        "optimization": None,
        "parameters": {"aB": {"stringValue": "x"}},
    }
    config = model_config_from_json(json.dumps(document), tmp_path)
    assert (config.max_batch_size, config.instances) == (4, 3)
    assert config.dynamic_batching is not None
    assert config.dynamic_batching.max_queue_delay_microseconds == 500
    assert config.version_policy.select([1, 2, 3]) == (2, 3)
    assert config.parameter_values == {"aB": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"a": 1}',
        '{"max_batch_size": "x"}',
        "[" * 100_000,
        '{"a":' * 900 + "1" + "}" * 900,
        '{"name": "\\ud800"}',
        "9" * 2_000_000,
    ],
)
def test_json_that_is_none_or_has_faults_is_a_config_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        model_config_from_json(text, tmp_path)
    assert caught.value.faults[0][0].startswith("config of the load request")


@pytest.mark.parametrize("seed", range(30))
def test_a_config_with_pieces_cut_out_gives_a_config_or_a_config_error(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    folder = triton_configs.write(tmp_path, "words") / "words"
    outcomes = set()
    for _ in range(40):
        text = dice.choice(sorted(triton_configs.WHOLE.values()))
        start = dice.randrange(len(text))
        cut = text[:start] + dice.choice(["", "{", "}", "0", ": 1 ", '"x"', "true "]) + text[start + dice.randrange(20) :]
        (folder / "config.pbtxt").write_text(cut)
        try:
            load_model_config(folder)
            outcomes.add("read")
        except ConfigError as error:
            outcomes.add(type(error).__name__)
    assert "ConfigError" in outcomes


def _specs(*shape: int) -> Any:
    return [TensorSpec("x", DataType.FP32, (-1, *shape))], [TensorSpec("y", DataType.BYTES, (-1, 2))]


def test_the_complete_config_of_a_silent_one_has_every_default(tmp_path: Path) -> None:
    said = json.loads(json.dumps(ModelConfig().triton_json("m", "onnxruntime_onnx", 4, *_specs(3, -1))))
    assert said["name"] == "m"
    assert (said["platform"], said["backend"], said["runtime"]) == ("onnxruntime_onnx", "onnxruntime", "")
    assert said["max_batch_size"] == 4
    assert said["version_policy"] == {"latest": {"num_versions": 1}}
    assert said["input"] == [
        {
            "name": "x",
            "data_type": "TYPE_FP32",
            "dims": [3, -1],
            "format": "FORMAT_NONE",
            "is_shape_tensor": False,
            "is_non_linear_format_io": False,
            "allow_ragged_batch": False,
            "optional": False,
        }
    ]
    assert said["output"][0]["data_type"] == "TYPE_STRING"
    assert said["output"][0]["label_filename"] == ""
    assert said["instance_group"][0]["kind"] == "KIND_CPU"
    assert said["default_model_filename"] == "model.onnx"
    assert said["model_transaction_policy"] == {"decoupled": False}
    assert (said["parameters"], said["model_warmup"], said["batch_input"]) == ({}, [], [])
    assert not {"dynamic_batching", "sequence_batching", "ensemble_scheduling", "host", "image", "decode", "build"} & set(said)


def test_the_complete_config_can_be_sent_back_as_json(tmp_path: Path) -> None:
    for name in ("words", "detector", "preprocess", "pipeline"):
        folder = triton_configs.write(tmp_path, name) / name
        config = load_model_config(folder)
        inputs = [tensor.spec(batched=True) for tensor in config.input]
        outputs = [tensor.spec(batched=True) for tensor in config.output]
        said = config.triton_json(name, config.platform, config.max_batch_size or 0, inputs, outputs)
        again = model_config_from_json(json.dumps(said), folder)
        assert again.triton_json(name, config.platform, config.max_batch_size or 0, inputs, outputs) == said
        assert [tensor.model_dump() for tensor in again.input] == [tensor.model_dump() for tensor in config.input]


def test_the_complete_config_of_an_ensemble_shows_its_steps(tmp_path: Path) -> None:
    config = load_model_config(triton_configs.write(tmp_path, "pipeline") / "pipeline")
    said = config.triton_json("pipeline", "ensemble", 8, *_specs(1))
    assert [step["model_name"] for step in said["ensemble_scheduling"]["step"]] == ["preprocess", "detector"]
    assert said["ensemble_scheduling"]["step"][0]["model_version"] == -1
    assert (said["instance_group"], said["backend"], said["default_model_filename"]) == ([], "", "")


def test_keys_of_a_gpu_are_used_where_tensorrt_runs_the_model(load: Load) -> None:
    gpu = 'instance_group { kind: KIND_GPU gpus: 0 profile: "1" } optimization { cuda { busy_wait_events: true } }'
    assert load('platform: "tensorrt_plan" ' + gpu).ignored == ()
    assert load('backend: "tensorrt" ' + gpu).ignored == ()
    text = 'optimization { execution_accelerators { gpu_execution_accelerator { name: "%s" } } }'
    assert load(text % "tensorrt").ignored == ()
    (other,) = load('platform: "tensorrt_plan" ' + text % "cuda").ignored
    assert other.startswith("optimization.execution_accelerators.gpu_execution_accelerator.cuda.name (only `tensorrt`")
    (said,) = load('platform: "onnxruntime_onnx" ' + text % "tensorrt").ignored
    assert said.endswith("(`tensorrt` is used where platform is silent or tensorrt_plan, as [build])")
