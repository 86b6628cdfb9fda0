"""The response cache on real engine hosts: what is answered without running anything, and how that is counted."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from pathlib import Path
from typing import Any, AsyncIterator, Dict, Tuple

import numpy
import pytest
from prometheus_client import generate_latest

from edge_agent import errors
from edge_agent.config.response_cache import ResponseCacheSection
from edge_agent.domain.clock import Clock
from edge_agent.store.store import Store, StoreOptions
from tests.serving_rig import MODELS, Rig, add_model, add_tricks, label, picture, running

CACHED = "[response_cache]\nenable = true\n"
ADD = "max_batch_size = 8\n" + CACHED


def row(*values: float) -> Any:
    return numpy.array([values], numpy.float32)


def counted(rig: Rig, model: str) -> Dict[str, int]:
    """Hits, misses, successes, inferences and executions of a model's only version."""
    (entry,) = rig.serving.statistics(model)
    stats = entry["inference_stats"]
    return {
        "hits": stats["cache_hit"]["count"],
        "misses": stats["cache_miss"]["count"],
        "success": stats["success"]["count"],
        "inferences": entry["inference_count"],
        "executions": entry["execution_count"],
    }


@contextlib.asynccontextmanager
async def with_store(
    repository: Path, database: Path, max_bytes: int = 1 << 20, **options: Any
) -> AsyncIterator[Tuple[Rig, Store]]:
    """A rig whose cache has a real store behind it."""
    store = Store(StoreOptions(database, "box", response_cache_max_bytes=max_bytes), Clock())
    await store.start()
    try:
        async with running(repository, shelf=store.answers, **options) as rig:
            yield rig, store
    finally:
        await store.stop()


async def kept(store: Store, rows: int) -> None:
    """Waits until there are so many answers in the file."""
    give_up = time.monotonic() + 10
    for _ in range(1000):
        if len(await store.answers.keys()) == rows or time.monotonic() > give_up:
            break
        await asyncio.sleep(0.01)
    assert len(await store.answers.keys()) == rows


# -- hits and misses ------------------------------------------------------------------------------------------------------


async def test_an_equal_request_is_answered_without_running_the_model_and_counts_as_triton_counts_it(tmp_path: Path) -> None:
    add_model(tmp_path, "add", "add_one.onnx", ADD)
    async with running(tmp_path) as rig:
        answers = [await rig.ask_all("add", row(1, 2, 3, 4), id=str(n), source="http/x") for n in range(3)]
        assert [outputs["y"].tolist() for _, outputs in answers] == [[[2, 3, 4, 5]]] * 3
        assert [(response.id, response.version, response.cached) for response, _ in answers] == [
            ("0", "1", False),
            ("1", "1", True),
            ("2", "1", True),
        ]
        assert counted(rig, "add") == {"hits": 2, "misses": 1, "success": 3, "inferences": 1, "executions": 1}
        stats = rig.serving.statistics("add")[0]["inference_stats"]
        assert stats["queue"]["count"] == 3
        assert [stats[kind]["count"] for kind in ("compute_input", "compute_infer", "compute_output")] == [1, 1, 1]
        assert 0 < stats["cache_hit"]["ns"] <= stats["success"]["ns"]
        assert stats["cache_miss"]["ns"] > 0
        assert [(record.status, record.batch_size) for record in rig.journal.requests] == [("ok", 1), ("ok", 0), ("ok", 0)]
        text = generate_latest(rig.metrics.registry).decode()
        for name, value in (
            ("nv_cache_num_hits_per_model", 2),
            ("nv_cache_num_misses_per_model", 1),
            ("nv_inference_request_success", 3),
            ("nv_inference_count", 1),
            ("nv_inference_exec_count", 1),
        ):
            assert '%s{model="add",version="1"} %.1f\n' % (name, value) in text


async def test_a_model_that_does_not_ask_for_it_runs_every_time(tmp_path: Path) -> None:
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path) as rig:
        for _ in range(2):
            await rig.ask("add", row(1, 2, 3, 4))
        assert counted(rig, "add") == {"hits": 0, "misses": 0, "success": 2, "inferences": 2, "executions": 2}


async def test_without_any_bytes_for_it_nothing_is_kept(tmp_path: Path) -> None:
    add_model(tmp_path, "add", "add_one.onnx", ADD)
    async with running(tmp_path, cache=ResponseCacheSection(memory_max_bytes=0, disk_max_bytes=0)) as rig:
        for _ in range(2):
            await rig.ask("add", row(1, 2, 3, 4))
        assert (counted(rig, "add")["hits"], counted(rig, "add")["executions"]) == (0, 2)


