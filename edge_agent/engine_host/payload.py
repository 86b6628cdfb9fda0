"""The outputs of one request on their way into its slot."""

import numpy

from edge_agent.engine_host import tensors, wire


class Payload:
    """Outputs as flat bytes, laid one after another at multiples of wire.ALIGNMENT."""

    def __init__(self):
        self._parts = []
        self._end = 0

    @property
    def nbytes(self):
        """Bytes of a slot that holds all of it; at least 1, since a tensor without bytes still lies somewhere."""
        return max(self._end, 1)

    def add(self, index, datatype, array):
        """One more output. A contiguous array is not copied here."""
        flat = tensors.to_wire(array, datatype)
        start = wire.aligned(self._end)
        self._parts.append((index, wire.DATATYPE_CODES[datatype], array.shape, start, flat))
        self._end = start + flat.nbytes

    def place(self, views, segment, offset, capacity):
        """Copies into a slot and answers the references; None when the slot is too small."""
        base = wire.aligned(offset)
        if base - offset + self.nbytes > capacity:
            return None
        room = numpy.frombuffer(views.view(segment, base, self.nbytes), numpy.uint8)
        refs = []
        for index, datatype, shape, start, flat in self._parts:
            room[start : start + flat.nbytes] = flat
            refs.append(wire.TensorRef(index, datatype, shape, segment, base + start, flat.nbytes))
        return refs

    def own(self, arrays):
        """Makes the bytes its own: those shared with one of `arrays`, or all when it is None."""
        self._parts = [
            (index, datatype, shape, start, flat.copy() if arrays is None or _shares(flat, arrays) else flat)
            for index, datatype, shape, start, flat in self._parts
        ]


def _shares(flat, arrays):
    return any(numpy.may_share_memory(flat, array) for array in arrays if array.dtype != object)
