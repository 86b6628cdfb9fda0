from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from tests.serving_rig import add_model, running

BATCHED = "max_batch_size = 8\n"


def row(*values):
    return numpy.array([values], numpy.float32)


def tensor(name, *dims, kind="FP32"):
    return '{ name = "%s", data_type = "TYPE_%s", dims = %s }' % (name, kind, list(dims))


def step(model, takes, makes, version=-1):
    def joined(names):
        return "{ %s }" % ", ".join('"%s" = "%s"' % pair for pair in names.items())

    text = '[[ensemble_scheduling.step]]\nmodel_name = "%s"\nmodel_version = %d\ninput_map = %s\noutput_map = %s\n'
    return text % (model, version, joined(takes), joined(makes))


def add_ensemble(repository: Path, name, inputs, outputs, *steps, batch=8):
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    head = 'platform = "ensemble"\nmax_batch_size = %d\ninput = [%s]\noutput = [%s]\n'
    config = head % (batch, ", ".join(inputs), ", ".join(outputs)) + "".join(steps)
    (repository / name / "config.toml").write_text(config)


def add_twice(repository: Path, hosts=("cpu", "cpu"), name="twice"):
    """x + 2, by two models that each add one."""
    for model, host in zip(("first", "second"), hosts):
        add_model(repository, model, "add_one.onnx", BATCHED + 'host = "%s"\n' % host)
    add_ensemble(
        repository,
        name,
        [tensor("x", 4)],
        [tensor("y", 4)],
        step("first", {"x": "x"}, {"y": "between"}),
        step("second", {"x": "between"}, {"y": "y"}),
    )


def add_fork(repository: Path):
    """sum of both inputs, and that of the sum and difference: one step less for `sum` alone."""
    for model in ("inner", "outer"):
        add_model(repository, model, "sum_and_difference.onnx", BATCHED)
    add_ensemble(
        repository,
        "fork",
        [tensor("a", 2), tensor("b", 2)],
        [tensor("sum", 2), tensor("twice_a", 2)],
        step("outer", {"a": "sum", "b": "difference"}, {"sum": "twice_a"}),
        step("inner", {"a": "a", "b": "b"}, {"sum": "sum", "difference": "difference"}),
    )


def counted(rig, name):
    (entry,) = rig.serving.statistics(name)
    stats = entry["inference_stats"]
    return (entry["inference_count"], entry["execution_count"], stats["success"]["count"], stats["fail"]["count"])


def samples(rig, name):
    found = [sample for family in rig.metrics.collect() for sample in family.samples if sample.name.startswith(name)]
    return sorted(found, key=lambda sample: sample.labels["model"])


async def until(rig, condition, timeout_s=10.0):
    end = rig.clock.monotonic() + timeout_s
    while not condition():
        assert rig.clock.monotonic() < end
        await asyncio.sleep(0.001)


def state(rig, name):
    return next((model["state"], model["code"]) for model in rig.serving.status() if model["name"] == name)


def reason(rig, name):
    return next(model["reason"] for model in rig.serving.status() if model["name"] == name)


# -- answers --------------------------------------------------------------------------------------------------------


async def test_models_behind_each_other_answer_as_one(tmp_path):
    add_twice(tmp_path)
    async with running(tmp_path) as rig:
        assert (await rig.ask("twice", row(1, 2, 3, 4))).tolist() == [[3, 4, 5, 6]]
        served = rig.serving.lookup("twice")
        assert (served.platform, served.version, served.max_batch_size) == ("ensemble", "1", 8)
        assert [spec.name for spec in (*served.inputs, *served.outputs)] == ["x", "y"]
        assert served.config_json()["ensemble_scheduling"]["step"][0]["model_name"] == "first"


