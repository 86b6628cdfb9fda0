"""Triton's classification extension: the k best of an output as `value:index[:label]` strings."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np

from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.errors import InvalidRequest
from edge_agent.kserve.json_tensors import array_of

#: datatypes that cannot be ranked
UNFIT = (DataType.BOOL, DataType.FP16, DataType.BF16, DataType.BYTES)
MAX_ELEMENTS = 1_000_000


def classify(tensor: Tensor, best: int, batched: bool, labels: Sequence[str]) -> Tuple[List[bytes], Tuple[int, ...]]:
    """The strings row after row, and the shape of the BYTES tensor that they are."""
    if tensor.datatype in UNFIT:
        raise InvalidRequest(unfit(tensor.name, tensor.datatype))
    values = array_of(tensor.view(), tensor.datatype, tensor.shape)
    if values.size > MAX_ELEMENTS:
        raise InvalidRequest("classification of output '%s': it has more than %d elements" % (tensor.name, MAX_ELEMENTS))
    rows = tensor.shape[0] if batched and tensor.shape else 1
    table = values.reshape(rows, -1) if values.size else values.reshape(rows, 0)
    size = min(best, table.shape[1])
    texts: List[bytes] = []
    for row in table:
        # a stable sort of the negated order would overflow unsigned types: sort the reversed row instead
        order = (row.size - 1 - np.argsort(row[::-1], kind="stable"))[::-1][:size]
        texts.extend(_text(float(row[index]), int(index), labels) for index in order)
    return texts, (rows, size) if batched else (size,)


def unfit(name: str, datatype: DataType) -> str:
    """The error text for an output that cannot be ranked."""
    return "classification is not possible for output '%s' of datatype %s" % (name, datatype.value)


def _text(value: float, index: int, labels: Sequence[str]) -> bytes:
    label = ":" + labels[index] if index < len(labels) else ""
    return ("%f:%d%s" % (value, index, label)).encode()
