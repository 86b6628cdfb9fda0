"""An inference request as it came: what is asked, and where in the body its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, List, Mapping, Optional, Tuple, Union

from edge_agent.domain.requests import Parameter
from edge_agent.domain.tensors import DataType, Lease, Tensor

#: inputs start at multiples of this in their slot, so that engines may read them in place
ALIGNMENT = 64


@dataclass(frozen=True)
class InputPart:
    """One input: its bytes lie in the body from `start` on, or are `data` (converted from JSON)."""

    name: str
    datatype: DataType
    shape: Tuple[int, ...]
    nbytes: int  #: of the whole tensor
    start: Optional[int] = None  #: within the request body; None when `data` holds the bytes
    data: Optional[bytes] = None  #: the whole tensor; with `start`, only what goes in front of the body's bytes

    @property
    def body_bytes(self) -> int:
        """How many bytes of the request body belong to it."""
        return 0 if self.start is None else self.nbytes - len(self.data or b"")


@dataclass(frozen=True)
class OutputPart:
    """One wanted output and its form."""

    name: str
    binary: bool
    classification: int = 0  #: the k best classes instead of the tensor; 0 is off


@dataclass(frozen=True)
class InferBody:
    """A parsed request; `match` has the checks that need the model."""

    id: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    inputs: Tuple[InputPart, ...] = ()
    outputs: Tuple[OutputPart, ...] = ()  #: empty is all
    priority: int = 0
    timeout_us: int = 0
    binary_default: bool = False  #: form of outputs that were not named
    raw_bytes: Optional[int] = None  #: the body is one raw tensor of so many bytes (header length 0); match() makes it an input

    def offsets(self) -> List[int]:
        """Where each input starts in the request's slot."""
        starts: List[int] = []
        at = 0
        for part in self.inputs:
            starts.append(at)
            at += (part.nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        return starts

    @property
    def input_bytes(self) -> int:
        """Bytes of the slot that the inputs need (never 0: a slot has at least one)."""
        return max(1, self.offsets()[-1] + self.inputs[-1].nbytes) if self.inputs else 1

    def views(self, slot: memoryview) -> List[memoryview]:
        """The places in the slot that take the body's bytes, in the order in which they come; fills in everything else."""
        places: List[memoryview] = []
        for part, at in zip(self.inputs, self.offsets()):
            given = part.data or b""
            slot[at : at + len(given)] = given
            if part.start is not None:
                places.append(slot[at + len(given) : at + part.nbytes])
        return places

    def moves(self, body: Union[bytes, memoryview], slot: memoryview) -> Iterator[Tuple[memoryview, memoryview]]:
        """What of a whole body goes where in the slot; fills in everything else."""
        view = memoryview(body)
        sources = [part for part in self.inputs if part.start is not None]
        for part, place in zip(sources, self.views(slot)):
            start = part.start or 0
            yield view[start : start + part.body_bytes], place

    def copy_inputs(self, body: Union[bytes, memoryview], slot: memoryview) -> None:
        """Puts every input of a whole body into its slot."""
        for source, place in self.moves(body, slot):
            place[:] = source

    def tensors(self, lease: Lease) -> Tuple[Tensor, ...]:
        """The inputs as they lie in the slot."""
        placed = zip(self.inputs, self.offsets())
        return tuple(Tensor(part.name, part.datatype, part.shape, lease, at, part.nbytes) for part, at in placed)