async def test_tensors_cross_from_one_host_to_another(tmp_path):
    add_twice(tmp_path, ("left", "right"))
    hosts = {"left": HostSection(), "right": HostSection()}
    async with running(tmp_path, hosts=hosts) as rig:
        assert len({rig.host_pid("left"), rig.host_pid("right")}) == 2
        for value in range(5):
            sent = numpy.full((8, 4), value, numpy.float32)
            assert (await rig.ask("twice", sent) == sent + 2).all()
        assert rig.arena.status()["slots"] == 0


async def test_a_repository_as_triton_users_have_it_with_preprocessing_before_inference(tmp_path):
    """Configurations as people bring them: a GPU asked for on a box without one, an ensemble by newest versions."""
    add_model(tmp_path, "preprocessing", "add_one.onnx")
    (tmp_path / "preprocessing/config.pbtxt").write_text(
        """
        name: "preprocessing"
        platform: "onnxruntime_onnx"
        max_batch_size: 8
        input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
        output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
        instance_group [ { count: 1 kind: KIND_GPU } ]
        parameters { key: "sqlite_db_path" value { string_value: "/var/lib/app/results.db" } }
        """
    )
    for version in (1, 3):
        add_model(tmp_path, "inference", "add_one.onnx", version=version)
    (tmp_path / "inference/config.pbtxt").write_text('platform: "onnxruntime_onnx"\nmax_batch_size: 8\n')
    (tmp_path / "pipeline/1").mkdir(parents=True)
    (tmp_path / "pipeline/config.pbtxt").write_text(
        """
        name: "pipeline"
        platform: "ensemble"
        max_batch_size: 8
        input [ { name: "raw" data_type: TYPE_FP32 dims: [ 4 ] } ]
        output [ { name: "scores" data_type: TYPE_FP32 dims: [ -1 ] } ]
        ensemble_scheduling {
          step [
            {
              model_name: "preprocessing"
              model_version: -1
              input_map { key: "x" value: "raw" }
              output_map { key: "y" value: "prepared" }
            },
            {
              model_name: "inference"
              model_version: -1
              input_map { key: "x" value: "prepared" }
              output_map { key: "y" value: "scores" }
            }
          ]
        }
        """
    )
    async with running(tmp_path) as rig:
        response, outputs = await rig.ask_all("pipeline", row(1, 2, 3, 4), names=("raw",), id="one")
        assert outputs["scores"].tolist() == [[3, 4, 5, 6]]
        assert (response.model, response.version, response.id) == ("pipeline", "1", "one")
        assert [(r.model, r.version, r.request_id) for r in rig.journal.requests] == [
            ("preprocessing", "1", "one"),
            ("inference", "3", "one"),
            ("pipeline", "1", "one"),
        ]


async def test_only_what_the_wanted_outputs_need_is_run(tmp_path):
    """B015: asking for fewer outputs than there are gave a deadlock error elsewhere."""
    add_fork(tmp_path)
    async with running(tmp_path) as rig:
        a, b = row(5, 7), row(1, 2)
        _, outputs = await rig.ask_all("fork", a, b, names=("a", "b"))
        assert {name: array.tolist() for name, array in outputs.items()} == {"sum": [[6, 9]], "twice_a": [[10, 14]]}
        _, outputs = await rig.ask_all("fork", a, b, names=("a", "b"), outputs=("sum",))
        assert list(outputs) == ["sum"]
        _, outputs = await rig.ask_all("fork", a, b, names=("a", "b"), outputs=("twice_a",))
        assert outputs["twice_a"].tolist() == [[10, 14]]
        assert counted(rig, "inner")[1] == 3
        assert counted(rig, "outer")[1] == 2
        with pytest.raises(errors.InvalidRequest, match="unexpected inference output 'between' for model 'fork'"):
            await rig.ask_all("fork", a, b, names=("a", "b"), outputs=("between",))


