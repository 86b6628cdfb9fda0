"""Requests as the host is told of them, and what it says when it fails."""

from __future__ import annotations

import json
from typing import List, Mapping, Optional, Type

from edge_agent import errors
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Lease, Tensor
from edge_agent.engine_host import wire
from edge_agent.engines.load import LoadReport

#: errors of a Python model that are not its failure, by Triton's word
_STATUSES: Mapping[str, Type[errors.EdgeAgentError]] = {
    "INVALID_ARG": errors.InvalidRequest,
    "NOT_FOUND": errors.ModelNotFound,
    "UNAVAILABLE": errors.UnavailableError,
    "UNSUPPORTED": errors.Unsupported,
}


class References:
    """Makes them for one loaded model."""

    def __init__(self, report: LoadReport) -> None:
        self._report = report
        self._inputs = {spec.name: index for index, spec in enumerate(report.inputs)}
        self._outputs = {spec.name: index for index, spec in enumerate(report.outputs)}

    def request(self, request: InferRequest, rows: int, segment: int) -> wire.RequestRef:
        """One request of a batch; `segment` is the host's own, for one without a slot for outputs. WireError."""
        inputs = [
            wire.TensorRef(
                self._inputs[tensor.name],
                wire.DATATYPE_CODES[tensor.datatype.value],
                tensor.shape,
                tensor.lease.segment,
                tensor.lease.offset + tensor.start,
                tensor.nbytes,
            )
            for tensor in request.inputs
        ]
        flags = wire.FLAG_DECODE if request.decode else 0
        outputs = [self._outputs[name] for name in request.outputs] or list(range(len(self._outputs)))
        room = request.room
        if room is None:
            return wire.RequestRef(inputs, [] if request.decode else outputs, flags, rows, segment, 0, 0)
        return wire.RequestRef(inputs, outputs, flags, rows, room.segment, room.offset, room.nbytes)

    def output(self, ref: wire.TensorRef, lease: Lease) -> Tensor:
        """An output that lies in `lease`."""
        name, datatype = self._report.outputs[ref.index].name, DataType(wire.DATATYPES[ref.datatype])
        return Tensor(name, datatype, tuple(ref.shape), lease, ref.offset - lease.offset, ref.nbytes)


def told(batch: int, place: int, request: InferRequest) -> bytes:
    """The message of what a Python model may ask of a request beside its tensors; empty when there is nothing."""
    found = {"id": request.id, "parameters": dict(request.parameters), "timeout": request.timeout_us}
    fields = {key: value for key, value in found.items() if value}
    if not fields:
        return b""
    try:
        message: bytes = wire.pack_note(wire.TELL, batch, {"request": place, **fields})
    except wire.WireError as error:  # the others of its batch must not suffer for it
        text = "id and parameters are too long: %s" % error
        message = wire.pack_note(wire.TELL, batch, {"request": place, "refused": text})
    return message


def leases(request: InferRequest) -> List[Lease]:
    """Each slot of a request once."""
    found = {id(tensor.lease): tensor.lease for tensor in request.inputs}
    if request.room is not None:
        found[id(request.room)] = request.room
    return list(found.values())


def refusal(label: str, text: bytes) -> errors.EdgeAgentError:
    """The error that a FAILED answer is."""
    said = json.loads(text.decode())
    kind: Optional[Type[errors.EdgeAgentError]] = _STATUSES.get(str(said.get("status")))
    shown = "model '%s': %s" % (label, said.get("text", ""))
    return kind(shown) if kind is not None else errors.ExecutionError(shown, refusal=said.get("code", ""))
