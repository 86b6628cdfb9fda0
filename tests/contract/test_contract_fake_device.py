"""The fake driver, PyCUDA and interpreter behave as real ones do where the agent's code can tell."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, List

import pytest
from board import ADD_ONE, MODELS

from tests.fake_gpu import gpu_python, make_plan

WAIT_S = 20


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


def test_a_broken_context_takes_no_plan_and_gives_no_execution_context(board: Any) -> None:
    here = board()
    engine = here.engine()
    here.faults(enqueue="error")
    ((_, on_x), (_, on_y)) = here.memory((1, 4), (1, 4))
    stream = here.cuda.Stream()
    assert here.enqueue(engine, engine.create_execution_context(), (1, 4), (on_x, on_y), stream)
    with pytest.raises(here.cuda.LogicError):
        here.cuda.Context.synchronize()
    here.faults()
    assert here.engine() is None
    assert "Cuda Runtime (an illegal memory access" in here.lines[-1]
    assert engine.create_execution_context() is None


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
    assert here.enqueue(engine, context, (1, 4), (on_x, on_y), stream)
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
    assert context.set_input_shape("x", (2, 4))
    assert native.cuGraphLaunch(made, handle) == 0
    here.cuda.memcpy_dtoh_async(y, on_y, stream)
    stream.synchronize()
    assert y.tobytes() == b"\xa5" * 16, "a graph whose context was changed gave something that looks right"
    assert native.cuGraphExecDestroy(made) == 0
    assert native.cuGraphDestroy(graph) == 0
    assert native.cuGraphLaunch(made, handle) == 400


@pytest.mark.parametrize("change", ["shape", "profile", "nothing yet"])
def test_nothing_is_recorded_before_a_plain_run_after_a_change(change: str, board: Any) -> None:
    here = board()
    native = ctypes.CDLL("libcuda.so.1")
    engine, stream = here.engine(profiles=ADD_ONE * 2), here.cuda.Stream()
    context = engine.create_execution_context()
    ((_, on_x), (_, on_y)) = here.memory((2, 4), (2, 4))
    if change != "nothing yet":
        assert here.enqueue(engine, context, (1, 4), (on_x, on_y), stream)
    if change == "profile":
        assert context.set_optimization_profile_async(1, stream.handle)
    assert native.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), 1) == 0
    assert not here.enqueue(engine, context, (2 if change == "shape" else 1, 4), (on_x, on_y), stream)
    assert "before a plain run" in here.lines[-1]


def test_waiting_for_a_stream_that_is_recorded_is_an_error(board: Any) -> None:
    here = board()
    stream = here.cuda.Stream()
    assert ctypes.CDLL("libcuda.so.1").cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), 1) == 0
    with pytest.raises(here.cuda.LogicError, match="capturing"):
        stream.synchronize()


LOADS = """
import json, sys
import tensorrt
from fake_gpu import settings
runtime = tensorrt.Runtime(tensorrt.Logger())
kept = runtime.deserialize_cuda_engine(open(sys.argv[1], "rb").read())
for _ in range(10):
    runtime.deserialize_cuda_engine(open(sys.argv[1], "rb").read()).create_execution_context()
with open(settings.STATS) as file:
    print(json.dumps(json.load(file), sort_keys=True))
"""


def test_live_objects_are_told_in_a_file(tmp_path: Path) -> None:
    plan = make_plan(MODELS / "add_one.onnx", tmp_path / "p", profiles=ADD_ONE)
    python = gpu_python(tmp_path, stats=tmp_path / "stats.json")
    told = subprocess.check_output([python, "-I", "-c", LOADS, str(plan)], timeout=60)
    assert told == b'{"ICudaEngine": 1, "Logger": 1, "Runtime": 1}\n'


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