async def test_an_ensemble_counts_and_so_do_its_steps(tmp_path):
    add_twice(tmp_path)
    async with running(tmp_path) as rig:
        await rig.ask("twice", numpy.zeros((3, 4), numpy.float32))
        await rig.ask("first", row(1, 2, 3, 4))
        assert counted(rig, "twice") == (3, 1, 1, 0)
        assert [(value.labels["model"], value.value) for value in samples(rig, "nv_inference_exec_count")] == [
            ("first", 2),
            ("second", 1),
            ("twice", 1),
        ]
        assert counted(rig, "first") == (4, 2, 2, 0)
        assert counted(rig, "second") == (3, 1, 1, 0)
        (entry,) = rig.serving.statistics("twice")
        steps = [rig.serving.statistics(name)[0]["inference_stats"] for name in ("first", "second")]
        assert 0 < entry["inference_stats"]["compute_infer"]["ns"] <= sum(one["compute_infer"]["ns"] for one in steps)
        assert entry["inference_stats"]["success"]["ns"] >= steps[1]["success"]["ns"]


async def test_ensembles_within_ensembles(tmp_path):
    add_twice(tmp_path, ("left", "right"))
    add_ensemble(
        tmp_path,
        "a_thrice",  # before its steps by name
        [tensor("in", 4)],
        [tensor("out", 4)],
        step("twice", {"x": "in"}, {"y": "two_more"}),
        step("first", {"x": "two_more"}, {"y": "out"}),
    )
    async with running(tmp_path) as rig:
        assert (await rig.ask("a_thrice", row(1, 2, 3, 4), names=("in",))).tolist() == [[4, 5, 6, 7]]
        assert [event for event in rig.journal.events if event[0] == "model.failed"] == []
        with pytest.raises(errors.DeadlineExceeded, match="in ensemble 'a_thrice', step 'twice': in ensemble 'twice', step"):
            await rig.ask("a_thrice", row(1, 2, 3, 4), names=("in",), deadline=rig.clock.monotonic() - 1)
        with pytest.raises(errors.TensorMismatch, match="in ensemble 'a_thrice', step 'twice': unexpected shape for input 'x'"):
            await rig.ask("a_thrice", row(1, 2, 3), names=("in",))


async def test_outputs_whose_size_nobody_knows_beforehand_go_from_step_to_step(tmp_path):
    for model, host in (("left", "left"), ("right", "right")):
        add_model(tmp_path, model, "add_one_any.onnx", BATCHED + 'host = "%s"\n' % host)
    add_ensemble(
        tmp_path,
        "wide",
        [tensor("x", -1)],
        [tensor("y", -1)],
        step("left", {"x": "x"}, {"y": "between"}),
        step("right", {"x": "between"}, {"y": "y"}),
    )
    async with running(tmp_path) as rig:
        for width in (1, 5000, 30, 20000):
            sent = numpy.full((3, width), width, numpy.float32)
            assert (await rig.ask("wide", sent) == sent + 2).all()


# -- refusals -------------------------------------------------------------------------------------------------------


async def test_its_batch_size_bounds_the_request_only(tmp_path):
    add_twice(tmp_path)
    async with running(tmp_path) as rig:
        with pytest.raises(errors.TensorMismatch, match="batch-size must be <= 8 for 'twice', got 9"):
            await rig.ask("twice", numpy.zeros((9, 4), numpy.float32))


