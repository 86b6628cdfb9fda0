"""How far two answers to one request agree, from 0 to 1: pure. It reads the slots where the answers lie."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from edge_agent.domain.requests import InferResponse
from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import DataType, Tensor
from edge_agent.engine_host.json_tensors import DTYPES

_MIN_IOU = 0.5
_MOST = 1000  #: detections that are looked at, the best ones: pairs take memory with the square
_CLOSE = 0.01  #: of an output's largest value: less is the noise of other kernels, or of FP16 for FP32


def agreement(first: InferResponse, second: InferResponse, max_abs_error: Optional[float] = None) -> float:
    """1 where both say the same, 0 where they have nothing in common.

    Detections: the share that has a partner in the other answer, of the same label and with an IoU of 0.5 at least, each
    partner once. Classes of a whole picture: whether the first is the same. Tensors: the output that agrees least, see
    `_tensors`.
    """
    if first.detections is not None or second.detections is not None:
        return _detections(_best_of(first.detections or ()), _best_of(second.detections or ()))
    others = {tensor.name: tensor for tensor in second.outputs}
    if set(others) != {tensor.name for tensor in first.outputs}:
        return 0.0
    return min((_tensors(tensor, others[tensor.name], max_abs_error) for tensor in first.outputs), default=1.0)


# -- detections -------------------------------------------------------------------------------------------------------


def _detections(first: Sequence[Detection], second: Sequence[Detection]) -> float:
    if not first and not second:
        return 1.0
    if not first or not second:
        return 0.0
    if all(seen.box is None for seen in (*first, *second)):
        return float(first[0].label == second[0].label)
    return 2.0 * _partners(first, second) / (len(first) + len(second))


def _best_of(seen: Sequence[Detection]) -> Sequence[Detection]:
    return sorted(seen, key=lambda one: -one.score)[:_MOST]


def _partners(first: Sequence[Detection], second: Sequence[Detection]) -> int:
    """How many pairs there are, the closest ones first."""
    iou = _iou(_boxes(first), _boxes(second))
    same = np.array([one.label for one in first])[:, None] == np.array([one.label for one in second])[None, :]
    rows, columns = np.nonzero(same & (iou >= _MIN_IOU))
    taken_rows, taken_columns = set(), set()
    for place in np.argsort(-iou[rows, columns], kind="stable"):
        row, column = int(rows[place]), int(columns[place])
        if row not in taken_rows and column not in taken_columns:
            taken_rows.add(row)
            taken_columns.add(column)
    return len(taken_rows)


def _boxes(seen: Sequence[Detection]) -> Any:
    return np.array([one.box or (0.0, 0.0, 0.0, 0.0) for one in seen], np.float64)


def _iou(first: Any, second: Any) -> Any:
    """Of each box with each other one."""
    a, b = first[:, None, :], second[None, :, :]
    sides = np.clip(np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]), 0, None)
    both = sides[..., 0] * sides[..., 1]
    areas = _area(a) + _area(b) - both
    return np.divide(both, areas, out=np.zeros_like(both), where=areas > 0)


def _area(boxes: Any) -> Any:
    return np.clip(boxes[..., 2] - boxes[..., 0], 0, None) * np.clip(boxes[..., 3] - boxes[..., 1], 0, None)


# -- tensors ----------------------------------------------------------------------------------------------------------


def _tensors(first: Tensor, second: Tensor, max_abs_error: Optional[float]) -> float:
    """With `max_abs_error` every value must be within it, or nothing agrees.

    Without, of scores (FP of up to two dimensions): the share of rows with the same largest class, or with all values
    close. Of other FP: the share of values that are close. Of all else: the share of values that are equal.
    """
    if tuple(first.shape) != tuple(second.shape) or _is_float(first) != _is_float(second):
        return 0.0
    if DataType.BYTES in (first.datatype, second.datatype):
        return float(first.datatype is second.datatype and bytes(first.view()) == bytes(second.view()))
    a, b = _array(first), _array(second)
    if a.size == 0:
        return 1.0
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) if _is_float(first) else a == b
        if max_abs_error is not None:
            return float(bool(np.all(same | (np.abs(_signed(a) - _signed(b)) <= max_abs_error))))
        if not _is_float(first):
            return float(np.mean(same))
        close = same | (np.abs(a - b) <= _CLOSE * _largest(a))
        if a.ndim > 2 or a.shape[-1] < 2:
            return float(np.mean(close))
        return float(np.mean(np.all(close, axis=-1) | (np.argmax(a, axis=-1) == np.argmax(b, axis=-1))))


def _is_float(tensor: Tensor) -> bool:
    return tensor.datatype.value in ("FP16", "FP32", "FP64", "BF16")


def _array(tensor: Tensor) -> Any:
    """At least one dimension, FP as FP32 or FP64."""
    shape: Tuple[int, ...] = tuple(tensor.shape) or (1,)
    if tensor.datatype is DataType.BF16:
        halves = np.frombuffer(tensor.view(), "<u2").astype(np.uint32) << 16
        return halves.view(np.float32).reshape(shape)
    array = np.frombuffer(tensor.view(), DTYPES[tensor.datatype.value]).reshape(shape)
    return array.astype(np.float32) if tensor.datatype is DataType.FP16 else array


def _signed(array: Any) -> Any:
    """So that differences of unsigned numbers and bools do not wrap."""
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _largest(array: Any) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0
