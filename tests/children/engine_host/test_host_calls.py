"""Calls of other models from within a Python model: the test is the agent's end of the channel."""

import json
import socket

import numpy
import pytest

from edge_agent.engine_host import calls, wire
from edge_agent.engine_host.calls import MAX_OPEN
from edge_agent.engine_host.failures import ModelFailed
from edge_agent.engine_host.instance import Instance
from edge_agent.engine_host.model import load

WAIT_S = 20
INPUTS = 256 << 10  # the inputs of calls lie from here on

HEAD = """
import asyncio
import numpy
import triton_python_backend_utils as pb

def ask(x, model="other", **fields):
    return pb.InferenceRequest(model_name=model, requested_output_names=["z"], inputs=[pb.Tensor("a", x)], **fields)

def value(response):
    if response.has_error():
        raise pb.TritonModelException("%s (%d)" % (response.error().message(), response.error().code()))
    return pb.get_output_tensor_by_name(response, "z").as_numpy()

class TritonPythonModel:
"""

ONE = (
    HEAD
    + """
    def execute(self, requests):
        answers = []
        for request in requests:
            z = value(ask(request.inputs()[0].as_numpy(), model_version=3, timeout=5, parameters={"p": 1}).exec())
            answers.append(pb.InferenceResponse([pb.Tensor("y", z * 10)]))
        return answers
"""
)

MANY = (
    HEAD
    + """
    async def one(self, x):
        return value(await ask(x).async_exec())

    async def execute(self, requests):
        (request,) = requests
        x = request.inputs()[0].as_numpy()
        await asyncio.sleep(0)
        found = await asyncio.gather(*[self.one(x + n) for n in range(int(x[0, 0]))])
        return [pb.InferenceResponse([pb.Tensor("y", sum(found))])]
"""
)


class Agent:
    """An instance, and the agent's end of its channel."""

    def __init__(self, bench, order):
        self.bench = bench
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(WAIT_S)
        self.instance = Instance(1, "pm/1", lambda: load(order), theirs, bench.arena.views)
        self.instance.load()
        self.end = INPUTS

    def ask(self, value, room=0):
        self.bench.batch += 1
        self.ours.send(wire.pack_execute(self.bench.batch, [self.bench.request(row(value), room=room)]))

    def next(self):
        """(kind, number, data) of the next message."""
        data = self.ours.recv(wire.MAX_MESSAGE + 1)
        kind, _, number = wire.message_kind(data)
        return kind, number, data

    def expect(self, kind):
        found, number, data = self.next()
        assert found == kind
        return number, wire.unpack_note(data)

    def say(self, kind, number, **fields):
        self.ours.send(wire.pack_note(kind, number, fields))

    def give_room(self, number, fields):
        """Where the inputs of a call go; answers the offset of the first."""
        first = self.end
        places = []
        for tensor in fields["inputs"]:
            places.append([3, self.end])
            self.end += wire.aligned(tensor["nbytes"])
        self.say(wire.CALL_ROOM, number, places=places)
        return first

    def done(self, number, array):
        """The other model's answer."""
        ref = self.bench.arena.put(0, array)
        output = {"name": "z", "datatype": "FP32", "shape": array.shape, "segment": 3, "offset": ref.offset}
        self.say(wire.CALL_DONE, number, version="1", outputs=[dict(output, nbytes=ref.nbytes)])

    def read(self, at):
        return numpy.frombuffer(bytes(self.bench.arena.views.view(3, at, 16)), numpy.float32)

    def answer(self):
        kind, number, data = self.next()
        assert kind == wire.ANSWER
        (answer,), _ = wire.unpack_answers(data, 1)
        return number, answer

    def output(self):
        _, answer = self.answer()
        assert answer.status == wire.OK, answer.text
        return self.bench.arena.read(answer.outputs[0])[0, 0]

    def close(self):
        self.ours.close()
        assert self.instance.end(WAIT_S)


