"""Tensor data as JSON, for what is converted in this process: the shared conversion in terms of the domain."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple, Union

import numpy as np

from edge_agent.domain.tensors import DataType
from edge_agent.engine_host import json_tensors
from edge_agent.errors import InvalidRequest

#: datatypes that travel as binary only
BINARY_ONLY = tuple(DataType(name) for name in json_tensors.BINARY_ONLY)


def to_bytes(data: List[Any], datatype: DataType, shape: Sequence[int], count: int, name: str) -> bytes:
    """JSON `data` of `count` elements as the tensor's bytes; InvalidRequest names the input."""
    try:
        return json_tensors.to_bytes(data, datatype.value, shape, count, name)
    except json_tensors.BadJson as exc:
        raise InvalidRequest(str(exc)) from exc


def to_list(view: Union[bytes, memoryview], datatype: DataType, name: str) -> List[Any]:
    """A tensor's bytes as a flat JSON list; NaN and infinity are null."""
    try:
        return json_tensors.to_list(view, datatype.value, name)
    except json_tensors.BadJson as exc:
        raise InvalidRequest(str(exc)) from exc


def binary_only(datatype: DataType, role: str, name: str) -> str:
    """The error text for FP16 and BF16 as JSON."""
    return json_tensors.binary_only(datatype.value, role, name)


def array_of(view: Union[bytes, memoryview], datatype: DataType, shape: Tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A numeric tensor as an array over its bytes."""
    return np.frombuffer(view, dtype=json_tensors.DTYPES[datatype.value]).reshape(shape)