@pytest.mark.parametrize(
    ("inputs", "takes", "makes", "batch", "expected"),
    [
        (
            [tensor("x", 5)],
            {"x": "x"},
            {"y": "y"},
            8,
            r"tensor 'x' is FP32 \[-1,5\] for the ensemble and FP32 \[-1,4\] for step",
        ),
        ([tensor("x", 4, kind="INT64")], {"x": "x"}, {"y": "y"}, 8, r"tensor 'x' is INT64 .* and FP32 .* for step 'add'"),
        ([tensor("x", 4)], {"q": "x"}, {"y": "y"}, 8, "step 'add' has no input 'q': it has x"),
        ([tensor("x", 4)], {"x": "x"}, {"z": "y"}, 8, "step 'add' has no output 'z': it has y"),
        ([tensor("x", 4)], {"x": "x"}, {"y": "y"}, 16, "step 'add' takes batches of up to 8, and the ensemble .* up to 16"),
    ],
)
async def test_models_that_do_not_fit_are_refused_by_the_name_of_the_step(tmp_path, inputs, takes, makes, batch, expected):
    add_model(tmp_path, "add", "add_one.onnx", BATCHED)
    add_ensemble(tmp_path, "wrong", inputs, [tensor("y", 4)], step("add", takes, makes), batch=batch)
    async with running(tmp_path) as rig:
        assert state(rig, "wrong") == ("failed", "model.config_rejected")
        with pytest.raises(errors.ModelNotReady, match=expected):
            rig.serving.lookup("wrong")


async def test_an_input_of_a_step_that_gets_nothing_is_named(tmp_path):
    add_model(tmp_path, "two", "sum_and_difference.onnx", BATCHED)
    add_ensemble(tmp_path, "half", [tensor("x", 2)], [tensor("y", 2)], step("two", {"a": "x"}, {"sum": "y"}))
    async with running(tmp_path) as rig:
        with pytest.raises(errors.ModelNotReady, match="step 'two' gets nothing for its input 'b'"):
            rig.serving.lookup("half")


