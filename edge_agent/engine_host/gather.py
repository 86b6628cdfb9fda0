"""Puts the inputs of a batch's requests together."""

import numpy

from edge_agent.engine_host import tensors, wire


class Member:
    """A request of a batch with its inputs as arrays, in the model's order."""

    __slots__ = ("number", "request", "arrays")

    def __init__(self, number, request, arrays):
        self.number = number
        self.request = request
        self.arrays = arrays


class Gatherer:
    """Reads the requests' tensors; several are copied once into a buffer that is used again, one alone is not copied."""

    def __init__(self, model, views):
        self._model = model
        self._views = views
        self._buffers = [numpy.empty(0, numpy.uint8) for _ in model.inputs]

    def member(self, number, request, first):
        """The request with its arrays; WireError when they are not the model's or cannot stand beside `first`'s."""
        arrays = [None] * len(self._model.inputs)
        for ref in request.inputs:
            if ref.index >= len(arrays) or arrays[ref.index] is not None:
                raise wire.WireError("input number %d is unknown or came twice" % ref.index)
            arrays[ref.index] = self._array(ref, request.rows)
        self._check(request, arrays, first)
        return Member(number, request, arrays)

    def _array(self, ref, rows):
        spec = self._model.inputs[ref.index]
        wrong = spec.differs(ref.datatype, ref.shape)
        if not wrong and self._model.batched and (ref.shape[0] != rows or rows < 1):
            wrong = "input '%s' has %d rows, the request %d" % (spec.name, ref.shape[0], rows)
        if wrong:
            raise wire.WireError(wrong)
        view = self._views.view(ref.segment, ref.offset, ref.nbytes)
        return tensors.from_wire(view, ref.datatype, ref.shape, self._model.engine.text)

    def _check(self, request, arrays, first):
        missing = [spec.name for spec, array in zip(self._model.inputs, arrays) if array is None]
        if missing:
            raise wire.WireError("input '%s' is missing" % missing[0])
        if first is not None:
            for spec, array, other in zip(self._model.inputs, arrays, first.arrays):
                if array.shape[1:] != other.shape[1:]:
                    text = "input '%s' of shape %s cannot share a batch with %s"
                    raise wire.WireError(text % (spec.name, list(array.shape), list(other.shape)))
        bad = [index for index in request.outputs if index >= len(self._model.outputs)]
        if bad:
            raise wire.WireError("the model has no output number %d" % bad[0])

    def feeds(self, group):
        """The engine's inputs by name for one run."""
        if len(group) == 1:
            return {spec.name: array for spec, array in zip(self._model.inputs, group[0].arrays)}
        return {
            spec.name: self._joined(index, [member.arrays[index] for member in group])
            for index, spec in enumerate(self._model.inputs)
        }

    def parts(self, group):
        """Each input's arrays by name, one a request: for an engine that puts them together in memory of its own."""
        return {spec.name: [member.arrays[index] for member in group] for index, spec in enumerate(self._model.inputs)}

    def own_feeds(self, member):
        """One request's inputs by name, for whoever may keep or change them."""
        return {spec.name: array.copy() for spec, array in zip(self._model.inputs, member.arrays)}

    def _joined(self, index, arrays):
        first = arrays[0]
        if first.dtype == object:
            return numpy.concatenate(arrays)
        rows = sum(array.shape[0] for array in arrays)
        size = sum(array.nbytes for array in arrays)
        if self._buffers[index].nbytes < size:
            self._buffers[index] = numpy.empty(size, numpy.uint8)
        joined = self._buffers[index][:size].view(first.dtype).reshape((rows,) + first.shape[1:])
        at = 0
        for array in arrays:
            joined[at : at + array.shape[0]] = array
            at += array.shape[0]
        return joined
