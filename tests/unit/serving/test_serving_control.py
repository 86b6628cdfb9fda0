from __future__ import annotations

import asyncio
import json
import shutil

import numpy
import pytest

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.serving import repository
from edge_agent.serving.holds import FILE_NAME, Holds
from edge_agent.serving.watch import RepositoryWatch
from tests.serving_rig import MODELS, Rig, add_model, running

ROW = numpy.array([[1, 2, 3, 4]], numpy.float32)


async def until(condition, within_s=15.0):
    end = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.02)


def state(rig, name):
    return next((model["state"], model["code"]) for model in rig.serving.status() if model["name"] == name)


@pytest.mark.parametrize("mode", ["none", "poll"])
async def test_loading_by_request_is_refused_but_in_explicit_mode(tmp_path, mode):
    add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path, control_mode=mode) as rig:
        for call in (rig.serving.load_model("add"), rig.serving.unload_model("add")):
            with pytest.raises(errors.ControlRefused, match="not allowed"):
                await call


async def test_explicit_mode_loads_what_it_is_told_and_lists_the_rest_by_name(tmp_path):
    for name in ("one", "two"):
        add_model(tmp_path, name, "add_one.onnx")
    async with running(tmp_path, control_mode="explicit", load=("one", "absent")) as rig:
        assert rig.serving.index() == [
            {"name": "absent", "state": "UNAVAILABLE", "reason": "no repository has a model of this name"},
            {"name": "one", "version": "1", "state": "READY"},
            {"name": "two"},
        ]
        await rig.serving.load_model("two")
        assert rig.serving.is_ready("two")
        await rig.serving.unload_model("one")
        with pytest.raises(errors.ModelNotFound, match="has no available versions"):
            rig.serving.lookup("one")
        assert {"name": "one", "state": "UNAVAILABLE", "reason": "unloaded"} in rig.serving.index()
        await rig.serving.unload_model("never heard of")


async def test_every_load_of_a_broken_model_says_why_and_a_good_file_cures_it(tmp_path):
    """B005: triton-inference-server/server#3802, #6711, #6536."""
    folder = add_model(tmp_path, "broken", "add_one.onnx")
    whole = (folder / "1/model.onnx").read_bytes()
    (folder / "1/model.onnx").write_bytes(whole[: len(whole) // 2])
    async with running(tmp_path, control_mode="explicit", load=()) as rig:
        for _ in range(3):
            with pytest.raises(errors.EngineLoadError, match="failed to load 'broken', .*model.onnx"):
                await rig.serving.load_model("broken")
            (entry,) = rig.serving.index()
            assert entry["state"] == "UNAVAILABLE"
            assert "model.onnx" in entry["reason"]
            assert not rig.serving.is_ready("broken")
        (folder / "1/model.onnx").write_bytes(whole)
        await rig.serving.load_model("broken")
        assert (await rig.ask("broken", ROW)).tolist() == [[2, 3, 4, 5]]


async def test_what_serves_goes_on_serving_when_its_replacement_cannot_be_loaded(tmp_path):
    folder = add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path, control_mode="explicit") as rig:
        (folder / "1/model.onnx").write_bytes(b"no model")
        with pytest.raises(errors.EngineLoadError):
            await rig.serving.load_model("add")
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]
        (folder / "config.toml").write_text("max_batch_sise = 1\n")
        with pytest.raises(errors.EngineLoadError, match="max_batch_size"):
            await rig.serving.load_model("add")
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]


async def test_a_model_is_swapped_between_two_requests_and_none_is_lost(tmp_path):
    folder = add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path, control_mode="explicit") as rig:
        answered = []
        stop = asyncio.Event()

        async def caller():
            while not stop.is_set():
                answered.append((await rig.ask("add", ROW)).tolist())

        callers = [asyncio.ensure_future(caller()) for _ in range(4)]
        for _ in range(5):
            await rig.serving.load_model("add")
        shutil.copytree(str(folder / "1"), str(folder / "2"))
        await rig.serving.load_model("add")
        stop.set()
        await asyncio.gather(*callers)
        assert len(answered) > 20
        assert all(answer == [[2, 3, 4, 5]] for answer in answered)
        assert rig.serving.versions("add") == ["2"]
        (host,) = rig.serving.host_status()
        assert host["models"] == ["add/2"]
        assert host["restarts"] == 0


