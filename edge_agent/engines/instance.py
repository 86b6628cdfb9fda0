"""One model instance in a host: packs batches into messages, unpacks the answers, holds the slots meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Lease, Tensor
from edge_agent.engine_host import wire
from edge_agent.engines.batch import Answer, Batch, BatchOwner, Outcome, Ran
from edge_agent.engines.decoded import detections
from edge_agent.engines.load import LoadReport
from edge_agent.engines.patience import Patience
from edge_agent.engines.traffic import Traffic
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.channel import Channel

_NO_TIMES = wire.Times(True, 0, 0, 0, 0)  #: of a batch that did not run


@dataclass(eq=False)
class _Sent:
    """A batch that the host holds."""

    number: int
    batch: Batch[Any]
    owner: BatchOwner[Any]
    held: List[Lease]  #: slots that the host may read or write until it has answered
    shapes: Tuple[Any, ...]
    times: Optional[wire.Times] = None  #: set by the last message
    extra: Dict[int, Lease] = field(default_factory=dict)  #: slots given for outputs that did not fit, by place


class EngineInstance:
    """Implements the batcher's instance: `up`, `send`. One thread and one channel of its host stand behind it."""

    def __init__(
        self,
        number: int,
        label: str,
        arena: Arena,
        segment: Segment,
        traffic: Traffic,
        clock: Clock,
        batch_timeout_s: float,
        load_timeout_s: float,
        on_hang: Callable[[str], None],
        on_busy: Callable[[int, float], None],
    ) -> None:
        self.number = number
        self.label = label
        self.on_up: Callable[[], None] = lambda: None
        self._arena = arena
        self._segment = segment
        self._traffic = traffic
        self._open = False
        self._on_hang = on_hang
        self._patience = Patience(label, clock, batch_timeout_s, load_timeout_s, on_hang, lambda until: on_busy(number, until))
        self._channel: Optional[Channel] = None
        self._report: Optional[LoadReport] = None
        self._batched = False
        self._sent: Dict[int, _Sent] = {}
        self._next_number = 0

    # -- life -------------------------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """Whether it takes ordinary batches: its host runs, has all its models, and nothing runs alone there."""
        return self._open and self._channel is not None and self._traffic.open

    @property
    def loaded(self) -> bool:
        """Whether its host runs and has the model."""
        return self._open and self._channel is not None

    def may_run_alone(self) -> bool:
        """Whether a batch that must run alone can be sent now; if not, `on_up` is called when it can."""
        return self.loaded and self._traffic.may_run_alone(self.tell_room)

    def connect(self, sock: socket.socket, report: LoadReport) -> None:
        """Its host has loaded the model; batches may come after open(). The socket is this instance's from now on."""
        self._hang_up()
        self._report = report
        self._input_index = {spec.name: index for index, spec in enumerate(report.inputs)}
        self._output_index = {spec.name: index for index, spec in enumerate(report.outputs)}
        self._batched = report.max_batch_size > 0
        self._patience.forget((tuple(self._row(spec.shape) for spec in report.inputs), 1))
        self._channel = Channel(sock, self._on_message, self._hang_up)

    def open(self) -> None:
        """The host has loaded all that it should: batches may come."""
        self._open = True
        self.on_up()

    def tell_room(self) -> None:
        """The host takes batches again."""
        self.on_up()

    def use_segment(self, segment: Segment) -> None:
        """The host's segment from now on: the old one was abandoned with a process that would not go."""
        self._segment = segment

    def _hang_up(self) -> None:
        """The channel ended or is not wanted; what the host holds is answered for when it has been reaped."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def close(self) -> None:
        """No batches any more, until connect() and open(). The host lets go of a model whose channel has ended."""
        self._hang_up()
        self._open = False
        self._patience.stop()

    def lose(self, reason: str, suspect: bool) -> None:
        """The host ended with what it held. Call it when nobody can write to the slots of these batches any more."""
        lost, self._sent = list(self._sent.values()), {}
        for sent in lost:
            self._let_go(sent)
        for sent in lost:
            sent.owner.lost(sent.batch, reason, suspect)

    @staticmethod
    def _let_go(sent: _Sent) -> None:
        for lease in (*sent.held, *sent.extra.values()):
            lease.release()

    # -- batches ----------------------------------------------------------------------------------------------------

    def send(self, batch: Batch[Any], owner: BatchOwner[Any]) -> None:
        """Hands a batch to the host; never blocks."""
        self._next_number += 1
        requests = [self._request_ref(item.request, item.rows) for item in batch.items]
        shapes = (tuple(self._row(ref.shape) for ref in requests[0].inputs), batch.rows)
        held = [lease.retain() for item in batch.items for lease in _leases(item.request)]
        sent = _Sent(self._next_number, batch, owner, held, shapes)
        self._sent[sent.number] = sent
        self._traffic.began(batch.reason == "retry")
        if len(self._sent) == 1:
            self._begin_head()
        try:
            self._deliver(wire.pack_execute(sent.number, requests))
        except (wire.WireError, struct.error, ValueError) as error:
            text = "a request of %s cannot be passed on: %s" % (self.label, error)
            asyncio.get_running_loop().call_soon(self._refuse, sent, errors.InvalidRequest(text))
        except errors.ChildGone as error:
            asyncio.get_running_loop().call_soon(self._undelivered, sent, str(error))

    def _deliver(self, message: bytes) -> None:
        if self._channel is None:
            raise errors.ChildGone("the engine host of %s is down" % self.label)
        self._channel.send(message)

    def _row(self, shape: Tuple[int, ...]) -> Tuple[int, ...]:
        return shape[1:] if self._batched else shape

    def _request_ref(self, request: InferRequest, rows: int) -> wire.RequestRef:
        inputs = [
            wire.TensorRef(
                self._input_index[tensor.name],
                wire.DATATYPE_CODES[tensor.datatype.value],
                tensor.shape,
                tensor.lease.segment,
                tensor.lease.offset + tensor.start,
                tensor.nbytes,
            )
            for tensor in request.inputs
        ]
        flags = wire.FLAG_DECODE if request.decode else 0
        outputs = [self._output_index[name] for name in request.outputs] or list(range(len(self._output_index)))
        room = request.room
        if room is None:
            return wire.RequestRef(inputs, [] if request.decode else outputs, flags, rows, self._segment.number, 0, 0)
        return wire.RequestRef(inputs, outputs, flags, rows, room.segment, room.offset, room.nbytes)

    def _refuse(self, sent: _Sent, error: errors.EdgeAgentError) -> None:
        if self._take_out(sent):
            sent.batch.answers[:] = [error] * len(sent.batch.items)
            sent.times = _NO_TIMES
            self._end(sent)

    def _undelivered(self, sent: _Sent, reason: str) -> None:
        if self._take_out(sent):
            self._let_go(sent)
            sent.owner.lost(sent.batch, reason, suspect=False)
            self._traffic.ended()

    def _take_out(self, sent: _Sent) -> bool:
        """The host holds it no more; False when it was lost meanwhile."""
        if sent.number not in self._sent:
            return False
        first = next(iter(self._sent)) == sent.number
        del self._sent[sent.number]
        if first:
            self._begin_head()
        return True

    def _begin_head(self) -> None:
        head = next(iter(self._sent.values()), None)
        self._patience.begin(None if head is None else self._patience.budget_s(head.shapes))

    # -- answers ----------------------------------------------------------------------------------------------------

    def _on_message(self, data: bytes) -> None:
        try:
            sent = self._read(data)
        except (wire.WireError, struct.error, ValueError, LookupError, TypeError) as error:
            self._on_hang("%s answered in a form that cannot be read: %s: %s" % (self.label, type(error).__name__, error))
            return
        if sent is not None and sent.times is not None and None not in sent.batch.answers:
            self._patience.ran(sent.shapes)
            self._take_out(sent)
            self._end(sent)

    def _read(self, data: bytes) -> Optional[_Sent]:
        """Puts the answers into their batch."""
        kind, count, number = wire.message_kind(data)
        sent = self._sent.get(number)
        if kind != wire.ANSWER or sent is None:
            return None
        answers, times = wire.unpack_answers(data, count)
        for ref in answers:
            if ref.status == wire.NO_ROOM:
                self._give_room(sent, ref)
            else:
                sent.batch.answers[ref.request] = self._answer(sent, ref)
        if times.last:
            sent.times = times
        return sent

    def _end(self, sent: _Sent) -> None:
        times = sent.times or _NO_TIMES
        self._let_go(sent)
        sent.owner.finished(sent.batch, Ran(times.input_ns / 1e9, times.infer_ns / 1e9, times.output_ns / 1e9))
        self._traffic.ended()

    def _answer(self, sent: _Sent, ref: wire.AnswerRef) -> Answer:
        extra = sent.extra.pop(ref.request, None)
        if ref.status == wire.FAILED:
            if extra is not None:
                extra.release()
            said = json.loads(ref.text.decode())
            return errors.ExecutionError("model '%s': %s" % (self.label, said.get("text", "")), refusal=said.get("code", ""))
        lease = extra or sent.batch.items[ref.request].request.room
        outputs = tuple(self._tensor(tensor, lease) for tensor in ref.outputs) if lease is not None else ()
        seen = detections(ref.text) if ref.text else None
        return Outcome(outputs, seen, (extra,) if extra is not None else ())

    def _tensor(self, ref: wire.TensorRef, lease: Lease) -> Tensor:
        assert self._report is not None
        spec = self._report.outputs[ref.index]
        datatype = DataType(wire.DATATYPES[ref.datatype])
        return Tensor(spec.name, datatype, tuple(ref.shape), lease, ref.offset - lease.offset, ref.nbytes)

    def _give_room(self, sent: _Sent, ref: wire.AnswerRef) -> None:
        """The outputs need a larger slot: one is given if there is one now, else they are dropped."""
        try:
            lease = self._room(ref.need)
        except errors.EdgeAgentError as error:
            sent.batch.answers[ref.request] = error
            message = wire.pack_drop(sent.number, ref.request)
        else:
            sent.extra[ref.request] = lease
            sent.held.append(lease.retain())
            message = wire.pack_room(sent.number, ref.request, lease.segment, lease.offset, lease.nbytes)
        with contextlib.suppress(errors.ChildGone):  # the batch is lost with its host, which will be told
            self._deliver(message)

    def _room(self, need: int) -> Lease:
        what = "the outputs of %s take %d bytes" % (self.label, need)
        try:
            leases = self._arena.try_acquire([(self._segment, need)])
        except errors.PayloadTooLarge as error:
            raise errors.PayloadTooLarge("%s: %s" % (what, error)) from error
        if leases is None:
            raise errors.ArenaFull("%s and no slot of that size is free" % what)
        return leases[0]


def _leases(request: InferRequest) -> List[Lease]:
    """Each slot of a request once."""
    leases = {id(tensor.lease): tensor.lease for tensor in request.inputs}
    if request.room is not None:
        leases[id(request.room)] = request.room
    return list(leases.values())
