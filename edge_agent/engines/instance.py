"""One model instance in a host: packs batches into messages, unpacks the answers, holds the slots meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any, Callable, Dict, FrozenSet, Optional, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.tensors import Lease
from edge_agent.engine_host import wire
from edge_agent.engines.batch import Answer, Batch, BatchOwner, Outcome, Ran
from edge_agent.engines.calls import CallHost
from edge_agent.engines.decoded import detections
from edge_agent.engines.instance_calls import InstanceCalls
from edge_agent.engines.load import LoadReport
from edge_agent.engines.patience import Patience
from edge_agent.engines.references import References, leases, refusal, told
from edge_agent.engines.sent import Sent
from edge_agent.engines.traffic import Traffic
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.channel import Channel

_NO_TIMES = wire.Times(True, 0, 0, 0, 0)  #: of a batch that did not run


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
        calls: Optional[CallHost] = None,
        name: str = "",
    ) -> None:
        """With `calls` it runs a Python model: one that may call others, and is not asked again when its host died."""
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
        self._batched = False
        self._sent: Dict[int, Sent] = {}
        self._next_number = 0
        self._calls: Optional[InstanceCalls] = None
        if calls is not None:
            self._calls = InstanceCalls(calls, name, label, self._deliver, self._behind, self._on_calls, self._on_wait)

    # -- life -------------------------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """Whether it takes ordinary batches: its host has all its models, nothing runs alone there, it waits for no model."""
        return self._open and self._channel is not None and self._traffic.open and not self._is_calling

    @property
    def loaded(self) -> bool:
        """Whether its host runs and has the model."""
        return self._open and self._channel is not None

    def may_run_alone(self) -> bool:
        """Whether a batch that must run alone can be sent now; if not, `on_up` is called when it can."""
        return self.loaded and not self._is_calling and self._traffic.may_run_alone(self.tell_room)

    @property
    def runs_one(self) -> bool:
        """Whether its host holds a single request of it."""
        return [len(sent.batch.items) for sent in self._sent.values()] == [1]

    def connect(self, sock: socket.socket, report: LoadReport) -> None:
        """Its host has loaded the model; batches may come after open(). The socket is this instance's from now on."""
        self._hang_up()
        self._references = References(report)
        self._batched = report.max_batch_size > 0
        warm = (tuple(self._row(spec.shape) for spec in report.inputs), 1)
        self._patience.forget(None if self._calls is not None else warm)
        self._channel = Channel(sock, self._on_message, self._hang_up)

    def open(self) -> None:
        """The host has loaded all that it should: batches may come."""
        self._open = True
        if self._calls is not None:
            self._calls.join()
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
        if self._calls is not None:
            self._calls.leave()

    def lose(self, reason: str, suspect: bool) -> None:
        """The host ended with what it held. Call it when nobody can write to the slots of these batches any more."""
        lost, self._sent = list(self._sent.values()), {}
        if self._calls is not None:
            self._calls.lose()
        for sent in lost:
            sent.let_go()
            if self._calls is not None:  # what a Python model has done already, nobody knows
                text = "the engine host of model '%s' ended while it ran this request: %s"
                sent.answer_rest(errors.HostDied(text % (self.label, reason)))
        for sent in lost:
            sent.owner.lost(sent.batch, reason, suspect)

    # -- batches ----------------------------------------------------------------------------------------------------

    def send(self, batch: Batch[Any], owner: BatchOwner[Any]) -> None:
        """Hands a batch to the host; never blocks."""
        self._next_number += 1
        own = self._segment.number
        requests = [self._references.request(item.request, item.rows, own) for item in batch.items]
        shapes = (tuple(self._row(ref.shape) for ref in requests[0].inputs), batch.rows)
        held = [lease.retain() for item in batch.items for lease in leases(item.request)]
        sent = Sent(self._next_number, batch, owner, held, shapes)
        self._sent[sent.number] = sent
        self._traffic.began(batch.reason == "retry")
        if len(self._sent) == 1:
            self._begin_head()
        try:
            if self._calls is not None:
                self._tell(sent)
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

    def _tell(self, sent: Sent) -> None:
        for place, item in enumerate(sent.batch.items):
            message = told(sent.number, place, item.request)
            if message:
                self._deliver(message)

    def _refuse(self, sent: Sent, error: errors.EdgeAgentError) -> None:
        if self._take_out(sent):
            sent.answer_rest(error)
            sent.times = _NO_TIMES
            self._end(sent)

    def _undelivered(self, sent: Sent, reason: str) -> None:
        if self._take_out(sent):
            sent.let_go()
            sent.owner.lost(sent.batch, reason, suspect=False)
            self._traffic.ended()

    def _take_out(self, sent: Sent) -> bool:
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
        if sent is not None and sent.answered:
            self._patience.ran(sent.shapes)
            self._take_out(sent)
            self._end(sent)

    def _read(self, data: bytes) -> Optional[Sent]:
        """Puts the answers into their batch."""
        kind, count, number = wire.message_kind(data)
        if kind != wire.ANSWER:
            if self._calls is not None:
                self._calls.on_message(kind, number, wire.unpack_note(data))
            return None
        sent = self._sent.get(number)
        if sent is None:
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

    def _end(self, sent: Sent) -> None:
        times = sent.times or _NO_TIMES
        sent.let_go()
        sent.owner.finished(sent.batch, Ran(times.input_ns / 1e9, times.infer_ns / 1e9, times.output_ns / 1e9))
        self._traffic.ended()

    def _answer(self, sent: Sent, ref: wire.AnswerRef) -> Answer:
        extra = sent.extra.pop(ref.request, None)
        if ref.status == wire.FAILED:
            if extra is not None:
                extra.release()
            return refusal(self.label, ref.text)
        lease = extra or sent.batch.items[ref.request].request.room
        outputs = tuple(self._references.output(tensor, lease) for tensor in ref.outputs) if lease is not None else ()
        seen = detections(ref.text) if ref.text else None
        return Outcome(outputs, seen, (extra,) if extra is not None else ())

    def _give_room(self, sent: Sent, ref: wire.AnswerRef) -> None:
        """The outputs need a larger slot: one is given if there is one now, else they are dropped."""
        try:
            lease = self._room(ref.need, sent.batch.items[ref.request].request.room)
        except errors.EdgeAgentError as error:
            sent.batch.answers[ref.request] = error
            message = wire.pack_drop(sent.number, ref.request)
        else:
            sent.extra[ref.request] = lease
            sent.held.append(lease.retain())
            message = wire.pack_room(sent.number, ref.request, lease.segment, lease.offset, lease.nbytes)
        with contextlib.suppress(errors.ChildGone):  # the batch is lost with its host, which will be told
            self._deliver(message)

    def _room(self, need: int, room: Optional[Lease]) -> Lease:
        """Where the slot is that was too small, since that is where whoever asked can read."""
        what = "the outputs of %s take %d bytes" % (self.label, need)
        try:
            found = self._arena.try_acquire([(self._segment if room is None else self._arena.find(room.segment), need)])
        except errors.PayloadTooLarge as error:
            raise errors.PayloadTooLarge("%s: %s" % (what, error)) from error
        if found is None:
            raise errors.ArenaFull("%s and no slot of that size is free" % what)
        return found[0]

    # -- calls of other models ----------------------------------------------------------------------------------------

    @property
    def _is_calling(self) -> bool:
        return self._calls is not None and self._calls.open

    def _behind(self) -> FrozenSet[str]:
        """Who waits for what it holds."""
        return frozenset().union(*(sent.callers for sent in self._sent.values()))

    def _on_calls(self, whether: bool) -> None:
        self._traffic.calls(self.number, whether)
        if not whether:
            self.on_up()

    def _on_wait(self, whether: bool) -> None:
        if whether:
            self._patience.pause()
        else:
            self._patience.resume()
