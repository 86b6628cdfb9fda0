import contextlib
import os
import socket
import subprocess
import sys
import time

import numpy
import pytest

from edge_agent.engine_host import boot, wire

WAIT_S = 30
SEGMENT = 3


class HostProcess:
    """A real host, started as the agent starts it."""

    def __init__(self, arena):
        self.arena = arena
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(WAIT_S)
        words = [sys.executable, "-I", boot.__file__, "edge_agent.engine_host.main", str(os.getpid()), str(theirs.fileno())]
        self.process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
        theirs.close()
        self.asked = 0
        self.attached = False

    def call(self, op, descriptors=(), **fields):
        """The reply to an operation."""
        self.asked += 1
        wire.send_control(self.control, dict(fields, id=self.asked, op=op), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        reply, _ = wire.receive_control(self.control)
        assert reply["id"] == self.asked
        return reply

    def load(self, order):
        """The reply to a load, and our end of the instance's channel."""
        if not self.attached:
            self.attached = True
            assert self.call("attach", [self.arena.descriptor()], segment=SEGMENT, bytes=1 << 20)["ok"]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(WAIT_S)
        return self.call("load", [theirs.detach()], **order), ours

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def instances(self):
        """How many of its threads bear the model's name."""
        names = []
        for thread in os.listdir("/proc/%d/task" % self.process.pid):
            with contextlib.suppress(OSError), open("/proc/%d/task/%s/comm" % (self.process.pid, thread)) as comm:
                names.append(comm.read().strip())
        return names.count("add_one/1")

    def wait_for_instances(self, count):
        """The kernel forgets a thread a moment after Python has joined it."""
        deadline = time.monotonic() + WAIT_S
        while self.instances() != count:
            assert time.monotonic() < deadline, "%d instance threads instead of %d" % (self.instances(), count)
            time.sleep(0.005)

    def close(self):
        self.control.close()
        self.process.wait(WAIT_S)


@pytest.fixture
def host(arena):
    process = HostProcess(arena)
    yield process
    process.close()


def infer(arena, channel, value):
    ref = arena.put(0, numpy.full((1, 4), value, numpy.float32))
    request = wire.RequestRef([ref], (), 0, 1, SEGMENT, 512 << 10, 4096)
    channel.send(wire.pack_execute(5, [request]))
    data = channel.recv(wire.MAX_MESSAGE + 1)
    (answer,), _ = wire.unpack_answers(data, wire.message_kind(data)[1])
    assert answer.status == wire.OK, answer.text
    return arena.read(answer.outputs[0])


def test_a_host_loads_infers_and_stops(host, order, arena):
    reply, channel = host.load(order("add_one"))
    assert (reply["ok"], reply["max_batch_size"], reply["inputs"][0]["shape"]) == (True, 8, [-1, 4])
    assert (infer(arena, channel, 41) == 42).all()
    assert host.call("stop")["ok"]
    assert host.process.wait(WAIT_S) == 0
    channel.close()


def test_a_load_that_fails_says_why_each_time_and_hurts_no_other(host, order, arena, tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\x08\x07 no model")
    _, good = host.load(order("add_one", instance=1))
    texts = []
    for _ in range(2):
        reply, channel = host.load(order("add_one", instance=2, path=str(broken)))
        assert (reply["ok"], reply["error"]["code"]) == (False, "model.load_failed")
        texts.append(reply["error"]["text"])
        assert channel.recv(1) == b"", "the host closes the channel of a failed load"
        channel.close()
    assert texts[0] == texts[1]
    assert str(broken) in texts[0]
    reply, channel = host.load(order("add_one", instance=2))
    assert reply["ok"]
    assert (infer(arena, good, 1) == 2).all()
    assert (infer(arena, channel, 2) == 3).all()
    good.close()
    channel.close()


def test_a_number_cannot_be_loaded_twice(host, order):
    _, first = host.load(order("add_one", instance=4))
    reply, second = host.load(order("add_one", instance=4))
    assert "instance 4 is loaded already" in reply["error"]["text"]
    first.close()
    second.close()


def test_unloading_ends_the_channel_and_leaves_nothing(host, order, arena):
    _, channel = host.load(order("add_one"))
    infer(arena, channel, 1)
    assert host.call("unload", instance=1)["ok"]
    assert channel.recv(1) == b""
    channel.close()
    descriptors = host.descriptors()
    for _ in range(10):
        reply, channel = host.load(order("add_one"))
        assert reply["ok"]
        assert (infer(arena, channel, 1) == 2).all()
        assert host.call("unload", instance=1)["ok"]
        channel.close()
    assert host.descriptors() == descriptors
    host.wait_for_instances(0)
    assert host.call("unload", instance=1)["ok"], "what is gone already is unloaded"


def test_an_instance_whose_channel_the_agent_closed_can_be_loaded_again(host, order):
    _, first = host.load(order("add_one"))
    host.wait_for_instances(1)
    first.close()
    host.wait_for_instances(0)
    reply, channel = host.load(order("add_one"))
    assert reply["ok"]
    channel.close()
