"""Configurations as users of Triton have them, and what must lie beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

#: an ONNX model for a GPU, with a parameter of somebody's own
GPU_DETECTOR = """
name: "detector"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  {
    name: "images"
    data_type: TYPE_FP32
    format: FORMAT_NCHW
    dims: [ 3, 640, 640 ]
  }
]
output [
  { name: "boxes" data_type: TYPE_FP32 dims: [ -1, 6 ] }
]
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0 ] } ]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 500
}
parameters {
  key: "sqlite_db_path"
  value: { string_value: "/data/results.db" }
}
"""

#: preprocessing and inference behind each other
PIPELINE = """
name: "pipeline"
platform: "ensemble"
max_batch_size: 8
input [ { name: "PICTURE" data_type: TYPE_UINT8 dims: [ -1 ] } ]
output [ { name: "BOXES" data_type: TYPE_FP32 dims: [ -1, 6 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "preprocess"
      model_version: -1
      input_map { key: "raw" value: "PICTURE" }
      output_map { key: "tensor" value: "prepared" }
    },
    {
      model_name: "detector"
      model_version: -1
      input_map { key: "images" value: "prepared" }
      output_map { key: "boxes" value: "BOXES" }
    }
  ]
}
"""

PREPROCESS = """
backend: "python"
max_batch_size: 8
input { name: "raw" data_type: TYPE_UINT8 dims: -1 }
output { name: "tensor" data_type: TYPE_FP32 dims: 3 dims: 640 dims: 640 }
instance_group { kind: KIND_CPU }
parameters: { key: "EXECUTION_ENV_PATH", value: { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }
parameters: { key: "mean", value: { string_value: "0.5" } }
"""

#: two priorities, each with a queue of its own
WORDS = """
# text in, text out
name: 'words'
backend: "onnxruntime"
max_batch_size: 16
input < name: "text" data_type: TYPE_STRING dims: [ 1 ] >
output < name: "label" data_type: TYPE_STRING dims: [ 1 ]; label_filename: "labels.txt"; >
version_policy: { specific: { versions: [ 1, 3 ] } }
dynamic_batching {
  preserve_ordering: true
  priority_levels: 2
  default_priority_level: 2
  default_queue_policy { max_queue_size: 100 }
  priority_queue_policy {
    key: 1
    value { timeout_action: DELAY default_timeout_microseconds: 20000 allow_timeout_override: true }
  }
}
response_cache { enable: true }
model_warmup [
  { name: "one" batch_size: 1 inputs { key: "text" value { data_type: TYPE_STRING dims: 1 zero_data: true } } }
]
optimization { execution_accelerators { gpu_execution_accelerator : [ {
  name : "tensorrt"
  parameters { key: "precision_mode" value: "FP16" }
  parameters { key: "max_workspace_size_bytes" value: "1073741824" }
} ] } }
"""

TRACKER = """
platform: "onnxruntime_onnx"
max_batch_size: 4
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
  oldest { max_candidate_sequences: 4 preferred_batch_size: [ 2 ] }
}
"""

CHAT = 'backend: "vllm"\nmodel_transaction_policy { decoupled: true }\ninstance_group [ { count: 1 kind: KIND_MODEL } ]\n'

WHOLE: Dict[str, str] = {
    "detector": GPU_DETECTOR,
    "pipeline": PIPELINE,
    "preprocess": PREPROCESS,
    "words": WORDS,
    "tracker": TRACKER,
    "chat": CHAT,
}
_FILES = {
    "detector": "model.onnx",
    "preprocess": "model.py",
    "words": "model.onnx",
    "tracker": "model.onnx",
    "chat": "model.json",
}


def write(repository: Path, *names: str) -> Path:
    """These models as a repository; the model files themselves are empty."""
    for name in names or WHOLE:
        version = repository / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(WHOLE[name])
        if name in _FILES:
            (version / _FILES[name]).write_bytes(b"")
    if (repository / "words").exists():
        (repository / "words/labels.txt").write_text("good\nbad\n")
    return repository
