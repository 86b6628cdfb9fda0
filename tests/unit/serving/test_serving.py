from __future__ import annotations

import asyncio
import os
import random
import signal

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from tests.serving_rig import add_model, add_tricks, label, picture, running


def row(*values):
    return numpy.array([values], numpy.float32)


async def test_a_model_answers_with_its_outputs(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path) as rig:
        assert (await rig.ask("add", row(1, 2, 3, 4))).tolist() == [[2, 3, 4, 5]]
        assert rig.journal.versions == {("add", "1"): "ready"}
        (record,) = rig.journal.requests
        assert (record.model, record.version, record.status, record.input_bytes) == ("add", "1", "ok", 16)


async def test_several_inputs_and_a_subset_of_outputs(tmp_path):
    add_model(tmp_path, "two", "sum_and_difference.onnx", "max_batch_size = 4\n")
    async with running(tmp_path) as rig:
        a, b = row(5, 7), row(1, 2)
        _, outputs = await rig.ask_all("two", a, b, names=("a", "b"))
        assert {name: array.tolist() for name, array in outputs.items()} == {"sum": [[6, 9]], "difference": [[4, 5]]}
        _, outputs = await rig.ask_all("two", a, b, names=("a", "b"), outputs=("difference",))
        assert list(outputs) == ["difference"]


async def test_outputs_whose_size_nobody_knows_beforehand_arrive_whole(tmp_path):
    add_model(tmp_path, "any", "nonzero.onnx", "max_batch_size = 0\n")
    async with running(tmp_path) as rig:
        for ones in (0, 3, 400, 1):
            values = numpy.zeros(500, numpy.float32)
            values[:ones] = 1
            found = await rig.ask("any", values)
            assert found.size == ones * values.ndim


async def test_the_newest_version_answers_and_older_ones_by_name(tmp_path):
    for version in (1, 2, 10):
        config = "max_batch_size = 8\n[version_policy.latest]\nnum_versions = 2\n" if version == 1 else ""
        add_model(tmp_path, "add", "add_one.onnx", config, version)
    async with running(tmp_path) as rig:
        assert rig.serving.versions("add") == ["2", "10"]
        assert rig.serving.lookup("add").version == "10"
        assert rig.serving.lookup("add", "2").version == "2"
        with pytest.raises(errors.ModelNotFound, match="version 1 is not found"):
            rig.serving.lookup("add", "1")


async def test_one_bad_model_never_stops_the_others(tmp_path):
    add_model(tmp_path, "good", "add_one.onnx")
    add_model(tmp_path, "garbled", "add_one.onnx")
    (tmp_path / "garbled/1/model.onnx").write_bytes(b"not a model")
    (add_model(tmp_path, "misspelt", "add_one.onnx") / "config.toml").write_text("max_batch_sise = 8\n")
    (tmp_path / "empty").mkdir()
    async with running(tmp_path) as rig:
        assert rig.serving.ready()
        assert (await rig.ask("good", row(1, 1, 1, 1))).tolist() == [[2, 2, 2, 2]]
        states = {model["name"]: (model["state"], model["code"]) for model in rig.serving.status()}
        assert states == {
            "good": ("ok", ""),
            "garbled": ("failed", "model.load_failed"),
            "misspelt": ("failed", "model.config_rejected"),
            "empty": ("failed", "model.config_rejected"),
        }
        for name in ("garbled", "misspelt", "empty"):
            with pytest.raises(errors.ModelNotReady, match=name):
                rig.serving.lookup(name)
        with pytest.raises(errors.ModelNotFound, match="'absent' is not found"):
            rig.serving.lookup("absent")


async def test_a_repository_that_is_not_there_is_shown_and_what_another_has_serves(tmp_path):
    add_model(tmp_path / "there", "add", "add_one.onnx")
    async with running(tmp_path / "there", more=(tmp_path / "absent",)) as rig:
        assert rig.serving.is_ready("add")
        status = rig.serving.repository_status()
        assert (status["state"], status["code"]) == ("failed", "model.repository")
        assert "absent" in status["reason"]


