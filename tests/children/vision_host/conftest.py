"""A vision child as the agent starts it, driven over its control channel (Python 3.6 too)."""

import mmap
import os
import select
import socket
import subprocess
import sys
import tempfile

import pytest

from edge_agent.engine_host import wire

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BOOT = os.path.join(ROOT, "edge_agent", "engine_host", "boot.py")
SEGMENT_BYTES = 16 * 1024 * 1024


class RunningChild:
    """The other end of a child: `call`, `event`, and a segment numbered 1."""

    def __init__(self, module):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.output = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-I", "-u", BOOT, module, str(os.getpid()), str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdout=self.output, stderr=self.output)
        theirs.close()
        self.memory = tempfile.TemporaryFile()  # noqa: SIM115
        self.memory.truncate(SEGMENT_BYTES)
        self.bytes = mmap.mmap(self.memory.fileno(), SEGMENT_BYTES)
        self.events = []
        self._calls = 0
        self.call("attach", {"segment": 1, "bytes": SEGMENT_BYTES}, (self.memory.fileno(),))

    def _receive(self, timeout_s):
        if not select.select([self.sock], [], [], timeout_s)[0]:
            raise AssertionError("the child said nothing for %g s; it printed %r" % (timeout_s, self.printed()))
        message, _ = wire.receive_control(self.sock)
        assert message is not None, "the child ended: %r" % self.printed()
        return message

    def call(self, op, fields, descriptors=(), timeout_s=20):
        """The reply, an error included."""
        self._calls += 1
        wire.send_control(self.sock, dict(fields, op=op, id=self._calls), descriptors)
        while True:
            message = self._receive(timeout_s)
            if "event" not in message:
                assert message["id"] == self._calls
                return message
            self.events.append(message)

    def event(self, name, timeout_s=20):
        """The next event of this name."""
        while not any(one["event"] == name for one in self.events):
            self.events.append(self._receive(timeout_s))
        found = [one for one in self.events if one["event"] == name][0]
        self.events.remove(found)
        return found

    def printed(self):
        """What the child wrote to stdout and stderr."""
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def close(self):
        self.sock.close()
        try:
            self.process.wait(10)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.bytes.close()
            self.memory.close()
            self.output.close()


@pytest.fixture
def start_child():
    """start_child(module) -> RunningChild, ended with the test."""
    started = []

    def start(module):
        started.append(RunningChild(module))
        return started[-1]

    yield start
    for child in started:
        child.close()


@pytest.fixture(scope="session")
def data_dir():
    return os.path.join(ROOT, "tests", "data")


@pytest.fixture
def target():
    """target(**changes) -> a preprocess table as the agent sends it."""

    def make(**changes):
        table = {
            "width": 64, "height": 48, "layout": "NCHW", "resize": "letterbox", "color": "RGB", "datatype": "FP32",
            "scale": 1.0, "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0],
        }  # fmt: skip
        table.update(changes)
        return table

    return make
