"""Requests of ever new sizes, and models that keep what they get: the memory of the engine host stays under control."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any, List

import numpy

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Tensor
from tests.doubles.engine_host import until
from tests.serving_rig import Rig, add_model, running

MB = 1 << 20

LEAKS = """
import triton_python_backend_utils as pb_utils

KEPT = []

class TritonPythonModel:
    def execute(self, requests):
        return [self.one(pb_utils.get_input_tensor_by_name(request, "x").as_numpy()) for request in requests]

    def one(self, x):
        KEPT.append(b"x" * (1 << 20))
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", x + 1)])
"""
PBTXT = """
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""


def host_bytes(rig: Rig) -> int:
    """What is the host's alone: PSS also moves when other processes that share its libraries come and go."""
    text = Path("/proc/%d/status" % rig.host_pid()).read_text()
    return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:"))


async def ask_sizes(rig: Rig, sizes: List[Any], clients: int = 8) -> None:
    """One request a size, several at a time; each must be answered right."""
    waiting = list(sizes)

    async def client() -> None:
        while waiting:
            height, width = waiting.pop()
            scores = await rig.ask("any_size", numpy.zeros((1, 3, height, width), numpy.float32), names=("image",))
            assert scores.shape == (1, 8)

    await asyncio.gather(*(client() for _ in range(clients)))


async def test_hundreds_of_sizes_do_not_make_the_memory_of_the_host_grow_for_ever(tmp_path: Path) -> None:
    """B022, microsoft/onnxruntime#22271: memory grew with every new input shape until the machine had none left.

    Scaled: 500 sizes of 32 to 160 pixels (not to 1024), 4,000 requests of them by 8 clients (not 20,000), then 1,000 of
    one size.
    """
    add_model(tmp_path, "any_size", "any_size.onnx", "max_batch_size = 4\n")
    rng = random.Random(22)
    sizes = [(rng.randrange(32, 160), rng.randrange(32, 160)) for _ in range(500)]
    async with running(tmp_path) as rig:
        seen = []
        for _ in range(8):
            rng.shuffle(sizes)
            await ask_sizes(rig, sizes)
            seen.append(host_bytes(rig) / MB)
        assert seen[-1] - seen[3] < 2.0 + 1.0, seen  # 1 MB for 1,000 requests, and one for a heap that breathes
        await ask_sizes(rig, [(64, 64)] * 1000)
        assert host_bytes(rig) / MB - seen[-1] < 2.0


async def test_answers_that_nobody_gives_back_take_slots_and_no_memory_of_the_host(tmp_path: Path) -> None:
    """B022: one output that is held pins no arena of the engine, since outputs are copied into slots of their own."""
    add_model(tmp_path, "any_size", "any_size.onnx", "max_batch_size = 4\n")
    async with running(tmp_path, arena_bytes=4 << 20) as rig:
        await ask_sizes(rig, [(size, size) for size in range(64, 104)])  # each is known, and has cost what it costs
        before = host_bytes(rig)
        with contextlib.ExitStack() as held:
            refused = None
            for asked in range(200):
                try:
                    await hold_answer(rig, held, 64 + asked % 40)
                except errors.UnavailableError as error:
                    refused = error
                    break
            assert isinstance(refused, errors.ArenaFull)
            assert asked > 10
            assert (host_bytes(rig) - before) / MB < 4.0
        await ask_sizes(rig, [(64, 64)] * 20)


async def hold_answer(rig: Rig, held: contextlib.ExitStack, size: int) -> None:
    """Asks once; the request's slots and the answer's are given back when `held` is closed."""
    nbytes = 12 * size * size
    lease, room = await rig.serving.reserve("any_size", None, nbytes)
    held.callback(lease.release)
    if room is not None:
        held.callback(room.release)
    tensor = Tensor("image", DataType.FP32, (1, 3, size, size), lease, 0, nbytes)
    held.callback((await rig.serving.infer(InferRequest("any_size", (tensor,), room=room))).release)


async def test_a_model_that_keeps_what_it_gets_has_its_host_started_anew_and_only_clear_refusals_come_of_it(
    tmp_path: Path,
) -> None:
    """B022: a breach of the bound is a planned new start of the engine's process, not an end by the kernel."""
    folder = tmp_path / "leaks" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(LEAKS)
    (tmp_path / "leaks" / "config.pbtxt").write_text(PBTXT)
    hosts = {"python": HostSection(memory_max_bytes=128 * MB)}
    async with running(tmp_path, hosts=hosts) as rig:
        first = rig.host_pid("python")
        answered: List[float] = []
        refusals: List[errors.EdgeAgentError] = []
        ends = asyncio.Event()

        async def client() -> None:
            while not ends.is_set():
                try:
                    answered.append(float((await rig.ask("leaks", numpy.ones((1, 4), numpy.float32)))[0, 0]))
                except errors.EdgeAgentError as error:
                    refusals.append(error)
                await asyncio.sleep(0.02)

        clients = [asyncio.ensure_future(client()) for _ in range(4)]
        try:
            await until(lambda: rig.host_pid("python") not in (None, first) and rig.serving.is_ready("leaks"), 30)
            before = len(answered)
            await until(lambda: len(answered) > before + 20, 20)
        finally:
            ends.set()
            await asyncio.gather(*clients)
        assert set(answered) == {2.0}
        assert all(isinstance(error, errors.UnavailableError) for error in refusals), refusals
        assert ("engine_host.down", "python", "engine_host.memory") in rig.journal.events
        assert [kind for kind, _, _ in rig.journal.events].count("engine_host.down") == 1
