"""What serving owes its callers when memory is short, hosts hang or die, and when it stops."""

from __future__ import annotations

import asyncio
import os
import signal

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from tests.doubles.engine_host import until
from tests.serving_rig import Rig, add_model, add_tricks, label, picture, running

ROW = numpy.ones((1, 4), numpy.float32)


def ask(rig, value, name="tricks"):
    return asyncio.ensure_future(rig.ask(name, picture(value), names=("image",), decode=True))


# -- memory -----------------------------------------------------------------------------------------------------------


async def test_outputs_larger_than_all_tensor_memory_fail_their_request_and_no_host(tmp_path):
    add_model(tmp_path, "any", "nonzero.onnx", "max_batch_size = 0\n")
    async with running(tmp_path, arena_bytes=256 << 10) as rig:
        pid = rig.host_pid()
        with pytest.raises(errors.PayloadTooLarge, match="the outputs of any/1 take 360000 bytes"):
            await asyncio.wait_for(rig.ask("any", numpy.ones(45_000, numpy.float32)), 5)
        assert (await rig.ask("any", numpy.ones(5, numpy.float32))).size == 5
        assert rig.host_pid() == pid


async def test_one_large_answer_does_not_make_later_requests_too_large(tmp_path):
    add_model(tmp_path, "any", "add_one_any.onnx", "max_batch_size = 8\n")
    async with running(tmp_path, arena_bytes=1 << 20) as rig:
        assert (await rig.ask("any", numpy.zeros((1, 50_000), numpy.float32))).shape == (1, 50_000)
        assert rig.serving.lookup("any").room_for(32) > 1 << 20
        for rows in (1, 8):
            assert (await rig.ask("any", numpy.zeros((rows, 1), numpy.float32))).tolist() == [[1.0]] * rows


async def test_inputs_and_outputs_that_never_fit_together_are_refused(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 4096\n")
    async with running(tmp_path, arena_bytes=64 << 10) as rig:
        with pytest.raises(errors.PayloadTooLarge):
            await rig.serving.reserve("add", None, 60_000)
        assert (await rig.ask("add", ROW)).tolist() == [[2.0] * 4]


async def test_a_full_arena_makes_callers_wait_and_then_says_so(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path, arena_bytes=64 << 10) as rig:
        slots = [await rig.serving.reserve("add", None, 16) for _ in range(8)]
        with pytest.raises(errors.ArenaFull):
            await rig.serving.reserve("add", None, 16, timeout_s=0.05)
        waiting = asyncio.ensure_future(rig.ask("add", ROW))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        for lease, room in slots:
            lease.release()
            room.release()
        assert (await waiting).tolist() == [[2.0] * 4]


# -- hosts ------------------------------------------------------------------------------------------------------------


async def test_a_model_that_is_down_refuses_at_once_and_says_why(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path) as rig:
        os.kill(rig.host_pid(), signal.SIGKILL)
        await until(lambda: not rig.serving.is_ready("add"))
        with pytest.raises(errors.ModelNotReady, match="not at ready state: .* engine host"):
            await rig.ask("add", ROW)
        with pytest.raises(errors.ModelNotReady):
            await rig.serving.reserve("add", None, 16)
        await rig.until_ready("add")


async def test_requests_that_must_run_alone_are_not_starved_by_a_busy_neighbour_in_their_host(tmp_path):
    add_model(tmp_path, "busy", "add_one.onnx", "max_batch_size = 8\n")
    add_tricks(tmp_path, config="max_batch_size = 8\n[dynamic_batching]\nmax_queue_delay_microseconds = 20000\n")
    async with running(tmp_path) as rig:
        done = asyncio.Event()

        async def keep_busy():
            while not done.is_set():
                try:
                    await rig.ask("busy", ROW)
                except errors.UnavailableError:
                    await asyncio.sleep(0.005)

        neighbours = [asyncio.ensure_future(keep_busy()) for _ in range(12)]
        asked = [ask(rig, value) for value in (1, 14, 2, 3)]
        answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)
        done.set()
        await asyncio.gather(*neighbours)
        assert isinstance(answers[1], errors.HostDied)
        assert [label(answers[n]) for n in (0, 2, 3)] == ["1", "2", "3"]
        assert all(record.status != "engine_host.died" for record in rig.journal.requests if record.model == "busy")


async def test_a_request_that_hangs_twice_holds_its_host_no_longer_than_its_budget(tmp_path):
    """The second process has its warm-up behind it: what runs alone there gets a batch's time, not a load's."""
    add_tricks(tmp_path)
    add_model(tmp_path, "good", "add_one.onnx")
    async with running(tmp_path, hosts={"cpu": HostSection(batch_timeout_s=0.5, load_timeout_s=60)}) as rig:
        with pytest.raises(errors.HostDied, match="ran for more than 0.5 s"):
            await asyncio.wait_for(ask(rig, 13), 15)
        await rig.until_ready("good")
        assert (await rig.ask("good", ROW)).tolist() == [[2.0] * 4]


# -- the end ----------------------------------------------------------------------------------------------------------


async def test_requests_in_a_host_that_hangs_are_not_waited_for_longer_than_asked(tmp_path):
    add_tricks(tmp_path)
    async with running(tmp_path) as rig:
        stuck = ask(rig, 13)
        await until(lambda: rig.serving.in_flight == 1)
        rig.serving.drain()
        started = rig.clock.monotonic()
        assert not await rig.serving.drained(0.2)
        assert rig.clock.monotonic() - started < 1
        await asyncio.wait_for(rig.serving.stop(), 8)
        with pytest.raises(errors.Draining):
            await stuck


async def test_stopping_ends_what_waits_for_its_host_to_come_back(tmp_path):
    add_tricks(tmp_path)
    async with running(tmp_path) as rig:
        asked = [ask(rig, 13) for _ in range(5)]
        await until(lambda: rig.serving.in_flight == 5)
        os.kill(rig.host_pid(), signal.SIGKILL)
        await until(lambda: not rig.serving.is_ready("tricks"))
        await rig.serving.stop()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(answer) for answer in answers} == {errors.Draining}


async def test_it_can_be_stopped_before_its_start_and_says_that_it_is_not_ready(tmp_path):
    rig = Rig(tmp_path)
    assert not rig.serving.ready()
    await rig.serving.stop()
    assert await rig.serving.drained(0.1)


async def test_drained_is_told_again_after_a_request_that_came_too_late(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path) as rig:
        rig.serving.drain()
        for _ in range(2):
            with pytest.raises(errors.Draining):
                await rig.serving.reserve("add", None, 16)
            assert await rig.serving.drained(0.1)
