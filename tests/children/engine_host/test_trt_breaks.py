"""What ends the process, what condemns a plan, and what does neither."""

import os
import subprocess
import sys
import threading
import time

import numpy
import pytest

from edge_agent.engine_host import overlap, wire
from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.trt import device, failures, library
from edge_agent.engine_host.trt.engine import TensorRtEngine, open_engine
from edge_agent.engine_host.trt.logger import Hearing
from tests import fake_gpu

MODELS = os.path.join(os.path.dirname(os.path.abspath(fake_gpu.__file__)), "models")
ROWS = ((1, 4), (4, 4), (8, 4))
WAIT_S = 20


class Ended(Exception):
    """In place of the process's end."""


@pytest.fixture
def ended(monkeypatch):
    """The reasons for which the process would have ended."""
    reasons = []

    def end(reason):
        reasons.append(reason)
        raise Ended(reason)

    for module in (failures, device, overlap):
        monkeypatch.setattr(module, "end_process", end)
    return reasons


def test_a_refused_run_of_sizes_that_ran_before_ends_the_process(gpu, ended):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS))
    one.faults(enqueue="false")
    served.run(served.request(numpy.ones((8, 4), numpy.float32)))
    assert len(ended) == 1
    assert "TensorRT cannot run it: " in ended[0]


def test_refusals_without_end_end_the_process_and_one_that_runs_begins_anew(gpu, ended):
    one = gpu()
    served = one.serve(one.plan("add_one_any", ((1, 1), (1, 4), (8, 4096))))

    def ask(width):
        served.arena._end = 0
        return served.run(served.request(numpy.ones((1, width), numpy.float32), capacity=1 << 16))[0].status

    for first in (100, 200):
        one.faults(enqueue="false")
        assert {ask(first + number) for number in range(64)} == {wire.FAILED}
        assert ended == []
        one.faults()
        assert ask(first) == wire.OK
    one.faults(enqueue="false")
    for number in range(65):
        ask(300 + number)
    assert len(ended) == 1


def test_a_refused_run_of_a_broken_context_ends_the_process_whatever_its_sizes(gpu, ended):
    one = gpu()
    served = one.serve(one.plan("add_one_any", ((1, 1), (1, 4), (8, 64))))
    sys.modules["fake_gpu.driver"].break_down()
    served.run(served.request(numpy.ones((3, 33), numpy.float32)))
    assert "illegal memory access" in ended[0]
    sys.modules["fake_gpu.driver"].state.sticky = 0


OF_THE_MOMENT = [
    "Error Code 1: Serialization (Serialization assertion creator failed.Cannot deserialize plugin since corresponding "
    "IPluginCreator not found in Plugin Registry)",
    "Error Code 1: Cuda Runtime (unknown error)",
    "Error Code 1: DLA (Failed to acquire a core of the DLA)",
    "Error Code 4: Internal Error (Engine deserialization failed.)",
]


@pytest.mark.parametrize("said", OF_THE_MOMENT)
def test_what_may_go_well_another_time_does_not_condemn_the_plan(gpu, said):
    one = gpu()
    path = one.plan("add_one", ROWS)
    one.faults(deserialize=said)
    with pytest.raises(LoadError, match="refuses the plan") as caught:
        one.serve(path)
    assert caught.value.detail == {}
    one.faults()
    one.serve(path)


OF_THE_PLAN = [
    "Error Code 1: Serialization (Serialization assertion magicTagRead == magicTag failed.Magic tag does not match)",
    "Error Code 1: Serialization (Serialization assertion stdVersionRead == serializationVersion failed.Version tag does not "
    "match. Note: Current Version: 213, Serialized Engine Version: 205)",
    "6: The engine plan file is not compatible with this version of TensorRT, expecting library version 8.4.1 got 8.2.3",
    "6: The engine plan file is generated on an incompatible device, expecting compute 8.6 got compute 7.5, please rebuild.",
    "Error Code 1: Serialization (Platform specific tag mismatch detected.)",
]


@pytest.mark.parametrize("said", OF_THE_PLAN)
def test_what_the_library_says_of_the_plan_itself_condemns_it(said):
    assert failures.blames_plan(["a line before", said])


