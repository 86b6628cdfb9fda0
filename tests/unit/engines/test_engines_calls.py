from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys

import numpy
import pytest

from edge_agent import errors
from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.batching.policy import BatchPolicy
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Tensor, TensorSpec
from edge_agent.engines.calls import CallDesk
from edge_agent.engines.host import EngineHost
from edge_agent.engines.hosted import HostOptions
from edge_agent.engines.load import LoadOrder
from edge_agent.processes.arena import Arena
from tests.doubles.engine_host import until
from tests.serving_rig import MODELS

X, Y = (TensorSpec(name, DataType.FP32, (-1, 4)) for name in "xy")

HEAD = """
import os, time, asyncio
import numpy
import triton_python_backend_utils as pb

def ask(x, model, **fields):
    return pb.InferenceRequest(model_name=model, requested_output_names=["y"], inputs=[pb.Tensor("x", x)], **fields)

def value(response):
    if response.has_error():
        raise pb.TritonModelException(response.error().message())
    return pb.get_output_tensor_by_name(response, "y").as_numpy()

class Model:
    def infer(self, inputs):
        x = inputs["x"]
        return {"y": self.run(x)}

"""


def runs(body):
    """A model whose y is what `body` returns of x."""
    return HEAD + "    def run(self, x):\n        " + body + "\n"


CALLS_ADD = runs("return value(ask(x, 'add').exec()) * 10")


class House:
    """Engine hosts with models, and the door that finds them: what serving is in small."""

    def __init__(self, folder, arena_bytes):
        self.folder = folder
        self.arena = Arena(arena_bytes)
        self.desk = CallDesk(self.on_call)
        self.hosts = {}
        self.models = {}
        self.calls = []
        self.events = []
        self.rooms = {}

    async def host(self, name, **options):
        if name not in self.hosts:
            options = HostOptions(name, **{"batch_timeout_s": 5.0, "load_timeout_s": 20.0, **options})
            on_event = lambda kind, host, text: self.events.append((kind, host))  # noqa: E731
            self.hosts[name] = EngineHost(options, self.arena, Clock(), on_event, self.desk)
            await self.hosts[name].start()
        return self.hosts[name]

    async def python(self, name, text, host="python", **fields):
        path = self.folder / name / "1" / "model.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        tensors = {"max_batch_size": 8, "inputs": (X,), "outputs": (Y,), **fields}
        return await self._load(LoadOrder(name, "1", "python", str(path), str(self.folder / name), 1, **tensors), host)

    async def onnx(self, name="add", host="cpu"):
        return await self._load(LoadOrder(name, "1", "onnxruntime_onnx", str(MODELS / "add_one.onnx"), "", 1, 8), host)

    async def _load(self, order, host_name):
        host = await self.host(host_name)
        hosted = await host.load(order)
        batcher = DynamicBatcher(order.model, "1", BatchPolicy(8), Clock(), on_lone_death=lambda: host.lone_death(hosted))
        batcher.use(hosted.instances)
        for instance in hosted.instances:
            instance.on_up = batcher.room
        self.models[order.model] = (host, hosted, batcher)
        return hosted

    async def on_call(self, call):
        self.calls.append((call.caller, call.model, call.version))
        if call.model not in self.models:
            raise errors.ModelNotFound("Request for unknown model: '%s' is not found" % call.model)
        host, hosted, batcher = self.models[call.model]
        await host.share(call.segment, writable=True)
        room = self.rooms.get(call.model, call.input_bytes)
        report = hosted.report
        request = await call.request("1", report.inputs, report.outputs, report.max_batch_size, room)
        return await batcher.submit(request, request.inputs[0].shape[0], "k", None)

    async def ask(self, model, value=1.0, rows=1, **fields):
        """The first number of the model's answer."""
        host, _, batcher = self.models[model]
        leases = await self.arena.acquire([(host.segment, 16 * rows), (host.segment, 16 * rows + 64)], 1.0)
        leases[0].view()[: 16 * rows] = numpy.full(4 * rows, value, numpy.float32).tobytes()
        tensor = Tensor("x", DataType.FP32, (rows, 4), leases[0], 0, 16 * rows)
        try:
            response = await batcher.submit(InferRequest(model, (tensor,), room=leases[1], **fields), rows, "k", None)
            got = numpy.frombuffer(bytes(response.outputs[0].view()), numpy.float32)
            response.release()
            return float(got[0])
        finally:
            for lease in leases:
                lease.release()

    def ends(self, host="python"):
        return self.events.count(("engine_host.down", host))


