"""InferResponse to bytes: the JSON part and the binary buffers behind it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from edge_agent.domain.requests import InferResponse
from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.engine_host.json_tensors import compact
from edge_agent.kserve import bytes_tensors, json_tensors
from edge_agent.kserve.body import InferBody, OutputPart
from edge_agent.kserve.classification import classify, is_large, put_off

LabelsOf = Callable[[str], Sequence[str]]

#: characters of JSON for a byte of the tensor, comma included
_DIGITS_OF_INTEGERS = 4
_TEXT_OF_LARGE = 1 << 20  # more than anybody converts by himself
_DIGITS = {DataType.BOOL: 6, DataType.FP32: 6, DataType.FP64: 3}


def _no_labels(output: str) -> Sequence[str]:
    return ()


def encode_infer(
    response: InferResponse,
    body: InferBody,
    labels_of: LabelsOf = _no_labels,
    batched: bool = True,
    *,
    all_binary: bool = False,
) -> Tuple[bytes, List[memoryview]]:
    """The answer's JSON and its binary outputs, which still lie in the response's leases. Raises InvalidRequest.

    `labels_of` (an output's classes by index) and `batched` (the first dimension is the batch) matter to classification
    only. `all_binary` puts off the conversion of outputs that were asked for as JSON, and of classifications that take long.
    """
    outputs: List[Dict[str, Any]] = []
    binaries: List[memoryview] = []
    binary: Optional[memoryview]
    for tensor, part in _wanted(response, body):
        if all_binary and part.classification and is_large(tensor, part.classification):
            entry, binary = _unranked(tensor, part.classification, labels_of, batched)
        else:
            entry, binary = _encode(tensor, part, all_binary or part.binary, labels_of, batched)
        outputs.append(entry)
        if binary is not None:
            binaries.append(binary)
    answer: Dict[str, Any] = {"model_name": response.model, "model_version": response.version, "outputs": outputs}
    if body.id:
        answer = {"id": body.id, **answer}
    return compact(answer), binaries


def binary_positions(response: InferResponse, body: InferBody) -> List[int]:
    """Which of the answer's outputs are to be binary."""
    return [number for number, (_, part) in enumerate(_wanted(response, body)) if part.binary]


def text_bytes(response: InferResponse, body: InferBody) -> int:
    """About how long the JSON of the answer's tensors gets: a rough upper bound, had without looking at them.

    A classification that takes long counts too, however short its strings: it is the same child's work.
    """
    return sum(_part_bytes(tensor, part) for tensor, part in _wanted(response, body))


def _part_bytes(tensor: Tensor, part: OutputPart) -> int:
    if part.classification:
        return _TEXT_OF_LARGE if is_large(tensor, part.classification) else 0
    return 0 if part.binary else _text_bytes(tensor)


def _text_bytes(tensor: Tensor) -> int:
    if tensor.datatype is DataType.BYTES:
        return tensor.nbytes
    return tensor.nbytes * _DIGITS.get(tensor.datatype, _DIGITS_OF_INTEGERS)


def _wanted(response: InferResponse, body: InferBody) -> List[Tuple[Tensor, OutputPart]]:
    by_name = {tensor.name: tensor for tensor in response.outputs}
    parts = body.outputs or tuple(OutputPart(tensor.name, body.binary_default) for tensor in response.outputs)
    return [(by_name[part.name], part) for part in parts]


def _unranked(tensor: Tensor, best: int, labels_of: LabelsOf, batched: bool) -> Tuple[Dict[str, Any], memoryview]:
    """The output as it is, with what is still to be done with it; see vision_host/json_bodies.py."""
    asked, shape = put_off(tensor, best, batched, labels_of(tensor.name))
    view = tensor.view()
    parameters = {"binary_data_size": len(view), "classification": asked}
    return {"name": tensor.name, "datatype": DataType.BYTES.value, "shape": list(shape), "parameters": parameters}, view


def _encode(
    tensor: Tensor, part: OutputPart, binary: bool, labels_of: LabelsOf, batched: bool
) -> Tuple[Dict[str, Any], Optional[memoryview]]:
    shape, datatype = tensor.shape, tensor.datatype
    view = tensor.view()
    if part.classification:
        texts, shape = classify(tensor, part.classification, batched, labels_of(tensor.name))
        datatype, view = DataType.BYTES, memoryview(bytes_tensors.pack(texts))
    entry: Dict[str, Any] = {"name": tensor.name, "datatype": datatype.value, "shape": list(shape)}
    if binary:
        entry["parameters"] = {"binary_data_size": len(view)}
        return entry, view
    entry["data"] = json_tensors.to_list(view, datatype, tensor.name)
    return entry, None
