"""The fake TensorRT and PyCUDA behave as the real ones do where the agent's code can tell."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Iterator, List

import numpy as np
import pytest

from tests import gpu_models
from tests.fake_gpu import InProcess, gpu_python, make_plan, set_faults

MODELS = Path(__file__).parent.parent / "models"
BOTH_APIS = ("8.2", "8.6.1", "10.3.0", "11.4.0")
ADD_ONE = [{"x": ((1, 4), (2, 4), (8, 4))}]
WAIT_S = 20


class Board:
    """The fakes in this process."""

    def __init__(self, folder: Path, version: str, **choices: Any) -> None:
        self.folder, self.version = folder, version
        self.faults_file = folder / "faults.json"
        self.fakes = InProcess(folder, version=version, faults=self.faults_file, **choices)
        self.lines: List[str] = []

    def start(self) -> None:
        self.fakes.__enter__()
        import pycuda.driver as cuda
        import tensorrt as trt

        board = self

        class Log(trt.ILogger):  # type: ignore[misc, name-defined]
            def log(self, severity: Any, msg: str) -> None:
                board.lines.append(msg)

        self.trt, self.cuda, self.log = trt, cuda, Log()
        cuda.init()
        self.context = cuda.Device(0).retain_primary_context()
        self.context.push()
        self.runtime = trt.Runtime(self.log)

    def stop(self) -> None:
        self.context.pop()
        self.fakes.__exit__()

    def faults(self, **wanted: Any) -> None:
        set_faults(self.faults_file, **wanted)

    def engine(self, model: Any = MODELS / "add_one.onnx", **fields: Any) -> Any:
        fields.setdefault("profiles", ADD_ONE)
        fields.setdefault("version", self.version)
        return self.runtime.deserialize_cuda_engine(Path(make_plan(model, self.folder / "p", **fields)).read_bytes())

    def build(self, model: Any, *profiles: Any, flags: Any = ()) -> Any:
        """The plan that the builder makes, or None."""
        trt, kinds = self.trt, self.trt.NetworkDefinitionCreationFlag
        builder = trt.Builder(self.log)
        bits = 1 << int(kinds.EXPLICIT_BATCH) if hasattr(kinds, "EXPLICIT_BATCH") else 0
        network = builder.create_network(bits)
        self.parser = trt.OnnxParser(network, self.log)
        if not self.parser.parse_from_file(str(model)):
            return None
        config = builder.create_builder_config()
        for flag in flags:
            config.set_flag(getattr(trt.BuilderFlag, flag))
        for ranges in profiles:
            profile = builder.create_optimization_profile()
            for name, shapes in ranges.items():
                profile.set_shape(name, *shapes)
            assert config.add_optimization_profile(profile) >= 0
        return builder.build_serialized_network(network, config)

    def memory(self, *shapes: Any) -> List[Any]:
        """(page-locked array, device memory) each."""
        arrays = [self.cuda.pagelocked_empty(shape, np.float32) for shape in shapes]
        return [(array, self.cuda.mem_alloc(array.nbytes)) for array in arrays]

    def enqueue(self, engine: Any, context: Any, shape: Any, pointers: Any, stream: Any) -> bool:
        """One input and one output, by whichever API there is."""
        if hasattr(engine, "num_io_tensors"):
            assert context.set_input_shape("x", shape)
            for name, pointer in zip(("x", "y"), pointers):
                assert context.set_tensor_address(name, int(pointer))
            return bool(context.execute_async_v3(stream.handle))
        assert context.set_binding_shape(0, shape)
        return bool(context.execute_async_v2([int(pointer) for pointer in pointers], stream.handle))

    def run(self, engine: Any, given: Any) -> Any:
        """One run of a model with x and y of the same shape."""
        given = np.asarray(given, np.float32)
        (x, on_x), (y, on_y) = self.memory(given.shape, given.shape)
        x[...] = given
        stream, context = self.cuda.Stream(), engine.create_execution_context()
        self.cuda.memcpy_htod_async(on_x, x, stream)
        assert self.enqueue(engine, context, given.shape, (on_x, on_y), stream)
        self.cuda.memcpy_dtoh_async(y, on_y, stream)
        stream.synchronize()
        return y.copy()


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Any]:
    """Makes a board."""
    made: List[Board] = []

    def make(version: str = "10.3.0", **choices: Any) -> Board:
        made.append(Board(tmp_path, version, **choices))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.mark.parametrize("version", BOTH_APIS)
def test_a_built_plan_computes_what_its_onnx_says(version: str, board: Any) -> None:
    here = board(version)
    plan = here.build(MODELS / "add_one.onnx", *ADD_ONE)
    engine = here.runtime.deserialize_cuda_engine(bytes(plan))
    given = np.arange(12).reshape(3, 4)
    assert np.array_equal(here.run(engine, given), given + 1)


def test_a_dynamic_input_without_a_profile_builds_nothing_and_says_why(board: Any) -> None:
    here = board()
    assert here.build(MODELS / "add_one.onnx") is None
    assert "no optimization profile has been defined" in here.lines[-1]


def test_an_unknown_operator_is_told_by_the_parser(board: Any, tmp_path: Path) -> None:
    here = board()
    assert here.build(gpu_models.unknown_operator(tmp_path / "m.onnx")) is None
    error = here.parser.get_error(0)
    assert (error.node_operator(), error.node_name()) == ("Frobnicate", "n_y")
    assert "Plugin not found" in error.desc()


def test_weights_in_another_file_become_part_of_the_plan(board: Any, tmp_path: Path) -> None:
    here = board()
    plan = here.build(gpu_models.external(tmp_path / "m.onnx"), *ADD_ONE)
    (tmp_path / "weights.bin").unlink()
    engine = here.runtime.deserialize_cuda_engine(plan)
    assert here.run(engine, np.zeros((2, 4))).tolist() == [[1, 2, 3, 4]] * 2


def test_precision_shows_in_the_outputs(board: Any) -> None:
    here = board()
    third = np.full((1, 4), 1 / 3)
    exact = here.run(here.engine(precision="fp32"), third)
    halved = here.run(here.engine(precision="fp16"), third)
    assert exact.tolist() != halved.tolist()
    assert halved.tolist() == exact.astype(np.float16).tolist()


def test_a_quantized_model_needs_the_flag_for_eight_bits(board: Any, tmp_path: Path) -> None:
    here = board()
    model = gpu_models.quantized(tmp_path / "m.onnx")
    assert here.build(model, *ADD_ONE) is None
    assert here.build(model, *ADD_ONE, flags=("INT8",)) is not None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": "10.3.1"}, "Version tag does not match"),
        ({"compute_capability": (7, 2)}, "incompatible device"),
    ],
)
def test_a_foreign_plan_is_none_and_the_log_says_why(fields: Any, words: str, board: Any) -> None:
    here = board()
    assert here.engine(**fields) is None
    assert words in here.lines[-1]


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data[:40], lambda data: b"", lambda data: data + b"x"])
def test_a_damaged_plan_is_none(spoil: Any, board: Any) -> None:
    here = board()
    data = Path(make_plan(MODELS / "add_one.onnx", here.folder / "p", profiles=ADD_ONE)).read_bytes()
    assert here.runtime.deserialize_cuda_engine(spoil(data)) is None


def test_a_shape_out_of_the_profile_is_refused(board: Any) -> None:
    here = board()
    context = here.engine().create_execution_context()
    assert context.set_input_shape("x", (9, 4)) is False
    assert "not in the range of profile 0" in here.lines[-1]


def test_before_10_two_contexts_do_not_share_a_profile(board: Any) -> None:
    here = board("8.5")
    engine = here.engine(profiles=ADD_ONE * 2)
    stream = here.cuda.Stream()
    first, second = engine.create_execution_context(), engine.create_execution_context()
    with pytest.raises(RuntimeError, match="Error in set optimization profile async"):
        second.set_optimization_profile_async(0, stream.handle)
    assert second.set_optimization_profile_async(1, stream.handle) is True
    del first
    assert second.set_optimization_profile_async(0, stream.handle) is True


def test_with_profiles_the_bindings_come_again(board: Any) -> None:
    here = board("8.2")
    engine = here.engine(profiles=ADD_ONE * 2)
    assert [engine.get_binding_name(index) for index in range(engine.num_bindings)] == [
        "x",
        "y",
        "x [profile 1]",
        "y [profile 1]",
    ]


def test_an_output_whose_size_only_the_run_tells_goes_to_its_allocator(board: Any) -> None:
    here = board("8.5")
    engine = here.engine(MODELS / "nonzero.onnx", profiles=[{"x": ((1,), (4,), (8,))}])
    context = engine.create_execution_context()
    context.set_input_shape("x", (5,))
    assert tuple(context.get_tensor_shape("where")) == (1, -1)
    told: List[Any] = []

    class Allocator(here.trt.IOutputAllocator):  # type: ignore[misc, name-defined]
        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
            self.memory = here.cuda.mem_alloc(size)
            return int(self.memory)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            told.append((tensor_name, tuple(shape)))

    allocator, stream = Allocator(), here.cuda.Stream()
    ((x, on_x),) = here.memory((5,))
    x[:] = [0, 1, 0, 2, 3]
    here.cuda.memcpy_htod_async(on_x, x, stream)
    context.set_tensor_address("x", int(on_x))
    context.set_output_allocator("where", allocator)
    assert context.execute_async_v3(stream.handle)
    assert told == [("where", (1, 3))]
    assert engine.get_tensor_dtype("where") == here.trt.int32  # there is no INT64 before 10
    assert np.frombuffer(ctypes.string_at(int(allocator.memory), 12), np.int32).tolist() == [1, 3, 4]


def test_inputs_that_say_sizes_lie_on_the_host(board: Any, tmp_path: Path) -> None:
    here = board()
    model = gpu_models.tiled(tmp_path / "m.onnx")
    engine = here.engine(
        model,
        profiles=[{"x": ((1, 4), (2, 4), (8, 4)), "repeats": ((2,), (2,), (2,))}],
        values=[{"repeats": [[1, 1], [2, 1], [3, 3]]}],
    )
    context = engine.create_execution_context()
    assert engine.get_tensor_location("repeats") == here.trt.TensorLocation.HOST
    context.set_input_shape("x", (2, 4))
    assert context.infer_shapes() == ["repeats"]
    repeats = np.array([2, 3], np.int64)
    context.set_tensor_address("repeats", repeats.ctypes.data)
    assert context.infer_shapes() == []
    assert tuple(context.get_tensor_shape("y")) == (4, 12)
    repeats[:] = 9
    for name in ("x", "y"):
        context.set_tensor_address(name, int(here.cuda.mem_alloc(4096)))
    assert context.execute_async_v3(here.cuda.Stream().handle) is False
    assert "not in the profile's range" in here.lines[-1]


def test_bfloat16_is_two_bytes_of_each_number(board: Any) -> None:
    here = board()
    engine = here.engine(MODELS / "same_bf16.onnx", profiles=[{"x": ((1, 1), (1, 4), (8, 8))}])
    assert engine.get_tensor_dtype("x") == here.trt.DataType.BF16
    with pytest.raises(TypeError):
        here.trt.nptype(here.trt.DataType.BF16)
    context, stream = engine.create_execution_context(), here.cuda.Stream()
    x, y = (here.cuda.pagelocked_empty((2, 2), np.uint16) for _ in range(2))
    x[...] = [[0x3F80, 0x4000], [0xBF80, 0x3E80]]
    on_x, on_y = (here.cuda.mem_alloc(8) for _ in range(2))
    here.cuda.memcpy_htod_async(on_x, x, stream)
    assert here.enqueue(engine, context, (2, 2), (on_x, on_y), stream)
    here.cuda.memcpy_dtoh_async(y, on_y, stream)
    stream.synchronize()
    assert y.tolist() == x.tolist()


def test_streams_run_beside_each_other_and_each_in_order(board: Any) -> None:
    here = board()
    gate = here.folder / "gate"
    gate.touch()
    here.faults(compute_gate=gate)
    engine = here.engine()
    ((x, on_x), (y, on_y)) = here.memory((1, 4), (1, 4))
    x[...] = 1
    busy, other = here.cuda.Stream(), here.cuda.Stream()
    ended = here.cuda.Event(here.cuda.event_flags.DISABLE_TIMING)
    here.cuda.memcpy_htod(on_x, x)
    context = engine.create_execution_context()
    assert here.enqueue(engine, context, (1, 4), (on_x, on_y), busy)
    here.cuda.memcpy_dtoh_async(y, on_y, busy)
    ended.record(busy)
    here.cuda.memcpy_htod_async(on_x, x, other)
    other.synchronize()
    assert not ended.query()
    gate.unlink()
    ended.synchronize()
    assert y.tolist() == [[2.0] * 4]


def test_a_failed_run_breaks_the_context_for_good(board: Any) -> None:
    here = board()
    here.faults(enqueue="error")
    ((_, on_x), (_, on_y)) = here.memory((1, 4), (1, 4))
    stream, engine = here.cuda.Stream(), here.engine()
    context = engine.create_execution_context()
    assert here.enqueue(engine, context, (1, 4), (on_x, on_y), stream)
    with pytest.raises(here.cuda.LogicError, match="illegal memory access"):
        stream.synchronize()
    here.faults()
    with pytest.raises(here.cuda.LogicError):
        here.cuda.mem_alloc(1)


def test_memory_that_was_freed_may_not_be_used(board: Any) -> None:
    here = board()
    ((x, on_x),) = here.memory((1, 4))
    on_x.free()
    stream = here.cuda.Stream()
    here.cuda.memcpy_htod_async(on_x, x, stream)
    with pytest.raises(here.cuda.LogicError, match="illegal memory access"):
        stream.synchronize()


def test_more_memory_than_the_device_has_is_refused(board: Any) -> None:
    here = board(memory_bytes=1 << 20)
    kept = here.cuda.mem_alloc(1 << 19)
    with pytest.raises(here.cuda.MemoryError):
        here.cuda.mem_alloc(1 << 20)
    del kept
    assert here.cuda.mem_alloc(1 << 20)


def test_a_thread_without_a_context_makes_nothing(board: Any) -> None:
    here = board()
    caught: List[Any] = []

    def make() -> None:
        try:
            here.cuda.Stream()
        except here.cuda.LogicError as error:
            caught.append(str(error))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join(WAIT_S)
    assert "no currently active context" in caught[0]


def test_recorded_graphs_do_again_what_was_enqueued(board: Any) -> None:
    here = board()
    native = ctypes.CDLL("libcuda.so.1")
    engine, stream = here.engine(), here.cuda.Stream()
    context = engine.create_execution_context()
    ((x, on_x), (y, on_y)) = here.memory((1, 4), (1, 4))
    handle, graph, made = ctypes.c_void_p(stream.handle), ctypes.c_void_p(), ctypes.c_void_p()
    assert native.cuStreamBeginCapture_v2(handle, 1) == 0
    assert here.enqueue(engine, context, (1, 4), (on_x, on_y), stream)
    assert native.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0
    assert native.cuGraphInstantiateWithFlags(ctypes.byref(made), graph, ctypes.c_ulonglong(0)) == 0
    for number in (5, 7):
        x[...] = number
        here.cuda.memcpy_htod_async(on_x, x, stream)
        assert native.cuGraphLaunch(made, handle) == 0
        here.cuda.memcpy_dtoh_async(y, on_y, stream)
        stream.synchronize()
        assert y.tolist() == [[number + 1.0] * 4]
    assert native.cuGraphExecDestroy(made) == 0
    assert native.cuGraphDestroy(graph) == 0
    assert native.cuGraphLaunch(made, handle) == 400


def test_waiting_for_a_stream_that_is_recorded_is_an_error(board: Any) -> None:
    here = board()
    stream = here.cuda.Stream()
    assert ctypes.CDLL("libcuda.so.1").cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), 1) == 0
    with pytest.raises(here.cuda.LogicError, match="capturing"):
        stream.synchronize()


@pytest.mark.parametrize("version", ["10.3.0", "11.4.0"])
def test_an_attribute_that_the_generation_lacks_cannot_be_set(version: str, board: Any) -> None:
    here = board(version)
    config = here.trt.Builder(here.log).create_builder_config()
    with pytest.raises(AttributeError):
        config.max_workspace_size = 1


CRASHES = """
import tensorrt
runtime = tensorrt.Runtime(tensorrt.Logger())
print("made", flush=True)
runtime.deserialize_cuda_engine(b"anything")
"""


def test_without_a_driver_the_runtime_crashes_its_process_when_it_is_used(tmp_path: Path) -> None:
    python = gpu_python(tmp_path, driver=False)
    done = subprocess.run([python, "-I", "-c", CRASHES], capture_output=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout) == (-11, b"made\n")


def test_an_interpreter_with_the_fakes_finds_them_and_numpy_and_the_driver(tmp_path: Path) -> None:
    text = "import tensorrt, pycuda.driver, numpy, onnxruntime, ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    python = gpu_python(tmp_path, version="8.2.1")
    assert subprocess.check_output([python, "-I", "-c", text], timeout=60) == b"0\n"
    assert "tensorrt" not in sys.modules
