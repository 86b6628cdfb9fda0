"""JSON bodies as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any, Dict, List

from edge_agent.domain.tensors import DataType

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_SIZE = {"type": "integer", "minimum": 0}


def _object(required: List[str], **properties: Any) -> Dict[str, Any]:
    described: Dict[str, Any] = {"type": "object", "properties": properties}
    return {**described, "required": required} if required else described


_INPUT = _object(
    ["name", "shape", "datatype"],
    name=_TEXT,
    shape={"type": "array", "items": _SIZE, "description": "the batch first, where the model batches"},
    datatype={"type": "string", "enum": [datatype.value for datatype in DataType]},
    parameters=_object([], binary_data_size=_SIZE),
    data={"type": "array", "items": {}, "description": "flat or nested, row-major; not with binary_data_size"},
)
_OUTPUT = _object(["name"], name=_TEXT, parameters=_object([], binary_data=_FLAG, classification=_SIZE))
_ASKED = _object([], binary_data_output=_FLAG, priority=_SIZE, timeout={**_SIZE, "description": "microseconds"})

SCHEMAS: Dict[str, Dict[str, Any]] = {
    "Error": _object(["error"], error=_TEXT),
    "InferRequest": _object(
        ["inputs"],
        id=_TEXT,
        parameters=_ASKED,
        inputs={"type": "array", "minItems": 1, "items": _INPUT},
        outputs={"type": "array", "items": _OUTPUT, "description": "all when empty or absent"},
    ),
    "IndexRequest": _object([], ready=_FLAG),
    "LoadRequest": _object(
        [],
        parameters={
            **_object([], config={**_TEXT, "description": "ModelConfig in its JSON form"}),
            "additionalProperties": {**_TEXT, "description": "file:VERSION/FILE, in base64"},
        },
    ),
    "UnloadRequest": _object([], parameters=_object([], unload_dependents=_FLAG)),
}
