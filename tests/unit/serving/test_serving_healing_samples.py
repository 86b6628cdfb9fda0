"""What plans are tried on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, NamedTuple, Tuple

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.image import ImageConfig
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.serving.healing.samples import Sample, batch_sizes, golden, misfit, packed, packed_bytes, seeded, unpacked


def spec(datatype: str = "FP32", *shape: int, name: str = "x") -> TensorSpec:
    return TensorSpec(name, DataType(datatype), shape)


@pytest.mark.parametrize(
    ("largest", "sizes"), [(0, (1,)), (1, (1,)), (2, (1, 2)), (3, (1, 3)), (4, (1, 3, 4)), (8, (1, 5, 8)), (32, (1, 17, 32))]
)
def test_one_row_an_odd_number_and_the_most_are_tried(largest: int, sizes: Any) -> None:
    assert batch_sizes(largest) == sizes


def test_the_same_numbers_come_each_time() -> None:
    inputs = (spec("FP32", -1, 3), spec("INT64", -1, 2, name="i"))
    first, second = list(seeded(inputs, 4)), list(seeded(inputs, 4))
    assert [sample.name for sample in first] == ["1 row", "3 rows", "4 rows"]
    for one, other in zip(first, second):
        assert {name: array.shape[1:] for name, array in one.inputs.items()} == {"x": (3,), "i": (2,)}
        assert all(numpy.array_equal(one.inputs[name], other.inputs[name]) for name in one.inputs)


@pytest.mark.parametrize(
    ("datatype", "low", "high", "kind"),
    [
        ("FP32", 0, 1, "f"),
        ("FP16", 0, 1, "f"),
        ("UINT8", 0, 255, "u"),
        ("INT8", -128, 127, "i"),
        ("INT32", 0, 1, "i"),
        ("BOOL", 0, 1, "b"),
    ],
)
def test_numbers_lie_in_the_range_of_their_datatype(datatype: str, low: int, high: int, kind: str) -> None:
    (sample,) = seeded((spec(datatype, 64, 64),), 0)
    array = sample.inputs["x"]
    assert array.dtype.kind == kind
    assert low <= array.min() < array.max() <= high
    assert len(packed(array, DataType(datatype))) == packed_bytes(DataType(datatype), array.shape)


def test_pictures_have_the_range_that_their_preparation_gives() -> None:
    image = ImageConfig(scale=1.0, mean=(127.5,) * 3, std=(2.0,) * 3)
    (sample,) = seeded((spec("FP32", 3, 32, 32),), 0, image)
    array = sample.inputs["x"]
    assert -64 < array.min() < -55
    assert 55 < array.max() < 64


def test_open_sizes_are_those_of_the_plan_or_nobody_knows_them() -> None:
    inputs = (spec("FP32", -1, -1, 7),)
    sizes = [sample.inputs["x"].shape for sample in seeded(inputs, 2, sizes={"x": [1, 5, 7]})]
    assert sizes == [(1, 5, 7), (2, 5, 7)]
    with pytest.raises(errors.EngineLoadError, match="golden"):
        list(seeded(inputs, 2))


def test_large_pictures_are_tried_in_smaller_batches() -> None:
    sizes = [sample.inputs["x"].shape[0] for sample in seeded((spec("FP32", -1, 3, 1024, 1024),), 64)]
    assert sizes == [1, 3, 4]


def test_texts_are_not_made_up() -> None:
    with pytest.raises(errors.EngineLoadError, match="texts"):
        list(seeded((spec("BYTES", 1),), 0))


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "BF16", "FP64", "INT8", "UINT8", "INT32", "INT64", "BOOL"])
def test_what_is_packed_is_unpacked(datatype: str) -> None:
    array = numpy.array([[0, 1, 1], [1, 0, 1]], numpy.float32)
    data = packed(array, DataType(datatype))
    assert len(data) == packed_bytes(DataType(datatype), array.shape)
    assert numpy.array_equal(unpacked(memoryview(data), DataType(datatype), array.shape), array)


# -- golden -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model/golden").mkdir(parents=True)
    return tmp_path / "model"


def test_golden_pairs_are_found_by_their_names(model: Path) -> None:
    for prefix in ("", "night."):
        numpy.savez(str(model / "golden" / (prefix + "inputs.npz")), x=numpy.zeros((1, 4)))
        numpy.savez(str(model / "golden" / (prefix + "outputs.npz")), y=numpy.ones((1, 4)))
    samples = golden(model / "golden", model)
    assert [sample.name for sample in samples] == ["golden inputs.npz", "golden night.inputs.npz"]
    assert samples[0].expected is not None
    assert samples[0].expected["y"].tolist() == [[1, 1, 1, 1]]


def test_golden_files_that_cannot_be_used_say_so(tmp_path: Path, model: Path) -> None:
    def fails(match: str, folder: Path = model / "golden") -> None:
        with pytest.raises(errors.EngineLoadError, match=match):
            golden(folder, model)

    fails("0 pairs")
    fails("outside", tmp_path)
    fails("cannot be read", model / "none")
    numpy.savez(str(model / "golden/inputs.npz"), x=numpy.zeros(1))
    fails("cannot be read")  # its outputs are missing
    (model / "golden/outputs.npz").write_bytes(b"no archive")
    fails("cannot be read")
    numpy.savez(str(model / "golden/outputs.npz"), y=numpy.array([{}], dtype=object))
    fails("cannot be read")  # objects are code, which is not run


def test_golden_files_without_arrays_compare_nothing_and_say_so(model: Path) -> None:
    numpy.savez(str(model / "golden/inputs.npz"), x=numpy.zeros((1, 4)))
    numpy.savez(str(model / "golden/outputs.npz"))
    with pytest.raises(errors.EngineLoadError, match="outputs.npz holds no arrays"):
        golden(model / "golden", model)


class Taker(NamedTuple):
    inputs: Tuple[TensorSpec, ...]
    outputs: Tuple[TensorSpec, ...]
    max_batch_size: int


@pytest.mark.parametrize(
    ("inputs", "outputs", "why"),
    [
        ({"q": (1, 4)}, {"y": (1, 4)}, "golden inputs.npz: the inputs are x, not q"),
        ({"x": (1, 5)}, {"y": (1, 4)}, "golden inputs.npz: input 'x' has the shape [-1, 4], not [1, 5]"),
        ({"x": (0, 4)}, {"y": (0, 4)}, "golden inputs.npz: it has [0] rows, 1 to 8 are taken"),
        ({"x": (9, 4)}, {"y": (9, 4)}, "golden inputs.npz: it has [9] rows, 1 to 8 are taken"),
        ({"x": (1, 4)}, {"z": (1, 4)}, "golden inputs.npz: there is no output 'z', only y"),
        ({"x": (8, 4)}, {"y": (8, 4)}, ""),
    ],
)
def test_golden_arrays_that_cannot_be_of_something_say_why(inputs: Dict[str, Any], outputs: Dict[str, Any], why: str) -> None:
    sample = Sample(
        "golden inputs.npz", *({name: numpy.zeros(shape) for name, shape in one.items()} for one in (inputs, outputs))
    )
    x, y = (TensorSpec(name, DataType.FP32, (-1, 4)) for name in "xy")
    assert misfit([sample], Taker((x,), (y,), 8)) == why


def test_a_golden_folder_that_is_a_circle_of_links_says_so(model: Path) -> None:
    (model / "golden").rmdir()
    os.symlink("golden", str(model / "golden"))
    with pytest.raises(errors.EngineLoadError, match="golden") as caught:
        golden(model / "golden", model)
    assert caught.value.args_by_name["code"] == "engine.golden_unreadable"
