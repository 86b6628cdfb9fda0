import socket

import numpy
import pytest

from edge_agent.engine_host import wire
from edge_agent.engine_host.instance import Instance

WAIT_S = 20


class Served:
    """An instance at work, and the agent's end of its channel."""

    def __init__(self, bench):
        self.bench = bench
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(WAIT_S)
        self.instance = Instance(1, bench.model.name, lambda: (bench.model, bench.reply), theirs, bench.arena.views)
        assert self.instance.load() == bench.reply

    def ask(self, *requests):
        self.bench.batch += 1
        self.ours.send(wire.pack_execute(self.bench.batch, requests))

    def answers(self, count):
        messages = []
        while not messages or not wire.unpack_answers(messages[-1], wire.message_kind(messages[-1])[1])[1].last:
            messages.append(self.ours.recv(wire.MAX_MESSAGE + 1))
        return self.bench.answers(messages, count)

    def close(self):
        self.ours.close()
        assert self.instance.end(WAIT_S)


@pytest.fixture
def served(bench):
    made = []

    def make(name, **fields):
        made.append(Served(bench(name, **fields)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def row(value):
    return numpy.full((1, 4), value, numpy.float32)


def check(served, answer, value):
    assert answer.status == wire.OK, answer.text
    assert (served.bench.arena.read(answer.outputs[0]) == value).all()


def test_batches_sent_ahead_are_answered_in_order(served):
    one = served("add_one")
    for value in range(3):
        one.ask(one.bench.request(row(value), room=value))
    one.bench.batch -= 3
    for value in range(3):
        one.bench.batch += 1
        check(one, one.answers(1)[0], value + 1)


@pytest.mark.parametrize("rubbish", [b"\xff" * 40, b"\x01", b"\x01\x63" + b"\0" * 10, b"\x01\x03" + b"\0" * 10])
def test_rubbish_on_the_channel_does_not_end_the_thread(served, rubbish, capfd):
    one = served("add_one")
    one.ours.send(rubbish)
    one.ask(one.bench.request(row(5)))
    check(one, one.answers(1)[0], 6)
    assert "Traceback" in capfd.readouterr()[1]


def test_many_answers_come_in_several_messages_of_bounded_size(served):
    one = served("boxes", decode={"kind": "yolo", "min_score": 0.5, "iou": 1.0, "labels": ["a very long label " * 20]})
    found = numpy.zeros((12, 6), numpy.float32)
    found[:] = [0, 0, 5, 3, 0.9, 0]
    request = one.bench.request(found.reshape(1, 3, 4, 6), decode=True)
    one.ask(*[request] * 40)
    answers = one.answers(40)
    assert all(answer.status == wire.OK for answer in answers)
    assert sum(len(answer.text) for answer in answers) > 2 * wire.MAX_MESSAGE
    assert one.bench.times.rows == 40


def test_the_thread_ends_with_its_channel(served):
    one = served("add_one")
    one.ours.close()
    one.instance._thread.join(WAIT_S)
    assert not one.instance._thread.is_alive()


def test_an_instance_can_be_ended_twice(served):
    one = served("add_one")
    assert one.instance.end(WAIT_S)
    assert one.instance.end(WAIT_S)
    assert one.ours.recv(10) == b""