async def test_what_the_model_sees_differently_is_run(tmp_path: Path) -> None:
    add_model(tmp_path, "any", "add_one_any.onnx", ADD)
    add_model(tmp_path, "two", "sum_and_difference.onnx", ADD)
    nan = row(float("nan"), 1)
    async with running(tmp_path) as rig:
        for array in (row(1, 2, 3, 4), row(1, 2, 3, 4).reshape(2, 2), row(1, 2, 3, 4).reshape(4, 1), nan, nan):
            assert (await rig.ask("any", array)).shape == array.shape
        assert (counted(rig, "any")["hits"], counted(rig, "any")["misses"]) == (1, 4)
        a, b = row(5, 7), row(1, 2)
        for names, arrays, wanted in (
            (("a", "b"), (a, b), ()),
            (("b", "a"), (b, a), ()),  # the same in another order
            (("a", "b"), (a, b), ("sum",)),
            (("a", "b"), (a, b), ("difference",)),
            (("a", "b"), (b, a), ()),
        ):
            _, outputs = await rig.ask_all("two", *arrays, names=names, outputs=wanted)
            assert set(outputs) == set(wanted or ("sum", "difference"))
        assert (counted(rig, "two")["hits"], counted(rig, "two")["misses"]) == (1, 4)
        assert outputs["difference"].tolist() == [[-4, -5]]


async def test_detections_are_kept_like_tensors_and_a_cameras_frames_are_not(tmp_path: Path) -> None:
    add_tricks(tmp_path, config=ADD)
    async with running(tmp_path) as rig:
        for source in ("http/a", "mqtt/b", "camera/c", "camera/c"):
            assert label(await rig.ask("tricks", picture(7), names=("image",), decode=True, source=source)) == "7"
        assert (
            await rig.ask("tricks", picture(7), names=("image",)) is not None
        )  # tensors of the same picture are another answer
        assert (counted(rig, "tricks")["hits"], counted(rig, "tricks")["misses"]) == (1, 2)


async def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    add_tricks(tmp_path, config=ADD)
    async with running(tmp_path) as rig:
        for _ in range(2):
            with pytest.raises(errors.ExecutionError, match="sixteen"):
                await rig.ask("tricks", picture(16), names=("image",), decode=True)
        assert (counted(rig, "tricks")["hits"], counted(rig, "tricks")["misses"]) == (0, 0)


async def test_an_answer_whose_size_nobody_knew_beforehand_comes_in_a_slot_of_its_own(tmp_path: Path) -> None:
    add_model(tmp_path, "any", "nonzero.onnx", "max_batch_size = 0\n" + CACHED)
    values = numpy.ones(5000, numpy.float32)
    async with running(tmp_path) as rig:
        first, again = await rig.ask("any", values), await rig.ask("any", values)
        small = numpy.zeros(5000, numpy.float32)
        assert (await rig.ask("any", small)).size == (await rig.ask("any", small)).size == 0
        assert first.tolist() == again.tolist()
        assert first.size == 5000
        assert counted(rig, "any")["hits"] == 2


async def test_the_least_recently_used_answers_make_room_in_memory(tmp_path: Path) -> None:
    add_model(tmp_path, "add", "add_one.onnx", ADD)
    async with running(tmp_path, cache=ResponseCacheSection(memory_max_bytes=1500, disk_max_bytes=0)) as rig:
        for value in (1, 2, 1, 3, 2, 1):  # two answers fit
            await rig.ask("add", row(value, 0, 0, 0))
        assert counted(rig, "add")["hits"] == 1


