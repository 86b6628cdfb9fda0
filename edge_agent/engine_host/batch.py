"""One batch: gathers the requests' rows, runs the model, gives each request its own rows back."""

import json
import struct
import sys
import time
import traceback

from edge_agent.engine_host import wire
from edge_agent.engine_host.failures import ModelFailed, RunFailed, shortened
from edge_agent.engine_host.gather import Gatherer
from edge_agent.engine_host.kept import KeptAnswers
from edge_agent.engine_host.payload import Payload
from edge_agent.engine_host.warm_up import misfit


class BatchRunner:
    """Answers the messages of one instance's channel. Each request of a batch gets exactly one answer, whatever happens."""

    def __init__(self, model, views):
        self._model = model
        self._views = views
        self._gatherer = Gatherer(model, views)
        self._kept = KeptAnswers()
        self._told = {}  # what was told of the requests of the next batch, by place

    def handle(self, data):
        """The messages that answer one message."""
        kind, count, batch = wire.message_kind(data)
        if kind == wire.EXECUTE:
            return self._execute(data, count, batch)
        if kind == wire.ROOM:
            return self._give_kept(data, batch)
        if kind == wire.DROP:
            self._kept.take(batch, wire.unpack_room(data)[0])
            return []
        if kind == wire.TELL:
            fields = wire.unpack_note(data)
            self._told[(batch, fields["request"])] = fields
            return []
        raise wire.WireError("message kind %d is not for an engine host" % kind)

    # -- running ------------------------------------------------------------------------------------------------------

    def _execute(self, data, count, batch):
        run, groups = self._read(data, count, batch)
        run_group = self._run_apart if self._model.engine.apart else self._run_group
        for group in groups:
            run_group(run, group)
        return run.messages()

    def _read(self, data, count, batch):
        """(the batch, its members in the groups that run as one). A message that cannot be read is answered as a whole."""
        try:
            requests = wire.unpack_execute(data, count)
        except (struct.error, wire.WireError) as error:
            run = Run(batch, [None] * count, {})
            text = "the batch's message is malformed: %s" % error
            run.answers = [failure(number, "engine.bad_reference", text) for number in range(count)]
            return run, []
        told = {place: fields for (number, place), fields in self._told.items() if number == batch}
        self._told = {key: fields for key, fields in self._told.items() if key[0] > batch}
        run = Run(batch, requests, told)
        members = self._gather(run)
        if self._model.max_batch_size <= 1:
            return run, [[member] for member in members]
        return run, [members] if members else []

    def _gather(self, run):
        """Members with their arrays; a request whose references are bad is answered here and touches no other."""
        started = now_ns()
        members = []
        for number, request in enumerate(run.requests):
            refused = run.told.get(number, {}).get("refused")
            if refused:
                run.answers[number] = failed(number, ModelFailed(refused, "INVALID_ARG"))
                continue
            try:
                first = members[0] if members and self._model.max_batch_size > 1 else None
                members.append(self._gatherer.member(number, request, first))
            except wire.WireError as error:
                run.answers[number] = failure(number, "engine.bad_reference", str(error))
        run.input_ns += now_ns() - started
        return members

    def _run_group(self, run, group):
        started = now_ns()
        try:
            feeds = self._gatherer.feeds(group)
            ready = now_ns()
            names = self._wanted_names(group)
            outputs = dict(zip(names, self._model.engine.run(names, feeds)))
            done = now_ns()
            wrong = misfit(outputs, sum(member.request.rows for member in group)) if self._model.batched else ""
        except Exception as error:  # noqa: BLE001 - the engine's own classes; a bad batch must not end the thread
            wrong, outputs, ready, done = error, {}, started, now_ns()
        run.rows += sum(member.request.rows for member in group)
        run.input_ns += ready - started
        run.infer_ns += done - ready
        self._answer_group(run, group, outputs, wrong, len(group) == 1)
        run.output_ns += now_ns() - done

    def _answer_group(self, run, group, outputs, wrong, alone):
        """Each member's own rows of the outputs, or what went wrong."""
        at = 0
        for member in group:
            rows = slice(at, at + member.request.rows) if self._model.batched else slice(None)
            at += member.request.rows
            run.answers[member.number] = (
                failed(member.number, wrong) if wrong else self._answer(run.batch, member, outputs, rows, alone)
            )

    def _run_apart(self, run, group):
        """The engine gets the requests as they are, all at once, and answers each by itself."""
        started = now_ns()
        try:
            asked = [
                (self._gatherer.own_feeds(member), self._wanted_names([member]), run.told.get(member.number, {}))
                for member in group
            ]
            ready = now_ns()
            answers = self._model.engine.run_apart(asked)
        except Exception as error:  # noqa: BLE001 - as above
            ready, answers = started, [error] * len(group)
        done = now_ns()
        run.rows += sum(member.request.rows for member in group)
        run.input_ns += ready - started
        run.infer_ns += done - ready
        for member, outputs in zip(group, answers):
            wrong = outputs
            if isinstance(outputs, dict):
                wrong = misfit(outputs, member.request.rows) if self._model.batched else ""
            if wrong:
                run.answers[member.number] = failed(member.number, wrong)
            else:
                run.answers[member.number] = self._answer(run.batch, member, outputs, slice(None), False)
        run.output_ns += now_ns() - done

    def _wanted_names(self, group):
        """Each output that somebody wants, once; decoders take all."""
        names = self._model.output_names
        wanted = set()
        for member in group:
            if member.request.flags & wire.FLAG_DECODE:
                return names
            wanted.update(member.request.outputs)
        return names if not wanted or len(wanted) == len(names) else [names[index] for index in sorted(wanted)]

    # -- answering ----------------------------------------------------------------------------------------------------

    def _answer(self, batch, member, outputs, rows, alone):
        try:
            if member.request.flags & wire.FLAG_DECODE:
                return self._decoded(member, outputs, rows)
            return self._delivered(batch, member, outputs, rows, alone)
        except wire.WireError as error:
            return failure(member.number, "engine.bad_reference", str(error))
        except Exception as error:  # noqa: BLE001 - as above
            traceback.print_exc()
            sys.stderr.flush()
            return failure(member.number, "engine.execution_failed", "%s: %s" % (type(error).__name__, shortened(error)))

    def _decoded(self, member, outputs, rows):
        if self._model.decoder is None:
            return failure(member.number, "engine.no_decoder", "the model has no [decode] section")
        if member.request.rows != 1:
            text = "detections are of one picture a request, %d came" % member.request.rows
            return failure(member.number, "engine.bad_reference", text)
        mine = {name: self._cut(array, rows) for name, array in outputs.items()}
        try:
            objects = self._model.decode(mine, member.arrays[self._model.picture].shape)
            text = json.dumps({"objects": objects}, separators=(",", ":"), allow_nan=False)
        except Exception as error:  # noqa: BLE001 - decoders may be the user's own
            text = "the decoder failed: %s: %s" % (type(error).__name__, shortened(error))
            return failure(member.number, "engine.decode_failed", text)
        return wire.AnswerRef(member.number, wire.OK, (), text.encode())

    def _delivered(self, batch, member, outputs, rows, alone):
        request = member.request
        wanted = request.outputs or range(len(self._model.outputs))
        payload = Payload()
        for index in wanted:
            spec = self._model.outputs[index]
            payload.add(index, spec.datatype, self._cut(outputs[spec.name], rows))
        refs = payload.place(self._views, request.segment, request.offset, request.capacity)
        if refs is not None:
            return wire.AnswerRef(member.number, wire.OK, refs)
        # The engine may have answered with the input's own memory, and a slice holds its whole batch's: both go on.
        payload.own(member.arrays if alone else None)
        self._kept.put(batch, member.number, payload, payload.nbytes)
        return wire.AnswerRef(member.number, wire.NO_ROOM, need=payload.nbytes)

    def _cut(self, array, rows):
        return array[rows] if self._model.batched else array

    def _give_kept(self, data, batch):
        number, segment, offset, capacity = wire.unpack_room(data)
        payload = self._kept.take(batch, number)
        if payload is None:
            answer = failure(number, "engine.answer_dropped", "the result waited too long for a slot and was dropped")
        else:
            answer = self._place_kept(batch, number, payload, (segment, offset, capacity))
        return wire.pack_answers(batch, [answer], wire.Times(False))

    def _place_kept(self, batch, number, payload, room):
        try:
            refs = payload.place(self._views, *room)
        except wire.WireError as error:
            return failure(number, "engine.bad_reference", str(error))
        if refs is not None:
            return wire.AnswerRef(number, wire.OK, refs)
        self._kept.put(batch, number, payload, payload.nbytes)
        return wire.AnswerRef(number, wire.NO_ROOM, need=payload.nbytes)


class Run:
    """What one batch has come to so far."""

    def __init__(self, batch, requests, told):
        self.batch = batch
        self.requests = requests
        self.told = told
        self.answers = [None] * len(requests)
        self.rows = 0
        self.input_ns = 0
        self.infer_ns = 0
        self.output_ns = 0

    def messages(self):
        """The answers and times as datagrams."""
        times = wire.Times(True, self.rows, self.input_ns, self.infer_ns, self.output_ns)
        return wire.pack_answers(self.batch, self.answers, times)


def failure(number, code, text, **more):
    """A FAILED answer."""
    return wire.AnswerRef(number, wire.FAILED, (), json.dumps(dict(more, code=code, text=text)).encode())


def failed(number, wrong):
    """The answer to a request that the model did not answer: `wrong` is a text or what was raised."""
    status = wrong.status if isinstance(wrong, ModelFailed) else ""
    code = wrong.code if isinstance(wrong, RunFailed) else "engine.execution_failed"
    return failure(number, code, shortened(wrong), status=status)


def now_ns():
    """Nanoseconds for intervals."""
    return int(time.perf_counter() * 1e9)
