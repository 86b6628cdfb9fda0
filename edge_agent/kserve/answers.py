"""InferResponse to bytes: the JSON part and the binary buffers behind it."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from edge_agent.domain.requests import InferResponse
from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.kserve import bytes_tensors, json_tensors
from edge_agent.kserve.body import InferBody, OutputPart
from edge_agent.kserve.classification import classify


def encode_infer(
    response: InferResponse, body: InferBody, labels: Sequence[str] = (), batched: bool = True
) -> Tuple[bytes, List[memoryview]]:
    """The answer's JSON and its binary outputs, which still lie in the response's leases. Raises InvalidRequest.

    `labels` and `batched` (the first dimension is the batch) matter to classification only.
    """
    by_name = {tensor.name: tensor for tensor in response.outputs}
    wanted = body.outputs or tuple(OutputPart(tensor.name, body.binary_default) for tensor in response.outputs)
    outputs: List[Dict[str, Any]] = []
    binaries: List[memoryview] = []
    for part in wanted:
        entry, binary = _encode(by_name[part.name], part, labels, batched)
        outputs.append(entry)
        if binary is not None:
            binaries.append(binary)
    answer: Dict[str, Any] = {"model_name": response.model, "model_version": response.version, "outputs": outputs}
    if body.id:
        answer = {"id": body.id, **answer}
    return json.dumps(answer, separators=(",", ":"), allow_nan=False).encode(), binaries


def _encode(
    tensor: Tensor, part: OutputPart, labels: Sequence[str], batched: bool
) -> Tuple[Dict[str, Any], Optional[memoryview]]:
    shape, datatype = tensor.shape, tensor.datatype
    view = tensor.view()
    if part.classification:
        texts, shape = classify(tensor, part.classification, batched, labels)
        datatype, view = DataType.BYTES, memoryview(bytes_tensors.pack(texts))
    entry: Dict[str, Any] = {"name": tensor.name, "datatype": datatype.value, "shape": list(shape)}
    if part.binary:
        entry["parameters"] = {"binary_data_size": len(view)}
        return entry, view
    entry["data"] = json_tensors.to_list(view, datatype, tensor.name)
    return entry, None
