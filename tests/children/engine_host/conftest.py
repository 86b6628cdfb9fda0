import ctypes
import gc
import os
import select
import socket
import sys
import tempfile
import threading
import time

import numpy
import pytest

from edge_agent.engine_host import tensors, wire
from edge_agent.engine_host.batch import BatchRunner
from edge_agent.engine_host.instance import Instance
from edge_agent.engine_host.model import load
from edge_agent.engine_host.trt import library, loaded
from tests import fake_gpu

WAIT_S = 20
MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "models")
SEGMENT = 3
SEGMENT_BYTES = 1 << 20
ROOM = 512 << 10  # rooms begin here, inputs lie before
ROOM_STEP = 4096


def load_order(name, **fields):
    """A `load` message for one of the test models."""
    order = {
        "instance": 1,
        "model": name,
        "version": "1",
        "platform": "onnxruntime_onnx",
        "path": os.path.join(MODELS, name + ".onnx"),
        "directory": MODELS,
        "threads": 1,
        "max_batch_size": 8,
        "inputs": [],
        "outputs": [],
        "decode": None,
        "warmup": True,
    }
    order.update(fields)
    return order


def python_order(folder, text, **fields):
    """A `load` message for a Python model whose model.py says `text`: x and y, FP32 [4], batches up to 8."""
    path = folder / "pm" / "1" / "model.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    order = load_order("pm", platform="python", path=str(path), directory=str(folder / "pm"))
    for role, name in (("inputs", "x"), ("outputs", "y")):
        order[role] = [{"name": name, "datatype": "FP32", "shape": [-1, 4]}]
    order.update(fields)
    return order


class Arena:
    """A segment as the agent would make one: a file mapped by both sides."""

    def __init__(self):
        self._file = tempfile.TemporaryFile(dir="/dev/shm")  # noqa: SIM115
        self._file.truncate(SEGMENT_BYTES)
        self.views = wire.SegmentViews()
        self.views.attach(SEGMENT, self.descriptor(), SEGMENT_BYTES)
        self._end = 0

    def descriptor(self):
        """A new descriptor of the segment; the receiver closes it."""
        return os.dup(self._file.fileno())

    def close(self):
        """Ends the segment."""
        self.views.detach(SEGMENT)
        self._file.close()

    def put(self, index, array, datatype="FP32", misaligned=0):
        """Writes a tensor and answers its reference."""
        array = numpy.asarray(array)
        flat = tensors.to_wire(array, datatype)
        start = wire.aligned(self._end) + misaligned
        self._end = start + flat.nbytes
        self.write(start, flat.tobytes())
        return wire.TensorRef(index, wire.DATATYPE_CODES[datatype], array.shape, SEGMENT, start, flat.nbytes)

    def write(self, start, data):
        """Puts raw bytes into the segment."""
        self.views.view(SEGMENT, start, len(data))[:] = data

    def read(self, ref):
        """The tensor that an answer refers to, copied."""
        view = self.views.view(ref.segment, ref.offset, ref.nbytes)
        return numpy.array(tensors.from_wire(bytes(view), ref.datatype, ref.shape))


class Bench:
    """A model behind a BatchRunner, asked as the agent asks."""

    def __init__(self, arena, order):
        self.arena = arena
        self.model, self.reply = load(order)
        self.runner = BatchRunner(self.model, arena.views)
        self.batch = 0
        self.times = None

    def request(self, *arrays, outputs=(), decode=False, capacity=ROOM_STEP, room=0, datatype="FP32", rows=None):
        """A request whose inputs are these arrays in the model's order."""
        refs = [self.arena.put(index, array, datatype) for index, array in enumerate(arrays)]
        rows = numpy.asarray(arrays[0]).shape[0] if rows is None else rows
        flags = wire.FLAG_DECODE if decode else 0
        return wire.RequestRef(refs, outputs, flags, rows, SEGMENT, ROOM + room * ROOM_STEP, capacity)

    def run(self, *requests):
        """The answers, by place; each request has exactly one."""
        self.batch += 1
        return self.answers(self.runner.handle(wire.pack_execute(self.batch, requests)), len(requests))

    def answers(self, messages, count):
        """The answers in some messages, by place."""
        found = {}
        for data in messages:
            kind, number, batch = wire.message_kind(data)
            assert (kind, batch) == (wire.ANSWER, self.batch)
            answers, self.times = wire.unpack_answers(data, number)
            for answer in answers:
                assert answer.request not in found, "two answers for one request"
                found[answer.request] = answer
        assert sorted(found) == list(range(count))
        return [found[place] for place in range(count)]

    def room(self, request, at, capacity):
        """The answer to a ROOM message."""
        (data,) = self.runner.handle(wire.pack_room(self.batch, request, SEGMENT, at, capacity))
        answers, self.times = wire.unpack_answers(data, wire.message_kind(data)[1])
        return answers[0]


@pytest.fixture
def arena():
    segment = Arena()
    yield segment
    segment.close()


@pytest.fixture
def bench(arena):
    """Makes a Bench for a test model: `bench("add_one", max_batch_size=4)`."""
    return lambda name, **fields: Bench(arena, load_order(name, **fields))


@pytest.fixture
def python_bench(arena, tmp_path):
    """Makes a Bench for a Python model: `python_bench(text_of_model_py)`."""
    made = []

    def make(text, **fields):
        made.append(Bench(arena, python_order(tmp_path, text, **fields)))
        return made[-1]

    yield make
    for one in made:
        one.model.engine.close()


