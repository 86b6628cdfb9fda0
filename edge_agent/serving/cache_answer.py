"""An answer that is kept: tensors by value, free of any slot, and its form as bytes."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from edge_agent.domain.requests import InferResponse
from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import DataType, Lease, Tensor

_FORM = 1  #: number of the form as bytes
_ENTRY_BYTES = 512  #: what an answer takes beside its values, about
_DETECTION_BYTES = 512
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class KeptTensor:
    """One output and its bytes."""

    name: str
    datatype: DataType
    shape: Tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Answer:
    """What a model said."""

    tensors: Tuple[KeptTensor, ...]
    detections: Optional[Tuple[Detection, ...]]

    @classmethod
    def of(cls, response: InferResponse) -> Answer:
        """A copy of what a response says; its slots may be free then."""
        tensors = tuple(KeptTensor(one.name, one.datatype, one.shape, bytes(one.view())) for one in response.outputs)
        return cls(tensors, response.detections)

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return _ENTRY_BYTES + sum(len(one.data) for one in self.tensors) + _DETECTION_BYTES * len(self.detections or ())

    @property
    def room_bytes(self) -> int:
        """What its tensors take in a slot."""
        return sum(_aligned(len(one.data)) for one in self.tensors)

    def into(self, lease: Lease) -> Tuple[Tensor, ...]:
        """Its tensors, copied into a slot of at least `room_bytes`."""
        view, at, tensors = lease.view(), 0, []
        for one in self.tensors:
            size = len(one.data)
            view[at : at + size] = one.data
            tensors.append(Tensor(one.name, one.datatype, one.shape, lease, at, size))
            at += _aligned(size)
        return tuple(tensors)

    def to_bytes(self) -> bytes:
        """Length of a JSON head, the head, the tensors' bytes behind each other."""
        head = {
            "form": _FORM,
            "outputs": [[one.name, one.datatype.value, one.shape, len(one.data)] for one in self.tensors],
            "detections": None if self.detections is None else [_plain(seen) for seen in self.detections],
        }
        text = json.dumps(head).encode()
        return b"".join([_LENGTH.pack(len(text)), text, *(one.data for one in self.tensors)])

    @classmethod
    def from_bytes(cls, value: bytes) -> Answer:
        """The opposite; ValueError for anything else."""
        try:
            return cls._read(value)
        except (struct.error, KeyError, TypeError, IndexError) as error:
            raise ValueError("not an answer: %s" % error) from error

    @classmethod
    def _read(cls, value: bytes) -> Answer:
        (length,) = _LENGTH.unpack_from(value)
        at = _LENGTH.size + length
        head: Dict[str, Any] = json.loads(value[_LENGTH.size : at].decode())
        tensors = []
        for name, datatype, shape, size in head["outputs"]:
            tensors.append(KeptTensor(str(name), DataType(datatype), tuple(map(int, shape)), value[at : at + int(size)]))
            at += int(size)
        if head["form"] != _FORM or at != len(value):
            raise ValueError("not an answer of form %d, or not whole" % _FORM)
        seen = head["detections"]
        return cls(tuple(tensors), None if seen is None else tuple(map(_detection, seen)))


def _plain(seen: Detection) -> Any:
    return [seen.label, seen.score, seen.box, dict(seen.extra)]


def _detection(fields: Any) -> Detection:
    label, score, box, extra = fields
    return Detection(label, score, None if box is None else (box[0], box[1], box[2], box[3]), extra)


def _aligned(size: int) -> int:
    return (size + 63) & ~63
