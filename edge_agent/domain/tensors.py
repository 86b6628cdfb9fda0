"""Tensors by reference: name, datatype, shape and where the bytes lie in the arena."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol, Tuple


class DataType(enum.Enum):
    """A KServe v2 datatype; the value is its name on the wire."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BF16 = "BF16"
    BYTES = "BYTES"

    @property
    def itemsize(self) -> int:
        """Bytes of one element; 0 for BYTES, whose elements differ in size."""
        return _ITEMSIZE[self.value]

    @property
    def config_name(self) -> str:
        """Triton's ModelConfig name, as in TYPE_FP32 (BYTES is TYPE_STRING)."""
        return "TYPE_STRING" if self is DataType.BYTES else "TYPE_" + self.value


_ITEMSIZE = {
    "BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2,
    "INT32": 4, "INT64": 8, "FP16": 2, "FP32": 4, "FP64": 8, "BF16": 2, "BYTES": 0,
}  # fmt: skip


@dataclass(frozen=True)
class TensorSpec:
    """What a model expects or gives; -1 in the shape is any size, the batch dimension included."""

    name: str
    datatype: DataType
    shape: Tuple[int, ...]


class Lease(Protocol):
    """A counted hold on a slot of the tensor arena (processes/arena.py makes them)."""

    @property
    def segment(self) -> int:
        """Number of the segment that children map."""

    @property
    def offset(self) -> int:
        """First byte in the segment."""

    @property
    def nbytes(self) -> int:
        """Usable bytes."""

    def view(self) -> memoryview:
        """The bytes, writable, in this process."""

    def retain(self) -> Lease:
        """One more holder; answers itself."""

    def release(self) -> None:
        """One holder less; the last one frees the slot."""


@dataclass(frozen=True)
class Tensor:
    """A tensor in the arena: bytes [start, start + nbytes) of its lease, row-major, little-endian."""

    name: str
    datatype: DataType
    shape: Tuple[int, ...]
    lease: Lease
    start: int
    nbytes: int

    def view(self) -> memoryview:
        """The tensor's bytes in this process."""
        return self.lease.view()[self.start : self.start + self.nbytes]