@contextlib.asynccontextmanager
async def house(folder, arena_bytes=16 << 20):
    one = House(folder, arena_bytes)
    try:
        yield one
        await until(lambda: one.arena.status()["slots"] == 0)
    finally:
        for host in one.hosts.values():
            await host.stop()
        assert one.arena.status()["slots"] == 0
        one.arena.close()
        gc.collect()  # a socket that was not closed fails the test


# -- Python models ----------------------------------------------------------------------------------------------------


async def test_a_python_model_answers_and_gets_what_came_with_the_request(tmp_path):
    text = """
import json, numpy
import triton_python_backend_utils as pb
class TritonPythonModel:
    def execute(self, requests):
        adds = [json.loads(request.parameters() or "{}").get("adds", 0) + len(request.request_id()) for request in requests]
        return [
            pb.InferenceResponse([pb.Tensor("y", request.inputs()[0].as_numpy() + numpy.float32(add))])
            for request, add in zip(requests, adds)
        ]
"""
    async with house(tmp_path) as rig:
        await rig.python("m", text)
        together = [rig.ask("m", 1.0, parameters={"adds": 10}, id="four"), rig.ask("m", 2.0, rows=3)]
        assert await asyncio.gather(*together) == [15.0, 2.0]
        long = rig.ask("m", 1.0, parameters={"adds": "x" * 70_000})
        answers = await asyncio.gather(long, *[rig.ask("m", 2.0) for _ in range(3)], return_exceptions=True)
        assert isinstance(answers[0], errors.InvalidRequest)
        assert answers[1:] == [2.0] * 3


@pytest.mark.parametrize(("kind", "expected"), [("INVALID_ARG", errors.InvalidRequest), ("INTERNAL", errors.ExecutionError)])
async def test_a_models_own_error_has_its_kind(tmp_path, kind, expected):
    text = """
import triton_python_backend_utils as pb
class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse(error=pb.TritonError("not this", pb.TritonError.%s)) for _ in requests]
"""
    async with house(tmp_path) as rig:
        await rig.python("m", text % kind)
        with pytest.raises(expected, match="model 'm/1': not this"):
            await rig.ask("m")


