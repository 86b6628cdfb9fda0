"""A parsed request against the model it is for: names, datatypes, shapes, batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, NoReturn, Optional, Sequence, Tuple

from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.errors import InvalidRequest, TensorMismatch
from edge_agent.kserve import bytes_tensors
from edge_agent.kserve.body import InferBody, InputPart, OutputPart
from edge_agent.kserve.classification import UNFIT, unfit
from edge_agent.kserve.fields import shown
from edge_agent.kserve.json_tensors import BINARY_ONLY, binary_only
from edge_agent.kserve.parsing import prefixed
from edge_agent.kserve.shapes import count_of


def match(
    body: InferBody, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], max_batch_size: int, model: str
) -> InferBody:
    """The body, fit for the model (a raw one has got its input). Raises TensorMismatch, InvalidRequest.

    `inputs` and `outputs` are the model's, with the batch dimension first where `max_batch_size` is not 0.
    """
    return _Match(body, model, max_batch_size).run(inputs, outputs)


def _dims(shape: Sequence[int]) -> str:
    return "[%s]" % ",".join(str(dim) for dim in shape)


class _Match:
    def __init__(self, body: InferBody, model: str, max_batch_size: int) -> None:
        self._body = body
        self._model = model
        self._max_batch_size = max_batch_size

    def run(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> InferBody:
        if self._body.raw_bytes is not None:
            self._body = replace(self._body, inputs=(self._raw(inputs, self._body.raw_bytes),), raw_bytes=None)
        specs = {spec.name: spec for spec in inputs}
        for part in self._body.inputs:
            self._check_input(part, specs.get(part.name))
        missing = [spec.name for spec in inputs if all(part.name != spec.name for part in self._body.inputs)]
        if missing:
            self._refuse_missing(missing, len(inputs))
        self._check_batch()
        self._check_outputs({spec.name: spec for spec in outputs})
        return self._body

    def _refuse(self, text: str) -> NoReturn:
        raise TensorMismatch(prefixed(text, shown(self._body.id)))

    def _refuse_missing(self, missing: Sequence[str], expected: int) -> NoReturn:
        got = [shown(part.name) for part in self._body.inputs]
        self._refuse(
            "expected %d inputs but got %d inputs for model '%s'. Got input(s) %s, but missing required input(s) %s. "
            "Please provide all required input(s)." % (expected, len(got), self._model, got, list(missing))
        )

    def _check_input(self, part: InputPart, spec: Optional[TensorSpec]) -> None:
        if spec is None:
            self._refuse("unexpected inference input '%s' for model '%s'" % (shown(part.name), self._model))
        if part.datatype is not spec.datatype:
            text = "inference input '%s' data-type is '%s', but model '%s' expects '%s'"
            self._refuse(text % (part.name, part.datatype.value, self._model, spec.datatype.value))
        fits = len(part.shape) == len(spec.shape) and all(want in (-1, got) for want, got in zip(spec.shape, part.shape))
        if not fits:
            text = "unexpected shape for input '%s' for model '%s'. Expected %s, got %s"
            self._refuse(text % (part.name, self._model, _dims(spec.shape), _dims(part.shape)))

    def _check_batch(self) -> None:
        if self._max_batch_size < 1:
            return
        first = self._body.inputs[0]
        rows = first.shape[0]
        for part in self._body.inputs:
            if part.shape[0] != rows:
                text = "input '%s' has batch-size %d, but input '%s' has %d for model '%s'"
                self._refuse(text % (part.name, part.shape[0], first.name, rows, self._model))
        if rows > self._max_batch_size:
            text = "inference request batch-size must be <= %d for '%s', got %d in 'shape' of input '%s'"
            self._refuse(text % (self._max_batch_size, self._model, rows, first.name))
        if rows < 1:
            self._refuse("inference request batch-size must be >= 1 for '%s'" % self._model)

    def _check_outputs(self, specs: Dict[str, TensorSpec]) -> None:
        wanted = self._body.outputs or tuple(OutputPart(name, self._body.binary_default) for name in specs)
        for part in wanted:
            spec = specs.get(part.name)
            if spec is None:
                self._refuse("unexpected inference output '%s' for model '%s'" % (shown(part.name), self._model))
            if part.classification and spec.datatype in UNFIT:
                self._refuse(unfit(part.name, spec.datatype))
            if spec.datatype in BINARY_ONLY and not part.binary and not part.classification:
                raise InvalidRequest(prefixed(binary_only(spec.datatype, "output", part.name), shown(self._body.id)))

    def _raw(self, inputs: Sequence[TensorSpec], nbytes: int) -> InputPart:
        if len(inputs) != 1:
            self._refuse(
                "raw request must only have 1 input (found %d) to be deduced for model '%s'" % (len(inputs), self._model)
            )
        spec = inputs[0]
        if spec.datatype is DataType.BYTES:
            shape = tuple(1 if dim == -1 else dim for dim in spec.shape)
            if count_of(shape) != 1:
                self._refuse("for BYTES datatype raw input '%s', the model must have input shape [1]" % spec.name)
            prefix = bytes_tensors.prefix(nbytes)
            return InputPart(spec.name, spec.datatype, shape, nbytes + len(prefix), start=0, data=prefix)
        return InputPart(spec.name, spec.datatype, self._raw_shape(spec, nbytes), nbytes, start=0)

    def _raw_shape(self, spec: TensorSpec, nbytes: int) -> Tuple[int, ...]:
        batched = self._max_batch_size >= 1
        dims = list(spec.shape[1:] if batched else spec.shape)
        if dims.count(-1) > 1:
            text = "The shape of the raw input '%s' can not be deduced because there are more than one variable-sized dimension"
            self._refuse(text % spec.name)
        fixed = count_of(tuple(dim for dim in dims if dim != -1)) * spec.datatype.itemsize
        if -1 in dims and fixed and nbytes % fixed == 0:
            dims[dims.index(-1)] = nbytes // fixed
        elif -1 in dims or fixed != nbytes:
            text = "raw input '%s' of model '%s' takes %s %d bytes, got %d"
            self._refuse(text % (spec.name, self._model, "a multiple of" if -1 in dims else "exactly", fixed, nbytes))
        return tuple([1, *dims] if batched else dims)
