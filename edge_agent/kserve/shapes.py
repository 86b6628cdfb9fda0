"""Shapes out of foreign JSON: sizes that cannot overflow or exhaust anything."""

from __future__ import annotations

from typing import Any, Tuple

from edge_agent.engine_host.json_tensors import MAX_RANK, MAX_TENSOR_BYTES
from edge_agent.errors import InvalidRequest
from edge_agent.kserve import fields

__all__ = ["MAX_RANK", "MAX_TENSOR_BYTES", "count_of", "parse_shape"]


def count_of(shape: Tuple[int, ...]) -> int:
    """Elements of a shape."""
    count = 1
    for dim in shape:
        count *= dim
    return count


def parse_shape(value: Any, where: str, itemsize: int) -> Tuple[int, ...]:
    """A list of sizes whose product stays within MAX_TENSOR_BYTES."""
    dims = fields.array(value, where)
    if len(dims) > MAX_RANK:
        raise InvalidRequest("%s has %d dimensions, at most %d are possible" % (where, len(dims), MAX_RANK))
    for dim in dims:
        if type(dim) is not int or dim < 0:
            fields.refuse(where, "a list of unsigned integers", dim)
        if dim > MAX_TENSOR_BYTES:
            raise InvalidRequest("%s is too large: dimension %d" % (where, dim))
    if count_of(tuple(dims)) * max(1, itemsize) > MAX_TENSOR_BYTES:
        raise InvalidRequest("%s is too large: the tensor would take more than %d bytes" % (where, MAX_TENSOR_BYTES))
    return tuple(dims)