def with_numpy(version):
    """An interpreter of that version that has numpy, or None: of the environment, this one, or the one in the path."""
    found = [os.environ.get("EDGE_AGENT_PYTHON_" + version.replace(".", "_")), shutil.which("python" + version)]
    if "%d.%d" % sys.version_info[:2] == version:
        found.insert(0, sys.executable)
    tried = (path for path in found if path)
    check = [
        path
        for path in tried
        if subprocess.run([path, "-c", "import numpy"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    ]
    return check[0] if check else None


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.10"])
async def test_a_host_may_have_an_interpreter_of_its_own_and_calls_go_between_them(tmp_path, version):
    python = with_numpy(version)
    if python is None:
        pytest.skip("no Python %s with numpy here" % version)
    async with house(tmp_path) as rig:
        await rig.host("own", python=python)
        says = runs("import sys; return x * 0 + numpy.float32(sys.version_info[1])")
        await rig.python("there", says, "own")
        await rig.python("here", says)
        await rig.python("caller", runs("return value(ask(x, 'there').exec())"))
        await rig.python("back", runs("return value(ask(x, 'here').exec())"), "own")
        assert await rig.ask("there") == float(version[2:])
        assert await rig.ask("caller") == float(version[2:])
        assert await rig.ask("back") == float(sys.version_info[1])


# -- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["cpu", "python"])
async def test_a_model_calls_another_in_its_own_host_or_in_another(tmp_path, host):
    async with house(tmp_path) as rig:
        await rig.onnx(host=host)
        await rig.python("caller", CALLS_ADD)
        assert await rig.ask("caller", 4.0) == 50.0
        assert await rig.ask("caller", 5.0, rows=8) == 60.0
        assert rig.calls == [("caller/1", "add", None)] * 2


async def test_python_models_call_each_other_down_a_chain(tmp_path):
    async with house(tmp_path) as rig:
        await rig.onnx()
        await rig.python("low", CALLS_ADD)
        await rig.python("high", runs("return value(ask(x, 'low').exec()) + 1"), "another")
        assert await asyncio.gather(*[rig.ask("high", float(n)) for n in range(8)]) == [n * 10.0 + 11 for n in range(8)]


async def test_outputs_that_need_more_room_than_was_kept_come_too(tmp_path):
    async with house(tmp_path) as rig:
        await rig.onnx()
        rig.rooms["add"] = 0
        await rig.python("caller", CALLS_ADD)
        assert await rig.ask("caller", 4.0) == 50.0


async def test_coroutines_call_many_at_once(tmp_path):
    text = HEAD.replace("def infer(self, inputs)", "async def infer(self, inputs)").replace("self.run(x)", "await self.run(x)")
    text += """
    async def run(self, x):
        found = await asyncio.gather(*[ask(x + n, "add").async_exec() for n in range(40)])
        return sum(value(one) for one in found)
"""
    async with house(tmp_path) as rig:
        await rig.onnx()
        await rig.python("caller", text)
        assert await rig.ask("caller", 1.0) == sum(1.0 + n + 1 for n in range(40))
        assert len(rig.calls) == 40


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("ask(x, 'nobody')", "unknown model: 'nobody' is not found"),
        ("ask(x.astype('f8'), 'add')", "data-type is 'FP64', but model 'add' expects 'FP32'"),
        ("ask(x[:, :3], 'add')", "unexpected shape for input 'x'"),
        ("ask(x.repeat(9, 0), 'add')", "batch-size must be <= 8"),
        ("pb.InferenceRequest(model_name='add', inputs=[])", "missing required input"),
        ("pb.InferenceRequest(model_name='add', inputs=ask(x, '').inputs(), requested_output_names=['q'])", "output 'q'"),
        ("ask(x, 'add', parameters='[1]')", "parameters are a dict or the JSON text of one"),
        ("ask(x, 'add', parameters='{')", "parameters are no JSON"),
        ("ask(x, 'add', timeout='x')", "timeout is a whole number of microseconds"),
        ("ask(x, 'add', timeout=-1)", "timeout is a whole number of microseconds"),
        (
            "ask(numpy.zeros((1, 8 << 20), 'f4'), 'wide')",
            r"a call of host python: .* more than tensor memory has: .*; raise \[arena\] max_bytes",
        ),
    ],
)
async def test_a_call_that_cannot_be_made_is_an_error_for_the_model(tmp_path, body, says):
    async with house(tmp_path, 40 << 20) as rig:
        await rig.onnx()
        wide = TensorSpec("x", DataType.FP32, (-1, -1))
        await rig.python("wide", runs("return x"), inputs=(wide,), outputs=(TensorSpec("y", DataType.FP32, (-1, -1)),))
        await rig.python("caller", runs("return value(%s.exec())" % body))
        with pytest.raises(errors.ExecutionError, match=says):
            await rig.ask("caller")
        assert rig.ends() == 0


