"""Which requests are equal, and what makes another version of a model."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.model_config import ModelConfig, load_model_config
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Lease, Tensor
from edge_agent.processes.arena import Arena
from edge_agent.serving.cache_key import Tags, digest_beside, key_of, tag_of


class Slots:
    """Tensors in a real arena."""

    def __init__(self) -> None:
        self.arena = Arena(16 << 20)
        self._segment = self.arena.segment("test")
        self.leases: List[Lease] = []

    def tensor(self, name: str, array: Any, datatype: str = "FP32") -> Tensor:
        leases = self.arena.try_acquire([(self._segment, max(1, array.nbytes))])
        assert leases is not None
        self.leases.append(leases[0])
        leases[0].view()[: array.nbytes] = array.tobytes()
        return Tensor(name, DataType(datatype), array.shape, leases[0], 0, array.nbytes)


@pytest.fixture
def slots() -> Iterator[Slots]:
    made = Slots()
    yield made
    for lease in made.leases:
        lease.release()
    assert made.arena.status()["slots"] == 0
    made.arena.close()


def ask(*tensors: Tensor, **fields: Any) -> InferRequest:
    return InferRequest("m", tensors, **fields)


EMPTY = ModelConfig()
ROW = numpy.array([[1, 2, 3, 4]], numpy.float32)
NAN = numpy.array([[float("nan"), 0, 0, 0]], numpy.float32)


async def test_the_same_bytes_are_the_same_request_whoever_asks_and_not_a_number_is_itself(slots: Slots) -> None:
    for array in (ROW, NAN):
        one = ask(slots.tensor("x", array), id="a", source="http/door", priority=1, timeout_us=5)
        other = ask(slots.tensor("x", array), id="b", source="mqtt/m", deadline=9.0)
        assert await key_of("tag", one) == await key_of("tag", other)


async def test_the_order_of_inputs_is_irrelevant_and_their_names_are_not(slots: Slots) -> None:
    a, b = slots.tensor("a", ROW), slots.tensor("b", ROW * 2)
    assert await key_of("tag", ask(a, b)) == await key_of("tag", ask(b, a))
    assert await key_of("tag", ask(a, b)) != await key_of("tag", ask(replace(a, name="b"), replace(b, name="a")))


async def test_all_that_the_model_sees_makes_a_difference(slots: Slots) -> None:
    x = slots.tensor("x", ROW)
    requests = [
        ask(x),
        ask(replace(x, shape=(4, 1))),
        ask(replace(x, datatype=DataType.INT32)),
        ask(replace(x, name="y")),
        ask(slots.tensor("x", -ROW)),
        ask(x, x),
        ask(x, decode=True),
        ask(x, outputs=("a",)),
        ask(x, outputs=("a", "b")),
        ask(x, parameters={"n": 1}),
        ask(x, parameters={"n": 1.0}),
        ask(x, parameters={"n": True}),
        ask(x, parameters={"n": "1"}),
        ask(replace(x, shape=(1, 2), nbytes=8), replace(x, shape=(1, 2), start=8, nbytes=8)),
    ]
    keys = [await key_of("tag", request) for request in requests] + [await key_of("gat", requests[0])]
    assert len(set(keys)) == len(keys)


async def test_a_negative_zero_is_not_zero(slots: Slots) -> None:
    zeros = numpy.zeros((1, 4), numpy.float32)
    assert await key_of("tag", ask(slots.tensor("x", zeros))) != await key_of("tag", ask(slots.tensor("x", -zeros)))


async def test_large_inputs_are_hashed_beside_the_loop_to_the_same_kind_of_key(slots: Slots) -> None:
    large = numpy.arange(1 << 20, dtype=numpy.float32)
    one, other = slots.tensor("x", large), slots.tensor("x", large)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    first = await key_of("tag", ask(one))
    ticking.cancel()
    assert ticks > 1
    assert first == await key_of("tag", ask(other))


async def test_a_caller_who_leaves_leaves_the_tensors_to_the_thread_that_reads_them(slots: Slots) -> None:
    x = slots.tensor("x", numpy.zeros(2 << 20, numpy.float32))
    work = asyncio.ensure_future(key_of("tag", ask(x)))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    slots.leases.remove(x.lease)
    x.lease.release()
    for _ in range(5000):
        if slots.arena.status()["slots"]:
            await asyncio.sleep(0.002)
    assert slots.arena.status()["slots"] == 0


# -- tags ---------------------------------------------------------------------------------------------------------------


def version(name: str, number: str = "1", sha256: str = "f", config: Any = None) -> Any:
    return Version(name, number, sha256, config if config is not None else EMPTY)


class Version:
    """As much of a Servable as a tag is made of."""

    platform = engine = "onnxruntime_onnx"

    def __init__(self, name: str, number: str, sha256: str, config: Any) -> None:
        self.name, self.version, self.sha256, self.config = name, number, sha256, config


def config_of(folder: Path, text: str) -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)
    return load_model_config(folder)


def no_lookup(name: str, number: Any = None) -> Any:
    raise errors.ModelNotFound(name)


def test_a_version_has_a_tag_once_its_files_are_known_and_another_file_or_setting_is_another_tag() -> None:
    tags = Tags(no_lookup)
    versions = [
        (version("m"), "files"),
        (version("m", sha256="g"), "files"),
        (version("m", "2"), "files"),
        (version("n"), "files"),
        (version("m"), "other files"),
        (version("m", config=ModelConfig(max_batch_size=3)), "files"),
        (version("m", config=EMPTY.read_beside(("cat",), ())), "files"),
    ]
    assert tags.of(versions[0][0]) is None
    for one, files in versions:
        tags.loaded(one, files)
    found = [tags.of(one) for one, _ in versions]
    assert len(set(found)) == len(versions)
    again = version("m")
    tags.loaded(again, "files")
    assert tags.of(again) == found[0]


async def test_a_key_shows_its_tag(slots: Slots) -> None:
    tags = Tags(no_lookup)
    one = version("m")
    tags.loaded(one, "files")
    assert tag_of(await key_of(str(tags.of(one)), ask(slots.tensor("x", ROW)))) == tags.of(one)


def ensemble(folder: Path) -> Any:
    text = """
