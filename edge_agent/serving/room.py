"""Slots for what a request makes on its way: what to ask the arena for, and what becomes of the slots."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence, Tuple

from edge_agent.domain.tensors import Lease, TensorSpec
from edge_agent.processes.arena import Want


def row_bytes(spec: TensorSpec, batched: bool) -> int:
    """Bytes of one row; 0 where a dimension is variable or elements differ in size."""
    count = 1
    for dim in spec.shape[1:] if batched else spec.shape:
        count *= max(dim, 0)
    return count * spec.datatype.itemsize


def rows_in(input_bytes: int, inputs: Sequence[TensorSpec], max_batch_size: int) -> int:
    """Rows of a request of so many bytes; as many as there can be where nobody can tell."""
    if max_batch_size == 0:
        return 1
    row = sum(row_bytes(spec, True) for spec in inputs)
    return min(max_batch_size, max(1, input_bytes // row)) if row else max_batch_size


class RoomWish:
    """What one request needs beside its input's slot. All of it is taken with that slot in one step, or nothing."""

    def __init__(self, wants: Sequence[Want], exact: bool) -> None:
        self.wants: Tuple[Want, ...] = tuple(wants)
        self.exact = exact  #: by shapes that are known, not by what was seen so far

    def filled(self, leases: Sequence[Lease]) -> Optional[Lease]:
        """The request's `room`, made of a lease for each want."""
        return leases[0] if leases else None


class StepWish(RoomWish):
    """What the steps of an ensemble need, ensembles within it included."""

    def __init__(self, parts: Mapping[int, RoomWish]) -> None:
        wants = [want for part in parts.values() for want in part.wants]
        super().__init__(wants, all(part.exact for part in parts.values()))
        self._parts = dict(parts)

    def filled(self, leases: Sequence[Lease]) -> Optional[Lease]:
        """The rooms by step; None where no step wants any."""
        rooms: Dict[int, Lease] = {}
        at = 0
        for index, part in self._parts.items():
            room = part.filled(leases[at : at + len(part.wants)])
            at += len(part.wants)
            if room is not None:
                rooms[index] = room
        return StepRooms(rooms) if rooms else None


class StepRooms:
    """The rooms of an ensemble's steps, as one lease: whoever holds it needs not know that they are many.

    As a slot of its own it has no bytes. A step takes its room out and gives it back as soon as nobody reads it.
    """

    segment = 0
    offset = 0
    nbytes = 0

    def __init__(self, rooms: Mapping[int, Lease]) -> None:
        self._rooms = dict(rooms)
        self._holders = 1

    def view(self) -> memoryview:
        """No bytes."""
        return memoryview(bytearray())

    def take(self, step: int) -> Optional[Lease]:
        """The room of one step; the caller releases it from now on."""
        return self._rooms.pop(step, None)

    def retain(self) -> StepRooms:
        """One more holder; answers itself."""
        if self._holders <= 0:
            raise AssertionError("retain of rooms that were released")
        self._holders += 1
        return self

    def release(self) -> None:
        """One holder less; the last one frees what no step took."""
        if self._holders <= 0:
            raise AssertionError("rooms released twice")
        self._holders -= 1
        if self._holders == 0:
            rooms, self._rooms = self._rooms, {}
            for room in rooms.values():
                room.release()