def fill(arena, segment):
    """Takes all that can be had of a segment."""
    leases = []
    for size in (64 << 10, 4 << 10):
        while True:
            more = arena.try_acquire([(segment, size)])
            if more is None:
                break
            leases += more
    return leases


WAITS = "while not os.path.exists(%r):\n            time.sleep(0.005)\n        "


async def test_a_call_for_which_no_memory_is_left_says_what_to_do(tmp_path):
    mark = tmp_path / "mark"
    async with house(tmp_path) as rig:
        await rig.onnx()
        await rig.python("caller", runs(WAITS % str(mark) + "return value(ask(x, 'add').exec())"))
        asked = asyncio.ensure_future(rig.ask("caller"))
        await until(lambda: rig.arena.status()["slots"] == 2)
        fillers = fill(rig.arena, rig.hosts["python"]._memory.segment())
        mark.touch()
        with pytest.raises(errors.ExecutionError, match=r"no memory for calls of host python: raise \[arena\] max_bytes"):
            await asked
        for lease in fillers:
            lease.release()
        assert await rig.ask("caller") == 2.0


async def test_a_host_whose_models_call_nobody_holds_no_memory_back(tmp_path):
    async with house(tmp_path) as rig:
        await rig.onnx()
        for number in range(3):
            await rig.python("m%d" % number, runs("return x"), host="h%d" % number)
            assert await rig.ask("m%d" % number) == 1.0
        assert rig.arena.status()["bytes_reserved"] == 0
        await rig.python("caller", CALLS_ADD)
        assert await rig.ask("caller") == 20.0
        assert rig.arena.status()["bytes_reserved"] == (16 << 20) // 8


async def test_a_full_arena_does_not_stop_calls_of_a_host_that_called_before(tmp_path):
    mark = tmp_path / "mark"
    async with house(tmp_path) as rig:
        await rig.onnx()
        await rig.python("caller", runs(WAITS % str(mark) + "return value(ask(x, 'add').exec())"))
        mark.touch()
        assert await rig.ask("caller") == 2.0
        mark.unlink()
        asked = asyncio.ensure_future(rig.ask("caller"))
        await until(lambda: rig.arena.status()["slots"] == 2)
        fillers = fill(rig.arena, rig.hosts["cpu"].segment)
        mark.touch()
        assert await asked == 2.0
        for lease in fillers:
            lease.release()


async def test_a_call_that_would_wait_for_itself_says_so_and_with_another_instance_it_works(tmp_path):
    text = runs("return x + 1 if x[0, 0] <= 0 else value(ask(x - 1, 'again').exec()) + 1")
    async with house(tmp_path) as rig:
        await rig.python("again", text, instances=2)
        assert await rig.ask("again", 1.0) == 2.0
        with pytest.raises(errors.ExecutionError, match="calling again/1 from again/1 would wait for itself"):
            await rig.ask("again", 2.0)
        assert await rig.ask("again", 0.0) == 1.0


async def test_models_that_call_each_other_at_the_same_time_do_not_hang(tmp_path):
    text = runs("time.sleep(0.05)\n        return x if x[0, 0] <= 0 else value(ask(x - 1, %r).exec())")
    async with house(tmp_path) as rig:
        await rig.python("a", text % "b")
        await rig.python("b", text % "a", "other")
        answers = await asyncio.wait_for(
            asyncio.gather(*[rig.ask(model, 1.0) for model in "ab" * 4], return_exceptions=True), 20
        )
        refused = [answer for answer in answers if answer != 0.0]
        assert all("would wait for itself" in str(answer) for answer in refused)
        assert await rig.ask("a", 1.0) == 0.0


async def test_the_time_of_a_call_is_not_its_callers(tmp_path):
    async with house(tmp_path) as rig:
        await rig.host("brief", batch_timeout_s=0.6, load_timeout_s=20.0)
        await rig.python("slow", runs("time.sleep(1.5)\n        return x"))
        await rig.python("caller", runs("return value(ask(x, 'slow').exec())"), "brief")
        rig.models["caller"][1].instances[0]._patience._first_timeout_s = 0.6
        assert await rig.ask("caller", 3.0) == 3.0
        assert rig.ends("brief") == 0