async def test_ensembles_that_call_each_other_are_refused_with_the_chain(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", BATCHED)
    for name, called in (("one", "two"), ("two", "three"), ("three", "one"), ("aside", "one")):
        add_ensemble(tmp_path, name, [tensor("x", 4)], [tensor("y", 4)], step(called, {"x": "x"}, {"y": "y"}))
    async with running(tmp_path, control_mode="explicit", load=("*",)) as rig:
        assert state(rig, "two") == ("failed", "model.cycle")
        assert "two -> three -> one -> two" in reason(rig, "two")
        assert state(rig, "aside") == ("failed", "model.dependency")
        add_ensemble(tmp_path, "three", [tensor("x", 4)], [tensor("y", 4)], step("add", {"x": "x"}, {"y": "y"}))
        await rig.serving.load_model("three")
        for name in ("one", "two", "three", "aside"):
            assert (await rig.ask(name, row(1, 2, 3, 4))).tolist() == [[2, 3, 4, 5]]


async def test_detections_are_not_an_ensembles(tmp_path):
    add_twice(tmp_path)
    async with running(tmp_path) as rig:
        with pytest.raises(errors.Unsupported, match="it gives tensors"):
            await rig.ask("twice", row(1, 2, 3, 4), decode=True)


# -- state follows the models ---------------------------------------------------------------------------------------


async def test_its_state_follows_its_models(tmp_path):
    add_twice(tmp_path)
    async with running(tmp_path, control_mode="explicit", load=("first", "twice")) as rig:
        assert state(rig, "twice") == ("failed", "model.dependency")
        assert "'second'" in reason(rig, "twice")
        with pytest.raises(errors.EngineLoadError, match="failed to load 'twice', step 'second': "):
            await rig.serving.load_model("twice")
        assert not rig.serving.is_ready("second")  # loading an ensemble loads nothing else
        await rig.serving.load_model("second")
        assert state(rig, "twice") == ("ok", "")
        assert (await rig.ask("twice", row(1, 2, 3, 4))).tolist() == [[3, 4, 5, 6]]
        await rig.serving.unload_model("first")
        assert not rig.serving.is_ready("twice")
        with pytest.raises(errors.ModelNotReady, match="step 'first'"):
            await rig.ask("twice", row(1, 2, 3, 4))


async def test_a_model_of_it_that_cannot_be_loaded_is_named(tmp_path):
    add_twice(tmp_path)
    (tmp_path / "second/1/model.onnx").write_bytes(b"not a model")
    async with running(tmp_path) as rig:
        assert rig.serving.ready()
        assert state(rig, "twice") == ("failed", "model.dependency")
        assert "second" in reason(rig, "twice")
        assert {(entry["name"], entry["state"]) for entry in rig.serving.index()} == {
            ("first", "READY"),
            ("second", "UNAVAILABLE"),
            ("twice", "UNAVAILABLE"),
        }


async def test_unloading_an_ensemble_with_its_dependents_leaves_those_that_others_call(tmp_path):
    add_twice(tmp_path)
    add_ensemble(tmp_path, "once", [tensor("x", 4)], [tensor("y", 4)], step("first", {"x": "x"}, {"y": "y"}))
    async with running(tmp_path, control_mode="explicit", load=("*",)) as rig:
        await rig.serving.unload_model("twice", unload_dependents=True)
        assert [entry["name"] for entry in rig.serving.index() if entry.get("state") == "READY"] == ["first", "once"]
        await rig.serving.unload_model("once")
        assert rig.serving.is_ready("first")


# -- failures -------------------------------------------------------------------------------------------------------


async def test_a_step_that_fails_fails_the_whole_by_its_name_and_others_go_on(tmp_path):
    """B015: a step that raises for every third request."""
    add_model(tmp_path, "lookup", "lookup.onnx", "max_batch_size = 1\n")
    add_model(tmp_path, "add", "add_one_any.onnx", BATCHED)
    add_ensemble(
        tmp_path,
        "behind",
        [tensor("index", 1, kind="INT64")],
        [tensor("y", 1)],
        step("lookup", {"index": "index"}, {"found": "found"}),
        step("add", {"x": "found"}, {"y": "y"}),
        batch=1,
    )
    async with running(tmp_path) as rig:

        async def call(number):
            index = 99 if number % 3 == 0 else number % 4
            return await rig.ask("behind", numpy.array([[index]], numpy.int64), names=("index",))

        answers = await asyncio.gather(*(call(number) for number in range(30)), return_exceptions=True)
        for number, answer in enumerate(answers):
            if number % 3 == 0:
                assert isinstance(answer, errors.ExecutionError)
                assert str(answer).startswith("in ensemble 'behind', step 'lookup': ")
            else:
                assert answer.tolist() == [[number % 4 * 10 + 1]]
        assert counted(rig, "behind")[2:] == (20, 10)
        assert rig.arena.status()["slots"] == 0


async def test_a_full_queue_of_a_step_refuses_and_wedges_nobody(tmp_path):
    """B015: triton-inference-server/core PR#470: fifty calls at once on an inner queue of two."""
    small = "[dynamic_batching.default_queue_policy]\nmax_queue_size = 2\n"
    add_model(tmp_path, "resize", "add_one.onnx", BATCHED)
    add_model(tmp_path, "detect", "add_one.onnx", "max_batch_size = 1\n" + small)
    add_ensemble(
        tmp_path,
        "pipe",
        [tensor("x", 4)],
        [tensor("y", 4)],
        step("resize", {"x": "x"}, {"y": "between"}),
        step("detect", {"x": "between"}, {"y": "y"}),
        batch=1,
    )
    async with running(tmp_path) as rig:
        calls = (rig.ask("pipe", row(number, 0, 0, 0)) for number in range(50))
        answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert refused
        assert len(refused) < 50
        for error in refused:
            assert isinstance(error, errors.QueueFull)
            assert str(error).startswith("in ensemble 'pipe', step 'detect': ")
        for number, answer in enumerate(answers):
            assert isinstance(answer, BaseException) or answer[0][0] == number + 2
        assert rig.arena.status()["slots"] == 0
        assert (await rig.ask("pipe", row(1, 2, 3, 4))).tolist() == [[3, 4, 5, 6]]


async def test_a_caller_that_leaves_frees_its_slots_and_what_has_not_run_does_not_run(tmp_path):
    add_twice(tmp_path)
    slow = BATCHED + "[dynamic_batching]\npreferred_batch_size = [8]\nmax_queue_delay_microseconds = 500000\n"
    (tmp_path / "first/config.toml").write_text(slow)
    async with running(tmp_path) as rig:
        call = asyncio.ensure_future(rig.ask("twice", row(1, 2, 3, 4)))
        await until(rig, lambda: rig.serving.lookup("first").pending)
        assert rig.arena.status()["slots"] == 3  # all of them from the start
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert rig.arena.status()["slots"] == 0
        assert rig.serving.lookup("first").pending == 0
        assert counted(rig, "second") == (0, 0, 0, 0)
        assert [record.status for record in rig.journal.requests] == ["request.cancelled", "request.cancelled"]


async def test_a_host_that_is_killed_between_two_steps_takes_nothing_along(tmp_path):
    add_twice(tmp_path, ("left", "right"))
    async with running(tmp_path) as rig:
        pid = rig.host_pid("right")
        ends = {"answered": 0, "refused": 0}

        async def caller(number):
            until = rig.clock.monotonic() + 3.0
            while rig.clock.monotonic() < until:
                try:
                    got = await rig.ask("twice", row(*[number] * 4))
                except (errors.ModelNotReady, errors.HostDied):
                    ends["refused"] += 1
                    await asyncio.sleep(0.01)
                else:
                    assert got.tolist() == [[number + 2] * 4]
                    ends["answered"] += 1

        callers = asyncio.gather(*(caller(number) for number in range(8)))
        await until(rig, lambda: ends["answered"] >= 20)
        os.kill(pid, signal.SIGKILL)
        await until(rig, lambda: not rig.serving.is_ready("twice"))
        assert state(rig, "twice") == ("failed", "model.dependency")
        await callers
        await rig.until_ready("twice")
        assert rig.host_pid("right") != pid
        assert (await rig.ask("twice", row(1, 2, 3, 4))).tolist() == [[3, 4, 5, 6]]
        assert rig.arena.status()["slots"] == 0


async def test_a_step_that_is_unloaded_under_load_ends_every_call(tmp_path):
    """B015: unload step 2 during load."""
    add_twice(tmp_path, ("left", "right"))
    async with running(tmp_path, control_mode="explicit", load=("*",)) as rig:

        async def call(number):
            await asyncio.sleep(number * 0.001)
            return await rig.ask("twice", row(*[number] * 4))

        calls = asyncio.gather(*(call(number) for number in range(200)), return_exceptions=True)
        await until(rig, lambda: counted(rig, "twice")[2] > 10)
        await rig.serving.unload_model("second")
        answers = await asyncio.wait_for(calls, 20)
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert 0 < len(refused) < 190
        assert all(isinstance(error, errors.ModelNotReady) and "step 'second'" in str(error) for error in refused)
        await rig.serving.load_model("second")
        assert (await rig.ask("twice", row(1, 2, 3, 4))).tolist() == [[3, 4, 5, 6]]
        assert rig.arena.status()["slots"] == 0


async def test_a_model_of_it_may_be_loaded_anew_under_load(tmp_path):
    add_twice(tmp_path)
    async with running(tmp_path, control_mode="explicit", load=("*",)) as rig:

        async def caller(number):
            for turn in range(40):
                got = await rig.ask("twice", row(*[number * 100 + turn] * 4))
                assert got.tolist() == [[number * 100 + turn + 2] * 4]

        callers = asyncio.gather(*(caller(number) for number in range(4)))
        await rig.serving.load_model("second")
        await rig.serving.load_model("twice")
        await callers
        assert state(rig, "twice") == ("ok", "")


async def test_an_ensemble_without_a_version_folder_says_how_to_make_one(tmp_path):
    add_twice(tmp_path)
    (tmp_path / "twice/1").rmdir()
    async with running(tmp_path) as rig:
        with pytest.raises(errors.ModelNotReady, match="which may be empty: make .*twice/1"):
            rig.serving.lookup("twice")


async def test_all_slots_are_taken_in_one_step_or_none(tmp_path):
    add_twice(tmp_path)
    async with running(tmp_path, arena_bytes=8 * 4096) as rig:
        held = [await rig.serving.reserve("twice", None, 16) for _ in range(2)]
        assert rig.arena.status()["slots"] == 6
        with pytest.raises(errors.ArenaFull):
            await rig.serving.reserve("twice", None, 16, timeout_s=0.05)
        assert rig.arena.status()["slots"] == 6
        waiting = asyncio.ensure_future(rig.ask("twice", row(1, 2, 3, 4)))
        await asyncio.sleep(0)
        for lease in held.pop():
            lease.release()
        assert (await waiting).tolist() == [[3, 4, 5, 6]]
        for lease in held.pop():
            lease.release()


async def test_many_callers_in_little_memory_all_get_their_answers(tmp_path):
    add_twice(tmp_path, ("left", "right"))
    async with running(tmp_path, arena_bytes=10 * 4096) as rig:

        async def caller(number):
            for turn in range(10):
                got = await rig.ask("twice", row(*[number * 100 + turn] * 4))
                assert got.tolist() == [[number * 100 + turn + 2] * 4]

        await asyncio.wait_for(asyncio.gather(*(caller(number) for number in range(12))), 30)


async def test_requests_in_flight_end_while_the_agent_drains(tmp_path):
    add_twice(tmp_path)
    slow = BATCHED + "[dynamic_batching]\npreferred_batch_size = [8]\nmax_queue_delay_microseconds = 200000\n"
    (tmp_path / "first/config.toml").write_text(slow)
    async with running(tmp_path) as rig:
        call = asyncio.ensure_future(rig.ask("twice", row(1, 2, 3, 4)))
        await until(rig, lambda: rig.serving.lookup("first").pending)
        rig.serving.drain()
        assert await rig.serving.drained(5.0)
        assert (await call).tolist() == [[3, 4, 5, 6]]


async def test_a_deadline_holds_in_every_step(tmp_path):
    add_twice(tmp_path)
    slow = BATCHED + "[dynamic_batching]\npreferred_batch_size = [8]\nmax_queue_delay_microseconds = 5000000\n"
    (tmp_path / "second/config.toml").write_text(slow)
    async with running(tmp_path) as rig:
        await rig.ask("first", row(1, 2, 3, 4))
        with pytest.raises(errors.DeadlineExceeded, match="in ensemble 'twice', step 'first': "):
            await rig.ask("twice", row(1, 2, 3, 4), deadline=rig.clock.monotonic() - 1)
        started = rig.clock.monotonic()
        assert (await rig.ask("twice", row(1, 2, 3, 4), deadline=started + 0.3)).tolist() == [[3, 4, 5, 6]]
        assert rig.clock.monotonic() - started < 1.0


async def test_steps_that_do_not_need_each_other_wait_side_by_side(tmp_path):
    slow = BATCHED + "[dynamic_batching]\npreferred_batch_size = [8]\nmax_queue_delay_microseconds = 300000\n"
    for model in ("one", "two"):
        add_model(tmp_path, model, "add_one.onnx", slow)
    add_ensemble(
        tmp_path,
        "both",
        [tensor("x", 4)],
        [tensor("y", 4), tensor("z", 4)],
        step("one", {"x": "x"}, {"y": "y"}),
        step("two", {"x": "x"}, {"y": "z"}),
    )
    async with running(tmp_path) as rig:
        call = asyncio.ensure_future(rig.ask_all("both", row(1, 2, 3, 4)))
        await until(rig, lambda: rig.serving.lookup("one").pending and rig.serving.lookup("two").pending)
        _, outputs = await call
        assert {name: array.tolist() for name, array in outputs.items()} == {"y": [[2, 3, 4, 5]], "z": [[2, 3, 4, 5]]}