async def test_the_host_ends_with_its_last_model_and_comes_with_the_next(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path, control_mode="explicit") as rig:
        await rig.serving.unload_model("add")
        assert rig.serving.host_status() == []
        await rig.serving.load_model("add")
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]


async def test_a_load_may_bring_its_own_configuration(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path, control_mode="explicit") as rig:
        await rig.serving.load_model("add", json.dumps({"max_batch_size": 3}))
        assert rig.serving.lookup("add").max_batch_size == 3
        with pytest.raises(errors.ConfigError, match="max_batch_sise"):
            await rig.serving.load_model("add", json.dumps({"max_batch_sise": 3}))
        assert rig.serving.lookup("add").max_batch_size == 3


async def test_a_load_may_bring_its_own_files_and_they_stay_in_their_folder(tmp_path):
    (tmp_path / "models").mkdir()
    file = (MODELS / "add_one.onnx").read_bytes()
    config = json.dumps({"backend": "onnxruntime", "max_batch_size": 2})
    async with running(tmp_path / "models", control_mode="explicit") as rig:
        await rig.serving.load_model("sent", config, {"1/model.onnx": file})
        assert (await rig.ask("sent", ROW)).tolist() == [[2, 3, 4, 5]]
        with pytest.raises(errors.InvalidRequest, match="leads out"):
            await rig.serving.load_model("sent", config, {"../../evil": b"x"})
        with pytest.raises(errors.InvalidRequest, match="config"):
            await rig.serving.load_model("sent", None, {"1/model.onnx": file})
        await rig.serving.unload_model("sent")
        with pytest.raises(errors.ModelNotFound):
            await rig.serving.load_model("sent")
    assert list((tmp_path / "models").iterdir()) == []


async def test_polling_follows_new_changed_and_removed_models(tmp_path):
    folder = add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path, control_mode="poll", poll_interval_s=0.1) as rig:
        add_model(tmp_path, "later", "add_one.onnx")
        await until(lambda: "later" in rig.serving.names() and rig.serving.is_ready("later"))
        shutil.copytree(str(folder / "1"), str(folder / "2"))
        await until(lambda: rig.serving.lookup("add").version == "2")
        await until(lambda: rig.serving.versions("add") == ["2"])
        (folder / "config.toml").write_text("max_batch_size = 7\n")
        await until(lambda: rig.serving.lookup("add").max_batch_size == 7)
        (folder / "config.toml").write_text("max_batch_sise = 7\n")
        await until(lambda: any(kind == "model.failed" for kind, _, _ in rig.journal.events))
        assert rig.serving.is_ready("add")
        shutil.rmtree(str(folder))
        await until(lambda: "add" not in rig.serving.names())
        assert rig.serving.is_ready("later")