max_batch_size = 8
input = [{ name = "in", data_type = "TYPE_FP32", dims = [4] }]
output = [{ name = "out", data_type = "TYPE_FP32", dims = [4] }]
[[ensemble_scheduling.step]]
model_name = "step"
input_map = { x = "in" }
output_map = { y = "out" }
"""
    return version("pair", config=config_of(folder, text))


def test_the_tag_of_an_ensemble_changes_with_the_models_that_it_calls(tmp_path: Path) -> None:
    step: List[Any] = [version("step")]
    asked: List[Tuple[str, Any]] = []

    def lookup(name: str, number: Any = None) -> Any:
        asked.append((name, number))
        return step[0]

    tags, whole = Tags(lookup), ensemble(tmp_path / "pair")
    assert tags.of(whole) is None
    tags.loaded(step[0], "files")
    first = tags.of(whole)
    assert first is not None
    assert asked[-1] == ("step", None)
    step[0] = version("step", sha256="new")
    tags.loaded(step[0], "files")
    assert tags.of(whole) not in (None, first)


def test_files_beside_the_model_make_a_difference_and_the_model_file_and_caches_do_not(tmp_path: Path) -> None:
    model = tmp_path / "m" / "1" / "model.onnx"
    (model.parent / "__pycache__").mkdir(parents=True)
    model.write_bytes(b"model")
    (tmp_path / "m" / "labels.txt").write_text("cat\n")
    first = digest_beside(model)
    model.write_bytes(b"other")
    (model.parent / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert digest_beside(model) == first
    (tmp_path / "m" / "labels.txt").write_text("dog\n")
    second = digest_beside(model)
    (model.parent / "weights.bin").write_bytes(b"\0" * (2 << 20))
    assert len({first, second, digest_beside(model)}) == 3
