"""Triton's classification extension: the k best of an output as `value:index[:label]` strings."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.engine_host.json_tensors import ranked
from edge_agent.errors import InvalidRequest
from edge_agent.kserve.json_tensors import array_of

#: datatypes that cannot be ranked
UNFIT = (DataType.BOOL, DataType.FP16, DataType.BF16, DataType.BYTES)
MAX_ELEMENTS = 1_000_000
#: what the loop ranks by itself, and how many strings it makes; the body child does what is more
_INLINE_ELEMENTS = 20_000
_INLINE_TEXTS = 2_000


def classify(tensor: Tensor, best: int, batched: bool, labels: Sequence[str]) -> Tuple[List[bytes], Tuple[int, ...]]:
    """The strings row after row, and the shape of the BYTES tensor that they are."""
    rows, columns = _table(tensor, batched)
    values = array_of(tensor.view(), tensor.datatype, tensor.shape).reshape(rows, columns)
    return ranked(values, best, labels), _shape(rows, min(best, columns), batched)


def put_off(tensor: Tensor, best: int, batched: bool, labels: Sequence[str]) -> Tuple[Dict[str, Any], Tuple[int, ...]]:
    """What the body child has to know to do the same, and the shape."""
    rows, columns = _table(tensor, batched)
    asked = {"rows": rows, "best": best, "datatype": tensor.datatype.value, "labels": list(labels[:columns])}
    return asked, _shape(rows, min(best, columns), batched)


def is_large(tensor: Tensor, best: int) -> bool:
    """Whether it would hold up the loop."""
    elements = _elements(tensor)
    return elements > _INLINE_ELEMENTS or min(elements, best * (tensor.shape[0] if tensor.shape else 1)) > _INLINE_TEXTS


def _table(tensor: Tensor, batched: bool) -> Tuple[int, int]:
    """Rows and columns; InvalidRequest for what cannot be ranked."""
    if tensor.datatype in UNFIT:
        raise InvalidRequest(unfit(tensor.name, tensor.datatype))
    elements = _elements(tensor)
    if elements > MAX_ELEMENTS:
        raise InvalidRequest("classification of output '%s': it has more than %d elements" % (tensor.name, MAX_ELEMENTS))
    rows = tensor.shape[0] if batched and tensor.shape else 1
    return rows, elements // rows if rows else 0


def _elements(tensor: Tensor) -> int:
    return tensor.nbytes // max(1, tensor.datatype.itemsize)


def _shape(rows: int, size: int, batched: bool) -> Tuple[int, ...]:
    return (rows, size) if batched else (size,)


def unfit(name: str, datatype: DataType) -> str:
    """The error text for an output that cannot be ranked."""
    return "classification is not possible for output '%s' of datatype %s" % (name, datatype.value)
