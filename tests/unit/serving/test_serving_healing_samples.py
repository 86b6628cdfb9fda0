"""What plans are tried on."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.image import ImageConfig
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.serving.healing.samples import batch_sizes, packed, packed_bytes, seeded, unpacked


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