async def test_a_file_that_says_nothing_is_completed_from_the_model(tmp_path):
    add_model(tmp_path, "dynamic", "add_one.onnx")
    add_model(tmp_path, "fixed", "add_one_fixed.onnx")
    add_model(tmp_path, "three", "add_one_three.onnx")
    async with running(tmp_path) as rig:
        found = {
            name: (rig.serving.lookup(name).max_batch_size, rig.serving.lookup(name).inputs[0].shape)
            for name in rig.serving.names()
        }
        assert found == {"dynamic": (4, (-1, 4)), "fixed": (0, (1, 4)), "three": (0, (3, 4))}
        assert (await rig.ask("fixed", row(1, 1, 1, 1))).tolist() == [[2, 2, 2, 2]]
        assert (await rig.ask("three", numpy.zeros((3, 4), numpy.float32))).tolist() == [[1] * 4] * 3


async def test_no_answer_goes_to_the_wrong_caller(tmp_path):
    """B011: triton-inference-server/server#2136; NVIDIA/TensorRT#3966, #4035."""
    add_model(
        tmp_path, "add", "add_one_any.onnx", "max_batch_size = 8\n[dynamic_batching]\nmax_queue_delay_microseconds = 500\n"
    )
    chance = random.Random(3)

    async def caller(rig, number):
        for turn in range(30):
            rows, width = chance.randint(1, 8), chance.choice((3, 5))
            sent = numpy.full((rows, width), number * 1000 + turn, numpy.float32)
            sent[:, 0] += numpy.arange(rows)
            got = await rig.ask("add", sent)
            assert got.shape == sent.shape
            assert (got == sent + 1).all()

    async with running(tmp_path) as rig:
        await asyncio.gather(*(caller(rig, number) for number in range(16)))
        assert len(rig.journal.requests) == 16 * 30
        assert max(record.batch_size for record in rig.journal.requests) > 1


async def test_a_killed_host_serves_again_and_requests_in_flight_are_answered(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path) as rig:
        pid = rig.host_pid()

        async def caller(number):
            answered = refused = 0
            end = rig.clock.monotonic() + 2.0
            while rig.clock.monotonic() < end:
                try:
                    got = await rig.ask("add", row(*[number] * 4))
                except errors.UnavailableError:
                    refused += 1
                    await asyncio.sleep(0.01)
                else:
                    assert got.tolist() == [[number + 1] * 4]
                    answered += 1
            return answered, refused

        callers = asyncio.gather(*(caller(number) for number in range(8)))
        await asyncio.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        counts = await asyncio.wait_for(callers, 30)
        assert all(answered > 0 for answered, _ in counts)
        await rig.until_ready("add", 5.0)
        assert rig.host_pid() != pid
        assert (await rig.ask("add", row(1, 1, 1, 1))).tolist() == [[2, 2, 2, 2]]
        kinds = [kind for kind, _, _ in rig.journal.events]
        assert kinds.count("engine_host.down") == 1
        assert kinds.count("engine_host.up") == 2


@pytest.mark.parametrize("trick", [13, 15], ids=["asleep", "holding the interpreter lock"])
async def test_a_batch_that_hangs_ends_its_host_within_its_budget(tmp_path, trick):
    add_tricks(tmp_path)
    hosts = {"cpu": HostSection(batch_timeout_s=1.0, load_timeout_s=3.0)}
    async with running(tmp_path, hosts=hosts) as rig:
        for _ in range(2):
            assert label(await rig.ask("tricks", picture(1), names=("image",), decode=True)) == "1"
        with pytest.raises(errors.HostDied, match="ran for more than"):
            await asyncio.wait_for(rig.ask("tricks", picture(trick), names=("image",), decode=True), 30)
        await rig.until_ready("tricks")
        assert label(await rig.ask("tricks", picture(2), names=("image",), decode=True)) == "2"


async def test_a_request_that_ends_its_host_fails_alone_and_its_neighbours_are_answered(tmp_path):
    add_tricks(tmp_path, config="max_batch_size = 8\n[dynamic_batching]\nmax_queue_delay_microseconds = 100000\n")
    async with running(tmp_path) as rig:
        asked = [rig.ask("tricks", picture(value), names=("image",), decode=True) for value in (1, 14, 2, 3)]
        answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 30)
        assert isinstance(answers[1], errors.HostDied)
        assert [label(answers[n]) for n in (0, 2, 3)] == ["1", "2", "3"]