def test_another_threads_lines_condemn_nothing(gpu):
    one = gpu()
    one.serve(one.plan("add_one", ROWS))
    log = library.probe().log
    error = sys.modules["tensorrt"].ILogger.Severity.ERROR
    with Hearing(log) as heard:
        thread = threading.Thread(target=log.log, args=(error, OF_THE_PLAN[0]))
        thread.start()
        thread.join()
        assert heard.own_errors == []
        assert heard.lines == [OF_THE_PLAN[0]]
        log.log(error, "mine")
        assert (heard.lines, heard.own_errors) == (["mine"], ["mine"])


BREAKS = """
import sys, types
package = types.ModuleType("edge_agent")
package.__path__ = [%r]
sys.modules["edge_agent"] = package
from edge_agent.engine_host.trt.engine import open_engine
from fake_gpu import driver
first = open_engine(sys.argv[1], {})
driver.break_down()
open_engine(sys.argv[2], {})
print("it was loaded")
"""


def test_a_context_that_one_plan_broke_ends_the_process_that_loads_another(tmp_path):
    """And so says nothing of the other plan, which is asked again in the next process."""
    for name in ("a", "b"):
        fake_gpu.make_plan(os.path.join(MODELS, "add_one.onnx"), tmp_path / name, profiles=[{"x": ROWS}])
    python = fake_gpu.gpu_python(tmp_path)
    script = BREAKS % os.path.dirname(os.path.dirname(failures.__file__)).rpartition("/")[0]
    command = [python, "-I", "-c", script, str(tmp_path / "a"), str(tmp_path / "b")]
    ended = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    out, said = ended.communicate(timeout=60)
    assert (ended.returncode, out) == (failures.EXIT_ENGINE_BROKEN, "")
    assert "the GPU engine is broken: CUDA fails: " in said


def test_a_context_that_cannot_be_entered_ends_the_process(gpu, ended):
    one = gpu()
    path = str(one.plan("add_one", ROWS))
    cuda = library.probe().cuda
    sys.modules["fake_gpu.driver"].break_down()
    with pytest.raises(Ended, match="its CUDA context cannot be used: cuDevicePrimaryCtxRetain failed"):
        open_engine(path, {})
    sys.modules["fake_gpu.driver"].state.sticky = 0
    one.faults()

    def no_memory(self):
        raise cuda.MemoryError("cuDevicePrimaryCtxRetain failed: out of memory")

    kept, cuda.Device.retain_primary_context = cuda.Device.retain_primary_context, no_memory
    with pytest.raises(LoadError, match="no memory to begin with") as caught:
        open_engine(path, {})
    assert caught.value.detail == {"code": "engine.out_of_memory"}
    cuda.Device.retain_primary_context = kept
    open_engine(path, {}).close()


def test_a_thread_that_cannot_answer_ends_the_process(gpu, monkeypatch):
    """The reading thread would wait for it for ever, and requests with it."""
    one, ended = gpu(), []
    monkeypatch.setattr(overlap, "end_process", ended.append)
    monkeypatch.setattr(TensorRtEngine, "enter", lambda self: 1 // 0)
    one.serve(one.plan("add_one", ROWS))
    deadline = time.monotonic() + WAIT_S
    while not ended and time.monotonic() < deadline:
        time.sleep(0.005)
    assert "its answers end: ZeroDivisionError" in ended[0]


def test_a_runtime_for_a_dla_core_that_cannot_be_made_is_told(gpu, monkeypatch):
    one = gpu(dla_cores=1)
    path = one.plan("add_one", ROWS, dla_core=0)
    found = library.probe()

    def none(log):
        raise TypeError("pybind11::init(): factory function returned nullptr")

    monkeypatch.setattr(found.trt, "Runtime", none)
    with pytest.raises(LoadError, match="TensorRT cannot start") as caught:
        one.serve(path, tensorrt={"dla_core": 0})
    assert caught.value.detail == {"code": "engine.no_library"}
    monkeypatch.undo()
    one.serve(path, tensorrt={"dla_core": 0})