async def test_answers_that_are_too_large_to_be_copied_on_the_loop_are_not_kept(tmp_path: Path) -> None:
    add_model(tmp_path, "any", "add_one_any.onnx", ADD)
    large = numpy.zeros((1, (4 << 20) // 4 + 1), numpy.float32)
    async with running(tmp_path) as rig:
        for _ in range(2):
            assert (await rig.ask("any", large)).max() == 1
        assert (counted(rig, "any")["hits"], counted(rig, "any")["misses"]) == (0, 2)


async def test_many_callers_at_once_each_get_their_own_copy(tmp_path: Path) -> None:
    add_model(tmp_path, "add", "add_one.onnx", ADD)
    async with running(tmp_path) as rig:
        await rig.ask("add", row(1, 1, 1, 1))
        found = await asyncio.gather(*[rig.ask("add", row(1, 1, 1, 1)) for _ in range(50)])
        assert all(array.tolist() == [[2, 2, 2, 2]] for array in found)
        assert counted(rig, "add")["executions"] == 1


# -- versions -------------------------------------------------------------------------------------------------------------


async def test_another_file_under_the_same_version_gives_its_own_answers(tmp_path: Path) -> None:
    repository, database = tmp_path / "models", tmp_path / "edge-agent.db"
    add_model(repository, "two", "sum_and_difference.onnx", ADD)
    async with with_store(repository, database, control_mode="explicit") as (rig, store):
        ask = {"names": ("a", "b"), "outputs": ("sum",)}
        await rig.ask("two", row(1, 2), row(3, 4), **ask)
        await kept(store, 1)
        (repository / "two" / "labels.txt").write_text("a file that a decoder may read\n")
        await rig.serving.load_model("two")
        await kept(store, 0)
        response, _ = await rig.ask_all("two", row(1, 2), row(3, 4), **ask)
        assert not response.cached
        await kept(store, 1)


async def test_a_model_that_is_exchanged_for_another_answers_anew(tmp_path: Path) -> None:
    add_model(tmp_path, "m", "add_one.onnx", ADD)
    async with running(tmp_path, control_mode="explicit") as rig:
        x = row(1, 2, 3, 4)
        assert (await rig.ask("m", x)).tolist() == [[2, 3, 4, 5]]
        assert (await rig.ask_all("m", x))[0].cached
        changed = (MODELS / "add_one.onnx").read_bytes().replace(b"\0\0\x80\x3f", b"\0\0\0\x40")  # adds 2
        assert changed != (MODELS / "add_one.onnx").read_bytes()
        (tmp_path / "m" / "1" / "model.onnx").write_bytes(changed)
        await rig.serving.load_model("m")
        assert (await rig.ask("m", x)).tolist() == [[3, 4, 5, 6]]


async def test_answers_of_an_unloaded_model_are_deleted_and_no_others(tmp_path: Path) -> None:
    repository, database = tmp_path / "models", tmp_path / "edge-agent.db"
    for name in ("gone", "stays"):
        add_model(repository, name, "add_one.onnx", ADD)
    async with with_store(repository, database, control_mode="explicit") as (rig, store):
        for name in ("gone", "stays"):
            await rig.ask(name, row(1, 2, 3, 4))
        await kept(store, 2)
        await rig.serving.unload_model("gone")
        await kept(store, 1)
        assert (await rig.ask_all("stays", row(1, 2, 3, 4)))[0].cached
        await rig.serving.load_model("gone")
        assert not (await rig.ask_all("gone", row(1, 2, 3, 4)))[0].cached


# -- over a restart -------------------------------------------------------------------------------------------------------


async def test_an_answer_survives_a_restart_and_one_of_a_version_that_went_meanwhile_does_not(tmp_path: Path) -> None:
    repository, database = tmp_path / "models", tmp_path / "edge-agent.db"
    for version in (1, 2):
        add_model(repository, "add", "add_one.onnx", ADD if version == 1 else "", version)
    x, policy = row(1, 2, 3, 4), "[version_policy.all]\n"
    (repository / "add" / "config.toml").write_text(ADD + policy)
    async with with_store(repository, database) as (rig, store):
        for version in ("1", "2"):
            await rig.ask("add", x, version=version)
        await kept(store, 2)
    async with with_store(repository, database) as (rig, store):
        for version in ("1", "2"):
            response, outputs = await rig.ask_all("add", x, version=version)
            assert response.cached
            assert outputs["y"].tolist() == [[2, 3, 4, 5]]
    shutil.rmtree(repository / "add" / "1")
    async with with_store(repository, database) as (rig, store):
        await kept(store, 1)
        assert (await rig.ask_all("add", x))[0].cached
        assert (await rig.ask_all("add", x))[0].cached
        assert counted(rig, "add") == {"hits": 2, "misses": 0, "success": 2, "inferences": 0, "executions": 0}


async def test_detections_survive_a_restart_too(tmp_path: Path) -> None:
    repository, database = tmp_path / "models", tmp_path / "edge-agent.db"
    add_tricks(repository, config=ADD)
    async with with_store(repository, database) as (rig, store):
        before = await rig.ask("tricks", picture(7), names=("image",), decode=True)
        await kept(store, 1)
    async with with_store(repository, database) as (rig, store):
        assert await rig.ask("tricks", picture(7), names=("image",), decode=True) == before
        assert counted(rig, "tricks")["executions"] == 0


async def test_a_store_that_stopped_does_not_keep_models_from_answering(tmp_path: Path) -> None:
    repository, database = tmp_path / "models", tmp_path / "edge-agent.db"
    add_model(repository, "add", "add_one.onnx", ADD)
    async with with_store(repository, database, cache=ResponseCacheSection(memory_max_bytes=0)) as (rig, store):
        await rig.ask("add", row(1, 2, 3, 4))
        await kept(store, 1)
        assert (await rig.ask_all("add", row(1, 2, 3, 4)))[0].cached  # from the disk
        await store.stop()
        response, outputs = await rig.ask_all("add", row(1, 2, 3, 4))
        assert not response.cached
        assert outputs["y"].tolist() == [[2, 3, 4, 5]]


# -- ensembles ------------------------------------------------------------------------------------------------------------

ENSEMBLE = """
platform = "ensemble"
max_batch_size = 8
input = [{ name = "in", data_type = "TYPE_FP32", dims = [4] }]
output = [{ name = "out", data_type = "TYPE_FP32", dims = [4] }]
%s
[[ensemble_scheduling.step]]
model_name = "first"
input_map = { x = "in" }
output_map = { y = "between" }
[[ensemble_scheduling.step]]
model_name = "second"
input_map = { x = "between" }
output_map = { y = "out" }
"""


def add_ensemble(repository: Path, cached: str) -> None:
    for name in ("first", "second"):
        add_model(repository, name, "add_one.onnx", ADD if cached == name else "max_batch_size = 8\n")
    (repository / "both" / "1").mkdir(parents=True)
    text = ENSEMBLE % ("response_cache = { enable = true }" if cached == "both" else "")
    (repository / "both" / "config.toml").write_text(text)


@pytest.mark.parametrize(("cached", "executions"), [("both", (1, 1)), ("first", (1, 2)), ("second", (2, 1))])
async def test_an_ensemble_may_be_cached_as_a_whole_or_in_any_step(
    tmp_path: Path, cached: str, executions: Tuple[int, int]
) -> None:
    add_ensemble(tmp_path, cached)
    async with running(tmp_path) as rig:
        for _ in range(2):
            assert (await rig.ask("both", row(1, 2, 3, 4), names=("in",))).tolist() == [[3, 4, 5, 6]]
        assert counted(rig, cached)["hits"] == 1
        assert tuple(counted(rig, name)["executions"] for name in ("first", "second")) == executions


async def test_an_ensemble_answers_anew_when_a_model_that_it_calls_is_exchanged(tmp_path: Path) -> None:
    add_ensemble(tmp_path, "both")
    async with running(tmp_path, control_mode="explicit") as rig:
        assert (await rig.ask("both", row(1, 2, 3, 4), names=("in",))).tolist() == [[3, 4, 5, 6]]
        changed = (MODELS / "add_one.onnx").read_bytes().replace(b"\0\0\x80\x3f", b"\0\0\0\x40")  # adds 2
        (tmp_path / "second" / "1" / "model.onnx").write_bytes(changed)
        await rig.serving.load_model("second")
        assert (await rig.ask("both", row(1, 2, 3, 4), names=("in",))).tolist() == [[4, 5, 6, 7]]


async def test_nothing_is_kept_of_a_version_whose_files_changed_while_it_was_loaded(tmp_path: Path) -> None:
    folder = add_model(tmp_path, "add", "add_one.onnx", ADD)
    rig = Rig(tmp_path, control_mode="explicit")
    await rig.serving.start()
    load = rig.serving._loader.load

    async def load_and_change(version: Any) -> None:
        await load(version)
        with (folder / "labels.txt").open("a") as file:
            file.write("one more\n")

    try:
        rig.serving._loader.load = load_and_change  # type: ignore[method-assign]
        await rig.serving.load_model("add")
        for _ in range(2):
            await rig.ask("add", row(1, 2, 3, 4))
        assert counted(rig, "add")["hits"] == 0
        rig.serving._loader.load = load  # type: ignore[method-assign]
        await rig.serving.load_model("add")
        for _ in range(2):
            await rig.ask("add", row(1, 2, 3, 4))
        assert counted(rig, "add")["hits"] == 1
    finally:
        await rig.serving.stop()
