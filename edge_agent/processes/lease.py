"""A counted hold on one slot of the tensor arena."""

from __future__ import annotations

from typing import Callable

from edge_agent.processes.segment import Segment, SizeClass


class SlotLease:
    """Implements domain.tensors.Lease; the last release gives the slot to `free`."""

    __slots__ = ("_free", "_segment", "_kind", "segment", "offset", "nbytes", "_holders")

    def __init__(
        self, free: Callable[[Segment, SizeClass, int], None], segment: Segment, kind: SizeClass, offset: int, nbytes: int
    ) -> None:
        self._free = free
        self._segment = segment
        self._kind = kind
        self.segment = segment.number
        self.offset = offset
        self.nbytes = nbytes
        self._holders = 1

    def view(self) -> memoryview:
        """The bytes, writable."""
        if self._holders <= 0:
            raise AssertionError("view of a slot that was released")
        return self._segment.view(self.offset, self.nbytes)

    def retain(self) -> SlotLease:
        """One more holder; answers itself."""
        if self._holders <= 0:
            raise AssertionError("retain of a slot that was released")
        self._holders += 1
        return self

    def release(self) -> None:
        """One holder less; the last one frees the slot."""
        if self._holders <= 0:
            raise AssertionError("slot %d+%d of segment %d released twice" % (self.offset, self.nbytes, self.segment))
        self._holders -= 1
        if self._holders == 0:
            self._free(self._segment, self._kind, self.offset)
