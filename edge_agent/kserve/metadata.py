"""What the server and a model say about themselves, as KServe v2 and Triton's clients read it."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from edge_agent.domain.tensors import TensorSpec
from edge_agent.kserve.served import ServedModel

#: of Triton's extensions those that work here: its clients act on this list
EXTENSIONS = (
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
)
SERVER_NAME = "edge-agent"


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
