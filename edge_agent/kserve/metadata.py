"""What the server and a model say about themselves, as KServe v2 and Triton's clients read it."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from edge_agent.domain.tensors import TensorSpec
from edge_agent.kserve.served import ServedModel

#: of Triton's extensions those that work here: its clients act on this list
EXTENSIONS = ("classification", "model_configuration", "binary_tensor_data")
SERVER_NAME = "edge-agent"

_BACKENDS = {"onnxruntime_onnx": "onnxruntime", "tensorrt_plan": "tensorrt"}
_FILES = {"onnxruntime_onnx": "model.onnx", "tensorrt_plan": "model.plan", "python": "model.py"}


def server_metadata(version: str) -> Dict[str, Any]:
    """The answer of `GET /v2`."""
    return {"name": SERVER_NAME, "version": version, "extensions": list(EXTENSIONS)}


def model_metadata(served: ServedModel, versions: Sequence[str]) -> Dict[str, Any]:
    """The answer of `GET /v2/models/NAME`; `versions` are all that are served."""
    return {
        "name": served.name,
        "versions": list(versions),
        "platform": served.platform,
        "inputs": _tensors(served.inputs),
        "outputs": _tensors(served.outputs),
    }


def _tensors(specs: Sequence[TensorSpec]) -> List[Dict[str, Any]]:
    return [{"name": spec.name, "datatype": spec.datatype.value, "shape": list(spec.shape)} for spec in specs]


def model_config_json(served: ServedModel) -> Dict[str, Any]:
    """The answer of `GET /v2/models/NAME/config`: ModelConfig with proto names.

    Tables of schedulers that are off are left out: their mere presence changes what Triton's clients do.
    """
    batched = served.max_batch_size > 0
    described: Dict[str, Any] = {
        "name": served.name,
        "platform": served.platform,
        "backend": _BACKENDS.get(served.platform, served.platform),
        "version_policy": {key: value for key, value in served.config.version_policy.model_dump().items() if value is not None}
        or {"latest": {"num_versions": 1}},
        "max_batch_size": served.max_batch_size,
        "input": [{**_tensor_config(spec, batched), **_INPUT_DEFAULTS} for spec in served.inputs],
        "output": [{**_tensor_config(spec, batched), **_OUTPUT_DEFAULTS} for spec in served.outputs],
        "instance_group": [_instance_group(served)],
        "default_model_filename": served.config.default_model_filename or _FILES.get(served.platform, ""),
        "parameters": {},
        "model_warmup": [],
        "model_transaction_policy": {"decoupled": False},
        "response_cache": {"enable": False},
    }
    if served.config.dynamic_batching is not None:
        described["dynamic_batching"] = served.config.dynamic_batching.model_dump()
    return described


_INPUT_DEFAULTS: Dict[str, Any] = {
    "format": "FORMAT_NONE", "is_shape_tensor": False, "allow_ragged_batch": False, "optional": False,
}  # fmt: skip
_OUTPUT_DEFAULTS: Dict[str, Any] = {"label_filename": "", "is_shape_tensor": False}


def _tensor_config(spec: TensorSpec, batched: bool) -> Dict[str, Any]:
    dims = spec.shape[1:] if batched else spec.shape
    return {"name": spec.name, "data_type": spec.datatype.config_name, "dims": list(dims)}


def _instance_group(served: ServedModel) -> Dict[str, Any]:
    kind = "KIND_GPU" if served.platform == "tensorrt_plan" else "KIND_CPU"
    return {"name": "%s_0" % served.name, "kind": kind, "count": served.config.instances, "gpus": [], "profile": []}
