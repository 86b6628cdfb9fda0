"""One model instance in a host: packs batches into messages, unpacks the answers, holds the slots meanwhile."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import DataType, Lease, Tensor
from edge_agent.engine_host import wire
from edge_agent.engines.batch import Answer, Batch, BatchOwner, Outcome, Ran
from edge_agent.engines.load import LoadReport
from edge_agent.engines.traffic import Traffic
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.channel import Channel

_SHAPES_REMEMBERED = 256


@dataclass(eq=False)
class _Sent:
    """A batch that the host holds."""

    number: int
    batch: Batch[Any]
    owner: BatchOwner[Any]
    held: List[Lease]  #: slots that the host may read or write until it has answered
    budget_s: float
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
        self._clock = clock
        self._batch_timeout_s = batch_timeout_s
        self._load_timeout_s = load_timeout_s
        self._on_hang = on_hang
        self._on_busy = on_busy
        self._channel: Optional[Channel] = None
        self._report: Optional[LoadReport] = None
        self._sent: Dict[int, _Sent] = {}
        self._next_number = 0
        self._shapes_run: Set[Tuple[Any, ...]] = set()
        self._head_since = 0.0
        self._watch: Optional[asyncio.TimerHandle] = None

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
        return self.loaded and self._traffic.may_run_alone()

    def connect(self, sock: socket.socket, report: LoadReport) -> None:
        """Its host has loaded the model; batches may come after open(). The socket is this instance's from now on."""
        self._report = report
        self._input_index = {spec.name: index for index, spec in enumerate(report.inputs)}
        self._output_index = {spec.name: index for index, spec in enumerate(report.outputs)}
        self._shapes_run.clear()
        self._channel = Channel(sock, self._on_message, self._on_closed)

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

    def _on_closed(self) -> None:
        """The host closed the channel; what it holds is answered for when it has been reaped."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def disconnect(self, reason: str, reaped: bool) -> None:
        """The host ended. Slots come back only if it was reaped: a killed child that does not go may still write."""
        self._on_closed()
        self._open = False
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        lost, self._sent = list(self._sent.values()), {}
        for sent in lost:
            if reaped:
                self._let_go(sent)
        for sent in lost:
            sent.owner.lost(sent.batch, reason)

    @staticmethod
    def _let_go(sent: _Sent) -> None:
        for lease in (*sent.held, *sent.extra.values()):
            lease.release()

    # -- batches ----------------------------------------------------------------------------------------------------

    def send(self, batch: Batch[Any], owner: BatchOwner[Any]) -> None:
        """Hands a batch to the host; never blocks."""
        self._next_number += 1
        requests = [self._request_ref(item.request, item.rows) for item in batch.items]
        shapes = tuple(tuple(ref.shape) for ref in requests[0].inputs) + (batch.rows,)
        budget = self._batch_timeout_s if shapes in self._shapes_run else max(self._batch_timeout_s, self._load_timeout_s)
        held = [lease.retain() for item in batch.items for lease in _leases(item.request)]
        sent = _Sent(self._next_number, batch, owner, held, budget, shapes)
        self._sent[sent.number] = sent
        self._traffic.began(batch.reason == "retry")
        if len(self._sent) == 1:
            self._begin_head()
        try:
            if self._channel is None:
                raise errors.ChildGone("the engine host of %s is down" % self.label)
            self._channel.send(wire.pack_execute(sent.number, requests))
        except wire.WireError as error:
            asyncio.get_running_loop().call_soon(self._refuse, sent, errors.InvalidRequest(str(error)))
        except errors.ChildGone:
            asyncio.get_running_loop().call_soon(self._lose, sent)

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
        if self._sent.pop(sent.number, None) is None:
            return
        sent.batch.answers[:] = [error] * len(sent.batch.items)
        sent.times = wire.Times(True)
        self._end(sent)

    def _lose(self, sent: _Sent) -> None:
        if self._sent.pop(sent.number, None) is not None:
            self._let_go(sent)
            sent.owner.lost(sent.batch, "its channel is closed")
            self._traffic.ended()

    # -- answers ----------------------------------------------------------------------------------------------------

    def _on_message(self, data: bytes) -> None:
        kind, count, number = wire.message_kind(data)
        sent = self._sent.get(number)
        if kind != wire.ANSWER or sent is None:
            return
        answers, times = wire.unpack_answers(data, count)
        for ref in answers:
            if ref.status == wire.NO_ROOM:
                self._give_room(sent, ref)
            else:
                sent.batch.answers[ref.request] = self._answer(sent, ref)
        if times.last:
            sent.times = times
        if sent.times is not None and None not in sent.batch.answers:
            del self._sent[number]
            self._remember(sent.shapes)
            self._begin_head()
            self._end(sent)

    def _end(self, sent: _Sent) -> None:
        times = sent.times or wire.Times(True)
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
        detections = _detections(ref.text) if ref.text else None
        return Outcome(outputs, detections, (extra,) if extra is not None else ())

    def _tensor(self, ref: wire.TensorRef, lease: Lease) -> Tensor:
        assert self._report is not None
        spec = self._report.outputs[ref.index]
        datatype = DataType(wire.DATATYPES[ref.datatype])
        return Tensor(spec.name, datatype, tuple(ref.shape), lease, ref.offset - lease.offset, ref.nbytes)

    def _give_room(self, sent: _Sent, ref: wire.AnswerRef) -> None:
        """The outputs need a larger slot: one is given if there is one now, else they are dropped."""
        assert self._channel is not None
        leases = self._arena.try_acquire([(self._segment, ref.need)])
        if leases is None:
            error = errors.ArenaFull(
                "the outputs of %s take %d bytes and no slot of that size is free" % (self.label, ref.need)
            )
            sent.batch.answers[ref.request] = error
            self._channel.send(wire.pack_drop(sent.number, ref.request))
            return
        lease = leases[0]
        sent.extra[ref.request] = lease
        sent.held.append(lease.retain())
        self._channel.send(wire.pack_room(sent.number, ref.request, lease.segment, lease.offset, lease.nbytes))

    # -- hangs ------------------------------------------------------------------------------------------------------

    def _remember(self, shapes: Tuple[Any, ...]) -> None:
        if len(self._shapes_run) >= _SHAPES_REMEMBERED:
            self._shapes_run.clear()
        self._shapes_run.add(shapes)

    def _begin_head(self) -> None:
        """The oldest batch begins to run, or none is left: its budget counts, and its host may be silent meanwhile."""
        self._head_since = self._clock.monotonic()
        head = next(iter(self._sent.values()), None)
        self._on_busy(self.number, 0.0 if head is None else self._head_since + head.budget_s)
        if self._watch is None and head is not None:
            self._watch_head()

    def _watch_head(self) -> None:
        """One timer follows the oldest batch; it is moved when it fires, not with each batch."""
        self._watch = None
        if not self._sent:
            return
        head = next(iter(self._sent.values()))
        left = self._head_since + head.budget_s - self._clock.monotonic()
        if left <= 0:
            self._on_hang("a batch of %s ran for more than %g s" % (self.label, head.budget_s))
            return
        self._watch = asyncio.get_running_loop().call_later(min(left, self._batch_timeout_s), self._watch_head)


def _leases(request: InferRequest) -> List[Lease]:
    """Each slot of a request once."""
    leases = {id(tensor.lease): tensor.lease for tensor in request.inputs}
    if request.room is not None:
        leases[id(request.room)] = request.room
    return list(leases.values())


def _detections(text: bytes) -> Tuple[Detection, ...]:
    objects = []
    for fields in json.loads(text.decode())["objects"]:
        label, score, box = str(fields.pop("label")), float(fields.pop("score")), fields.pop("box", None)
        corners = None if box is None else (float(box[0]), float(box[1]), float(box[2]), float(box[3]))
        objects.append(Detection(label, score, corners, fields))
    return tuple(objects)
