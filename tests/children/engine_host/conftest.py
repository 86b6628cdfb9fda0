import os
import tempfile

import numpy
import pytest

from edge_agent.engine_host import tensors, wire
from edge_agent.engine_host.batch import BatchRunner
from edge_agent.engine_host.model import load

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