async def test_a_file_that_is_still_being_copied_is_not_loaded(tmp_path):
    async with running(tmp_path, control_mode="poll", poll_interval_s=0.2) as rig:
        whole = (MODELS / "add_one.onnx").read_bytes()
        folder = tmp_path / "slow" / "1"
        folder.mkdir(parents=True)
        with (folder / "model.onnx").open("wb") as file:
            for start in range(0, len(whole), max(1, len(whole) // 20)):
                file.write(whole[start : start + max(1, len(whole) // 20)])
                file.flush()
                await asyncio.sleep(0.08)
        await until(lambda: "slow" in rig.serving.names() and rig.serving.is_ready("slow"))
        assert not any(kind == "model.failed" for kind, _, _ in rig.journal.events)


async def test_an_unmounted_repository_takes_nothing_down(tmp_path):
    add_model(tmp_path / "models", "add", "add_one.onnx")
    async with running(tmp_path / "models", control_mode="poll", poll_interval_s=0.1) as rig:
        (tmp_path / "models").rename(tmp_path / "away")
        await until(lambda: rig.serving.repository_status()["state"] == "failed")
        await asyncio.sleep(0.4)
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]
        (tmp_path / "away").rename(tmp_path / "models")
        await until(lambda: rig.serving.repository_status()["state"] == "ok")


@pytest.mark.parametrize("mode", ["none", "poll", "explicit"])
async def test_a_held_model_stays_down_over_restarts_until_it_is_released(tmp_path, mode):
    for name in ("add", "other"):
        add_model(tmp_path / "models", name, "add_one.onnx")
    options = {"control_mode": mode, "state_dir": tmp_path, "poll_interval_s": 0.1}
    async with running(tmp_path / "models", **options) as rig:
        await rig.serving.hold("add")
        assert state(rig, "add") == ("off", "model.unloaded")
    async with running(tmp_path / "models", **options) as rig:
        await asyncio.sleep(0.3)
        assert state(rig, "add") == ("off", "model.unloaded")
        assert rig.serving.is_ready("other")
        await rig.serving.release("add")
        assert rig.serving.is_ready("add")
    async with running(tmp_path / "models", **options) as rig:
        assert rig.serving.is_ready("add")
        with pytest.raises(errors.ModelNotFound):
            await rig.serving.hold("absent")


def test_a_damaged_list_of_held_models_holds_none_and_says_so(tmp_path, caplog):
    (tmp_path / FILE_NAME).write_text("{")
    holds = Holds(tmp_path)
    holds.load()
    assert "add" not in holds
    assert FILE_NAME in caplog.text


async def test_statistics_count_requests_executions_and_batches(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path) as rig:
        for _ in range(3):
            await rig.ask("add", numpy.zeros((2, 4), numpy.float32))
        with pytest.raises(errors.TensorMismatch):
            await rig.ask("add", numpy.zeros((20, 4), numpy.float32))
        (entry,) = rig.serving.statistics("add")
        assert (entry["name"], entry["version"]) == ("add", "1")
        assert (entry["inference_count"], entry["execution_count"]) == (6, 3)
        stats = entry["inference_stats"]
        assert {name: part["count"] for name, part in stats.items()} == {
            "success": 3, "fail": 1, "queue": 3, "compute_input": 3, "compute_infer": 3, "compute_output": 3,
            "cache_hit": 0, "cache_miss": 0,
        }  # fmt: skip
        assert stats["success"]["ns"] > stats["compute_infer"]["ns"] > 0
        assert [batch["batch_size"] for batch in entry["batch_stats"]] == [2]
        assert entry["batch_stats"][0]["compute_infer"]["count"] == 3
        assert entry["last_inference"] > 1.6e12
        with pytest.raises(errors.ModelNotFound):
            rig.serving.statistics("absent")


async def test_stopping_while_models_load_leaves_nothing(tmp_path):
    for number in range(4):
        add_model(tmp_path, "m%d" % number, "add_one.onnx")
    rig = Rig(tmp_path)
    await rig.serving.start()
    await rig.serving.stop()
    assert rig.arena.status()["segments"] == 0


@pytest.mark.parametrize("mode", ["poll", "explicit"])
async def test_a_broken_new_version_does_not_take_down_the_good_one(tmp_path, mode):
    folder = add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path, control_mode=mode, poll_interval_s=0.1) as rig:
        (folder / "2").mkdir()
        (folder / "2/model.onnx").write_bytes(b"no model")
        if mode == "explicit":
            with pytest.raises(errors.EngineLoadError):
                await rig.serving.load_model("add")
        else:
            await until(lambda: any(kind == "model.failed" for kind, _, _ in rig.journal.events))
            await asyncio.sleep(0.4)
        assert rig.serving.lookup("add").version == "1"
        assert (await rig.ask("add", ROW)).tolist() == [[2, 3, 4, 5]]
        shutil.copy(str(folder / "1/model.onnx"), str(folder / "2/model.onnx"))
        if mode == "explicit":
            await rig.serving.load_model("add")
        await until(lambda: rig.serving.versions("add") == ["2"])


SLOW = """
import time
class Model:
    def load(self, config):
        time.sleep(%g)
    def infer(self, inputs):
        time.sleep(float(inputs["x"].ravel()[0]))
        return {"y": inputs["x"]}
"""


def add_slow(repository, name, load_s=0.0):
    (repository / name / "1").mkdir(parents=True)
    tensor = '=[{name="%s",data_type="TYPE_FP32",dims=[1]}]\n'
    (repository / name / "1" / "model.py").write_text(SLOW % load_s)
    (repository / name / "config.toml").write_text("input" + tensor % "x" + "output" + tensor % "y")


async def test_a_version_whose_requests_take_too_long_is_freed_when_they_have_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("edge_agent.serving.swapping._RETIRE_S", 0.3)
    add_slow(tmp_path, "slow")
    async with running(tmp_path, control_mode="explicit") as rig:
        asked = asyncio.ensure_future(rig.ask("slow", numpy.array([3], numpy.float32)))
        await until(lambda: rig.serving.lookup("slow").batcher.in_flight)
        await rig.serving.unload_model("slow")
        assert not asked.done()
        with pytest.raises(errors.ModelNotFound):
            rig.serving.lookup("slow")
        assert (await asked).tolist() == [3]
        await until(lambda: rig.serving.host_status() == [])


async def test_polling_goes_on_for_the_others_while_one_model_loads_slowly(tmp_path):
    folder = add_model(tmp_path, "zebra", "add_one.onnx")
    async with running(tmp_path, control_mode="poll", poll_interval_s=0.1) as rig:
        add_slow(tmp_path, "ant", load_s=6)
        await until(lambda: "ant" in rig.serving.names())
        (folder / "config.toml").write_text("max_batch_size = 7\n")
        await until(lambda: rig.serving.lookup("zebra").max_batch_size == 7, within_s=5)
        assert not rig.serving.is_ready("ant")


async def test_a_model_whose_files_cannot_be_read_has_a_fault_and_polling_goes_on(tmp_path, monkeypatch):
    add_model(tmp_path, "bad", "add_one.onnx")
    real = repository.fingerprint

    def failing(entry, version):
        if entry.name == "bad":
            raise OSError(5, "Input/output error")
        return real(entry, version)

    monkeypatch.setattr(repository, "fingerprint", failing)
    async with running(tmp_path, control_mode="poll", poll_interval_s=0.1) as rig:
        assert state(rig, "bad")[0] == "failed"
        add_model(tmp_path, "good", "add_one.onnx")
        await until(lambda: "good" in rig.serving.names() and rig.serving.is_ready("good"))
        monkeypatch.setattr(repository, "fingerprint", real)
        await rig.until_ready("bad")


async def test_polling_that_dies_is_shown_and_begins_again(tmp_path, monkeypatch, caplog):
    add_model(tmp_path, "add", "add_one.onnx")
    async with running(tmp_path, control_mode="poll", poll_interval_s=0.2) as rig:
        with monkeypatch.context() as broken:
            broken.setattr("edge_agent.serving.watch.marked", None)
            await until(lambda: rig.serving.repository_status()["state"] == "failed")
        await until(lambda: rig.serving.repository_status()["state"] == "ok")
        add_model(tmp_path, "later", "add_one.onnx")
        await until(lambda: "later" in rig.serving.names() and rig.serving.is_ready("later"))
    assert "task repository failed" in caplog.text


async def test_a_folder_that_is_away_for_one_look_takes_nothing_down(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx")
    watch = RepositoryWatch([tmp_path], Clock())
    await watch.look(["add"])
    (tmp_path / "add").rename(tmp_path / ".add")
    assert (await watch.look(["add"])).gone == []
    (tmp_path / ".add").rename(tmp_path / "add")
    assert (await watch.look(["add"])).gone == []
    (tmp_path / "add").rename(tmp_path / ".add")
    assert (await watch.look(["add"])).gone == []
    assert (await watch.look(["add"])).gone == ["add"]


async def test_names_that_nobody_knows_leave_no_trace(tmp_path):
    async with running(tmp_path, control_mode="explicit") as rig:
        for number in range(10):
            await rig.serving.unload_model("absent%d" % number)
            with pytest.raises(errors.ModelNotFound):
                await rig.serving.load_model("absent%d" % number)
        assert rig.serving._control._locks == {}


async def test_a_failed_load_leaves_no_host_behind(tmp_path):
    folder = add_model(tmp_path, "bad", "add_one.onnx")
    (folder / "1/model.onnx").write_bytes(b"no model")
    async with running(tmp_path) as rig:
        assert state(rig, "bad")[0] == "failed"
        assert rig.serving.host_status() == []


async def test_a_version_is_loaded_again_with_the_configuration_that_it_has(tmp_path):
    folder = add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path, control_mode="explicit") as rig:
        before = rig.serving.lookup("add")
        (folder / "config.toml").write_text("max_batch_size = 4\n")
        await rig.serving._control.again("add", "1")
        after = rig.serving.lookup("add")
        assert after is not before
        assert after.max_batch_size == 8
        (folder / "1/model.onnx").write_bytes(b"no model")
        with pytest.raises(errors.EngineLoadError, match="failed to load 'add' version 1 again, "):
            await rig.serving._control.again("add", "1")
        assert rig.serving.lookup("add") is after
        for name, version in (("absent", "1"), ("add", "2")):
            with pytest.raises(errors.ModelNotFound):
                await rig.serving._control.again(name, version)