async def test_a_model_that_hangs_behind_an_open_call_is_ended(tmp_path):
    text = HEAD.replace("def infer(self, inputs)", "async def infer(self, inputs)").replace("self.run(x)", "await self.run(x)")
    text += "    async def run(self, x):\n        ask(x, 'add').async_exec()\n        time.sleep(1000)\n"
    async with house(tmp_path) as rig:
        await rig.onnx()
        await rig.host("brief", batch_timeout_s=0.5, load_timeout_s=20.0)
        await rig.python("caller", text, "brief")
        rig.models["caller"][1].instances[0]._patience._first_timeout_s = 0.5
        with pytest.raises(errors.HostDied, match="caller/1"):
            await rig.ask("caller")
        assert rig.ends("brief") == 1


# -- ends -------------------------------------------------------------------------------------------------------------


async def test_a_python_model_is_not_asked_again_when_its_host_died(tmp_path):
    text = runs("open(%r, 'a').write('x')\n        return x if x[0, 0] != 13 else os._exit(3)" % str(tmp_path / "mark"))
    async with house(tmp_path) as rig:
        hosted = await rig.python("m", text)
        for ends in (1, 2, 3):
            with pytest.raises(errors.HostDied, match="ended while it ran this request"):
                await rig.ask("m", 13.0)
            assert rig.ends() == ends
            if ends < 3:
                await until(lambda: rig.hosts["python"].up, 20)
                assert hosted.ready
        assert (tmp_path / "mark").read_text() == "xxx"
        assert "ended its engine host 3 times" in str(hosted.error)


async def test_the_end_of_a_called_host_is_an_error_or_a_retry_and_the_caller_lives(tmp_path):
    async with house(tmp_path) as rig:
        await rig.python("deadly", runs("os._exit(3)"), "deadly")
        await rig.python("caller", runs("return value(ask(x, 'deadly').exec())"))
        with pytest.raises(errors.ExecutionError, match="'deadly/1' ended while it ran"):
            await rig.ask("caller")
        assert (rig.ends(), rig.ends("deadly")) == (0, 1)


async def test_the_end_of_a_caller_gives_its_slots_back_and_it_can_call_again(tmp_path):
    async with house(tmp_path) as rig:
        await rig.python("slow", runs("time.sleep(float(x[0, 0]))\n        return x"), "other")
        await rig.python("caller", runs("return value(ask(x, 'slow').exec())"))
        asked = asyncio.ensure_future(rig.ask("caller", 1.0))
        await until(lambda: rig.calls)
        os.kill(rig.hosts["python"].supervisor.pid, signal.SIGKILL)
        with pytest.raises(errors.HostDied):
            await asked
        await until(lambda: rig.hosts["python"].up, 20)
        assert await rig.ask("caller", 0.0) == 0.0


async def test_a_caller_that_leaves_does_not_disturb_the_next(tmp_path):
    async with house(tmp_path) as rig:
        await rig.python("slow", runs("time.sleep(0.3)\n        return x"), "other")
        await rig.python("caller", runs("return value(ask(x, 'slow').exec())"))
        asked = asyncio.ensure_future(rig.ask("caller", 1.0))
        await until(lambda: rig.calls)
        asked.cancel()
        assert await rig.ask("caller", 2.0) == 2.0


async def test_without_a_door_there_are_no_other_models(tmp_path):
    arena = Arena(16 << 20)
    async with house(tmp_path) as rig:
        rig.desk = CallDesk()
        await rig.python("caller", CALLS_ADD)
        with pytest.raises(errors.ExecutionError, match="unknown model: 'add'"):
            await rig.ask("caller")
    arena.close()