async def test_a_model_whose_requests_end_the_host_three_times_a_minute_is_stopped_and_its_neighbour_serves(tmp_path):
    add_tricks(tmp_path)
    add_model(tmp_path, "good", "add_one.onnx")
    async with running(tmp_path) as rig:
        for _ in range(3):
            await rig.until_ready("tricks")
            with pytest.raises(errors.HostDied):
                await asyncio.wait_for(rig.ask("tricks", picture(14), names=("image",), decode=True), 30)
        await rig.until_ready("good")
        assert (await rig.ask("good", row(1, 1, 1, 1))).tolist() == [[2, 2, 2, 2]]
        assert not rig.serving.is_ready("tricks")
        (status,) = [model for model in rig.serving.status() if model["name"] == "tricks"]
        assert status["code"] == "model.stopped"


async def test_an_exception_in_a_decoder_fails_its_request_and_nothing_else(tmp_path):
    add_tricks(tmp_path)
    async with running(tmp_path) as rig:
        pid = rig.host_pid()
        with pytest.raises(errors.ExecutionError, match="sixteen"):
            await rig.ask("tricks", picture(16), names=("image",), decode=True)
        assert label(await rig.ask("tricks", picture(1), names=("image",), decode=True)) == "1"
        assert rig.host_pid() == pid


async def test_a_model_whose_loading_ends_its_host_is_given_up_and_its_neighbour_serves(tmp_path):
    add_tricks(tmp_path)
    (tmp_path / "tricks/tricks.py").write_text("import os\nos._exit(9)\n")
    add_model(tmp_path, "good", "add_one.onnx")
    async with running(tmp_path) as rig:
        assert not rig.serving.is_ready("tricks")
        await rig.until_ready("good")
        assert (await rig.ask("good", row(1, 1, 1, 1))).tolist() == [[2, 2, 2, 2]]


async def test_a_queue_timeout_is_kept_while_the_host_is_busy(tmp_path):
    config = (
        "max_batch_size = 1\n[dynamic_batching.default_queue_policy]\n"
        "default_timeout_microseconds = 10000000\nallow_timeout_override = true\n"
    )
    add_tricks(tmp_path, config=config)
    hosts = {"cpu": HostSection(batch_timeout_s=2.0, load_timeout_s=2.0)}
    async with running(tmp_path, hosts=hosts) as rig:
        stuck = asyncio.ensure_future(rig.ask("tricks", picture(13), names=("image",), decode=True))
        await asyncio.sleep(0.1)
        started = rig.clock.monotonic()
        with pytest.raises(errors.DeadlineExceeded):
            await rig.ask("tricks", picture(1), names=("image",), decode=True, timeout_us=200000)
        assert 0.15 < rig.clock.monotonic() - started < 1.5
        with pytest.raises(errors.HostDied):
            await asyncio.wait_for(stuck, 30)


async def test_draining_refuses_new_requests_and_waits_for_those_in_flight(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path) as rig:
        asked = [asyncio.ensure_future(rig.ask("add", row(1, 1, 1, 1))) for _ in range(4)]
        await asyncio.sleep(0)
        rig.serving.drain()
        await rig.serving.drained(5)
        with pytest.raises(errors.Draining):
            await rig.ask("add", row(1, 1, 1, 1))
        assert not rig.serving.ready()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, errors.Draining) or answer.tolist() == [[2] * 4] for answer in answers)


async def test_a_caller_that_leaves_gives_its_slots_back_when_the_host_has_answered(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path) as rig:
        for _ in range(50):
            task = asyncio.ensure_future(rig.ask("add", row(1, 1, 1, 1)))
            await asyncio.sleep(random.random() * 0.002)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert (await rig.ask("add", row(1, 1, 1, 1))).tolist() == [[2, 2, 2, 2]]
        await asyncio.sleep(0.05)
        assert rig.arena.status()["slots"] == 0
