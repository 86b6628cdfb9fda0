"""A model is swapped while a request is on its way: nobody is told of it who did not name a version."""

from __future__ import annotations

import asyncio

import numpy
import pytest

from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Tensor
from tests.serving_rig import running

X = numpy.array([3.0], numpy.float32)
CONFIG = 'input=[{name="x",data_type="TYPE_FP32",dims=[1]}]\noutput=[{name="y",data_type="TYPE_FP32",dims=[1]}]\n'
TIMES = "class Model:\n  def load(self, config): pass\n  def infer(self, inputs): return {'y': inputs['x'] * %d}\n"


def add_times(repository, factor, version=1, config="", name="times"):
    folder = repository / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(TIMES % factor)
    (repository / name / "config.toml").write_text(CONFIG + config)


async def ask_across(rig, change, version=None):
    """Slots first, then the change, then the request, as a slow client's."""
    lease, room = await rig.serving.reserve("times", version, X.nbytes)
    try:
        lease.view()[: X.nbytes] = X.tobytes()
        await change()
        tensor = Tensor("x", DataType.FP32, (1,), lease, 0, X.nbytes)
        response = await rig.serving.infer(InferRequest("times", (tensor,), version, room=room))
        try:
            return numpy.frombuffer(bytes(response.outputs[0].view()), numpy.float32)[0], response.version
        finally:
            response.release()
    finally:
        lease.release()
        if room is not None:
            room.release()


async def test_a_request_that_named_no_version_is_answered_by_the_new_one(tmp_path):
    add_times(tmp_path, 1)
    async with running(tmp_path, control_mode="explicit", load=["*"]) as rig:

        async def change():
            (tmp_path / "times" / "1").rename(tmp_path / "times" / "2")
            add_times(tmp_path, 10, 2)
            await rig.serving.load_model("times")

        assert await ask_across(rig, change) == (30.0, "2")


@pytest.mark.parametrize("version", [None, "1"])
async def test_a_request_is_answered_by_the_host_that_the_model_moved_to(tmp_path, version):
    add_times(tmp_path, 1, config='host = "one"\n')
    async with running(tmp_path, control_mode="explicit", load=["*"]) as rig:

        async def change():
            add_times(tmp_path, 10, config='host = "two"\n')
            await rig.serving.load_model("times")
            assert [host["name"] for host in rig.serving.host_status()] == ["two"]

        assert await ask_across(rig, change, version) == (30.0, "1")


async def test_no_request_fails_while_a_cached_model_moves_from_host_to_host(tmp_path):
    cached = "[response_cache]\nenable = true\n"
    add_times(tmp_path, 1, config='host = "one"\n' + cached)
    async with running(tmp_path, control_mode="explicit", load=["*"]) as rig:
        stop = False

        async def client(first):
            value = float(first)
            while not stop:
                value += 10
                assert await rig.ask("times", numpy.array([value], numpy.float32)) == value

        clients = [asyncio.ensure_future(client(first)) for first in range(8)]
        for host in ("two", "one", "two"):
            add_times(tmp_path, 1, config='host = "%s"\n' % host + cached)
            await rig.serving.load_model("times")
        stop = True
        await asyncio.gather(*clients)