@pytest.fixture
def order_of(tmp_path):
    """Makes a `load` message for a Python model."""
    return lambda text, **fields: python_order(tmp_path, text, **fields)


@pytest.fixture
def order():
    """Makes a `load` message."""
    return load_order


class Gpu:
    """A fake device and TensorRT of one generation in this process, and plans for it."""

    def __init__(self, folder, arena, **choices):
        self.folder = folder
        self.arena = arena
        self.version = choices.setdefault("version", "10.3.0")
        self.capability = choices.setdefault("compute_capability", (8, 7))
        self._faults = folder / "faults.json"
        self._fake = fake_gpu.InProcess(folder, faults=self._faults, **choices)
        self._served = []

    def start(self):
        self._forget()
        self._fake.__enter__()

    def stop(self):
        self.faults()
        for one in self._served:
            one.close()
        self._forget()
        self._fake.__exit__()

    @staticmethod
    def _forget():
        for cache in (library._found, loaded._loaded, loaded._runtimes):
            cache.clear()
        gc.collect()

    def faults(self, **wanted):
        fake_gpu.set_faults(self._faults, **wanted)

    def live(self):
        """What the library and the driver keep, by kind."""
        gc.collect()
        return sys.modules["fake_gpu.counts"].live()

    def plan(self, name, *profiles, **fields):
        """The path of a plan of one of the test models; `profiles` are (smallest, usual, largest) shapes of x each."""
        fields.setdefault("version", self.version)
        fields.setdefault("compute_capability", self.capability)
        source = os.path.join(MODELS, name + ".onnx")
        named = [one if isinstance(one, dict) else {"x": one} for one in profiles]
        return fake_gpu.make_plan(source, str(self.folder / (name + ".plan")), profiles=named, **fields)

    def order(self, path, **fields):
        """A `load` message for a plan."""
        return load_order("add_one", platform="tensorrt_plan", path=str(path), **fields)

    def serve(self, path, **fields):
        """An instance that has loaded the plan."""
        self._served.append(ServedPlan(self, self.order(path, **fields)))
        return self._served[-1]


class ServedPlan:
    """An instance of a plan at work, and the agent's end of its channel."""

    def __init__(self, gpu, order):
        self.arena = gpu.arena
        self.batch = 0
        self.model = None
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(WAIT_S)
        self.instance = Instance(1, "plan", lambda: self._load(order), theirs, self.arena.views)
        try:
            self.reply = self.instance.load()
        except BaseException:
            self.ours.close()
            raise
        self.engine = self.model.engine

    def _load(self, order):
        self.model, reply = load(order)
        return self.model, reply

    def request(self, *arrays, outputs=(), capacity=ROOM_STEP, room=0, datatype="FP32", rows=None, flags=0):
        refs = [self.arena.put(index, array, datatype) for index, array in enumerate(arrays)]
        rows = numpy.asarray(arrays[0]).shape[0] if rows is None else rows
        return wire.RequestRef(refs, outputs, flags, rows, SEGMENT, ROOM + room * ROOM_STEP, capacity)

    def send(self, *requests):
        """Sends a batch; its number."""
        self.batch += 1
        self.ours.send(wire.pack_execute(self.batch, requests))
        return self.batch

    def receive(self):
        """(batch, answers by place, times) of the next batch that is answered; of a slot that was given, too."""
        found = {}
        while True:
            data = self.ours.recv(wire.MAX_MESSAGE + 1)
            _, number, batch = wire.message_kind(data)
            answers, times = wire.unpack_answers(data, number)
            found.update((answer.request, answer) for answer in answers)
            if times.last or times.rows == 0:
                return batch, [found[place] for place in sorted(found)], times

    def run(self, *requests):
        """The answers of one batch."""
        sent = self.send(*requests)
        batch, answers, self.times = self.receive()
        assert batch == sent
        return answers

    def output(self, answer, place=0):
        assert answer.status == wire.OK, answer.text
        return self.arena.read(answer.outputs[place])

    @property
    def silent(self):
        """Whether nothing was answered yet."""
        return not select.select([self.ours], [], [], 0)[0]

    def close(self):
        self.ours.close()
        assert self.instance.end(WAIT_S)

    @staticmethod
    def until(condition):
        """Waits for it, with a deadline."""
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.005)

    def on_device(self, number, name, dtype, shape):
        """What lies in the device memory of a tensor in one of the engine's sets; None where it has no such room yet."""
        buffer = self.engine._sets[number].buffers[name]
        count = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        if buffer.capacity < count:
            return None
        return numpy.frombuffer(ctypes.string_at(buffer.device, count), dtype).reshape(shape)


@pytest.fixture
def gpu(tmp_path, arena):
    """Makes a Gpu: `gpu(version="8.2", integrated=False)`."""
    made = []

    def make(**choices):
        folder = tmp_path / ("gpu%d" % len(made))
        folder.mkdir()
        made.append(Gpu(folder, arena, **choices))
        made[-1].start()
        return made[-1]

    yield make
    for one in reversed(made):
        one.stop()
    alive = [thread.name for thread in threading.enumerate() if thread.name.startswith("instance-")]
    assert not alive, "threads of instances were left: %s" % alive