@pytest.fixture
def agent(bench, order_of):
    made = []

    def make(text):
        made.append(Agent(bench("add_one"), order_of(text)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def row(value):
    return numpy.full((1, 4), value, numpy.float32)


def test_a_call_passes_inputs_and_gets_outputs(agent):
    a = agent(ONE)
    a.ask(5)
    number, fields = a.expect(wire.CALL)
    tensor = {"name": "a", "datatype": "FP32", "shape": [1, 4], "nbytes": 16}
    assert fields.pop("inputs") == [tensor]
    assert fields == {"model": "other", "version": "3", "outputs": ["z"], "id": "", "timeout": 5, "parameters": {"p": 1}}
    at = a.give_room(number, {"inputs": [tensor]})
    assert a.expect(wire.CALL_GO)[0] == number
    assert a.read(at).tolist() == [5, 5, 5, 5]
    a.done(number, row(6))
    assert a.expect(wire.CALL_FREE)[0] == number
    assert a.output() == 60


@pytest.mark.parametrize("status", ["UNAVAILABLE", ""])
def test_an_error_is_an_answer_with_an_error_whenever_it_comes(agent, status):
    a = agent(ONE)
    for late in (False, True):
        a.ask(5)
        number, fields = a.expect(wire.CALL)
        if late:
            a.give_room(number, fields)
            a.expect(wire.CALL_GO)
        a.say(wire.CALL_DONE if late else wire.CALL_ROOM, number, error={"text": "no memory", "status": status})
        assert a.expect(wire.CALL_FREE)[0] == number
        _, answer = a.answer()
        assert answer.status == wire.FAILED
        assert json.loads(answer.text.decode())["text"] == "no memory (%d)" % (4 if status else 1)


def test_a_batch_that_waits_is_not_lost_and_comes_after_the_one_that_calls(agent):
    a = agent(ONE)
    a.ask(1)
    a.ask(2, room=1)
    for value in (1, 2):
        number, fields = a.expect(wire.CALL)
        at = a.give_room(number, fields)
        a.expect(wire.CALL_GO)
        assert a.read(at)[0] == value
        a.done(number, row(value))
        a.expect(wire.CALL_FREE)
        assert a.output() == value * 10


def test_a_slot_for_an_earlier_answer_is_used_while_a_later_batch_waits(agent):
    a = agent(ONE)
    a.bench.batch += 1
    a.ours.send(wire.pack_execute(a.bench.batch, [a.bench.request(row(1), capacity=0)]))
    number, fields = a.expect(wire.CALL)
    a.give_room(number, fields)
    a.expect(wire.CALL_GO)
    a.done(number, row(1))
    a.expect(wire.CALL_FREE)
    first, answer = a.answer()
    assert answer.status == wire.NO_ROOM
    a.ask(2, room=1)
    number, fields = a.expect(wire.CALL)
    a.ours.send(wire.pack_room(first, 0, 3, 600 << 10, 4096))
    assert a.output() == 10
    a.say(wire.CALL_DONE, number, error={"text": "enough"})
    a.expect(wire.CALL_FREE)
    assert a.answer()[0] == first + 1


def test_coroutines_have_many_calls_out_at_once_and_get_their_own_answers(agent):
    a = agent(MANY)
    a.ask(3)
    calls_made = [a.expect(wire.CALL) for _ in range(3)]
    places = {}
    for number, fields in reversed(calls_made):
        places[number] = a.give_room(number, fields)
    for _ in calls_made:
        number, _ = a.expect(wire.CALL_GO)
        a.done(number, row(a.read(places[number])[0] * 100))
    for _ in calls_made:
        a.expect(wire.CALL_FREE)
    assert a.output() == 300 + 400 + 500


def test_calls_over_the_bound_wait_for_others(agent):
    a = agent(MANY)
    a.ask(MAX_OPEN + 2)
    open_calls = [a.expect(wire.CALL)[0] for _ in range(MAX_OPEN)]
    a.ours.settimeout(0.2)
    with pytest.raises(socket.timeout):
        a.next()
    a.ours.settimeout(WAIT_S)
    for _ in range(2):
        number = open_calls.pop(0)
        a.done(number, row(1))
        assert a.expect(wire.CALL_FREE)[0] == number
        open_calls.append(a.expect(wire.CALL)[0])
    for number in open_calls:
        a.done(number, row(1))
        a.expect(wire.CALL_FREE)
    assert a.output() == MAX_OPEN + 2


def test_calls_that_nobody_awaits_are_given_up_with_their_batch(agent):
    a = agent(
        HEAD
        + """
    async def execute(self, requests):
        self.left = [ask(request.inputs()[0].as_numpy()).async_exec() for request in requests]
        for one in self.left:
            one.close()
        return [pb.InferenceResponse([pb.Tensor("y", request.inputs()[0].as_numpy())]) for request in requests]
"""
    )
    for _ in range(2):
        a.ask(4)
        number, fields = a.expect(wire.CALL)
        kinds = sorted(a.next()[0] for _ in range(2))
        assert kinds == [wire.ANSWER, wire.CALL_FREE]
        a.say(wire.CALL_ROOM, number, places=[[3, INPUTS]])  # it crossed


def test_a_model_runs_in_the_thread_that_loaded_it(agent):
    """As a connection to SQLite demands, which may be made in initialize."""
    a = agent(
        HEAD
        + """
    def initialize(self, args):
        import sqlite3
        self.base = sqlite3.connect(":memory:")
    def execute(self, requests):
        (value,) = self.base.execute("SELECT 41").fetchone()
        return [pb.InferenceResponse([pb.Tensor("y", numpy.full((1, 4), value, "f4"))]) for request in requests]
    def finalize(self):
        self.base.close()
"""
    )
    a.ask(1)
    assert a.output() == 41


def test_async_exec_needs_a_coroutine_and_exec_needs_the_instance(agent):
    a = agent(
        HEAD
        + """
    def execute(self, requests):
        ask(requests[0].inputs()[0].as_numpy()).async_exec()
"""
    )
    a.ask(1)
    assert "async_exec is for `async def execute`" in json.loads(a.answer()[1].text.decode())["text"]
    with pytest.raises(ModelFailed, match="while it runs"):
        calls.here()


def test_a_call_while_the_model_loads_is_an_error_that_says_so(order_of):
    text = (
        HEAD
        + """
    def initialize(self, args):
        value(ask(numpy.zeros((1, 4), "f4")).exec())
    def execute(self, requests):
        pass
"""
    )
    with pytest.raises(Exception, match=r"models are called from the thread .* while it runs \(5\)"):
        load(order_of(text))


def test_the_agents_end_during_a_call_ends_the_instance(agent, capfd):
    for text in (ONE, MANY):
        a = agent(text)
        a.ask(2)
        a.expect(wire.CALL)
        a.ours.close()
        assert a.instance.end(WAIT_S)


def test_a_call_too_large_for_a_message_is_refused_at_once(agent):
    a = agent(
        HEAD
        + """
    def execute(self, requests):
        value(ask(requests[0].inputs()[0].as_numpy(), parameters={"p": "x" * 70000}).exec())
"""
    )
    a.ask(1)
    assert "the call cannot be passed on: a message of 70" in json.loads(a.answer()[1].text.decode())["text"]
