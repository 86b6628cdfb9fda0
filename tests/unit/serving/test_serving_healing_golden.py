"""Golden files as they are read, and whether they are a model's."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, Dict, NamedTuple, Tuple

import numpy
import pytest

from edge_agent import errors
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.serving.healing.golden import golden, misfit
from edge_agent.serving.healing.samples import Sample


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
    fails("cannot be used")
    numpy.savez(str(model / "golden/outputs.npz"), y=numpy.array([{}], dtype=object))
    fails("cannot be used")  # objects are code, which is not run


def test_golden_files_without_arrays_compare_nothing_and_say_so(model: Path) -> None:
    numpy.savez(str(model / "golden/inputs.npz"), x=numpy.zeros((1, 4)))
    numpy.savez(str(model / "golden/outputs.npz"))
    with pytest.raises(errors.EngineLoadError, match="outputs.npz cannot be used: it holds no arrays"):
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
        ({"x": (2, 4)}, {"y": (2, 5)}, "golden inputs.npz: output 'y' has the shape [2, 4], not [2, 5]"),
        ({"x": (2, 4)}, {"y": (3, 4)}, "golden inputs.npz: output 'y' has the shape [2, 4], not [3, 4]"),
        ({"x": (2, 4)}, {"y": (2, 4, 1)}, "golden inputs.npz: output 'y' has the shape [2, 4], not [2, 4, 1]"),
        ({"x": (8, 4)}, {"y": (8, 4)}, ""),
        ({"x": (8, 4)}, {}, ""),
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


def shortened(path: Path) -> None:
    numpy.savez_compressed(str(path), y=numpy.arange(4096).reshape(1, -1))
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(200)
    path.write_bytes(bytes(data))


def claiming_too_much(path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846975,), }"
    member = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n"
    with zipfile.ZipFile(str(path), "w") as archive:
        archive.writestr("y.npy", member)


def without_sense(path: Path) -> None:
    with zipfile.ZipFile(str(path), "w") as archive:
        archive.writestr("y.npy", b"\x93NUMPY\x01\x00\x04\x00((((")


def pipe(path: Path) -> None:
    os.mkfifo(str(path))


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [shortened, claiming_too_much, without_sense, pipe, folder])
def test_whatever_is_wrong_with_a_file_is_told_as_that(model: Path, make: Any) -> None:
    numpy.savez(str(model / "golden/inputs.npz"), x=numpy.zeros((1, 4)))
    make(model / "golden/outputs.npz")
    with pytest.raises(errors.EngineLoadError, match="outputs.npz cannot be ") as caught:
        golden(model / "golden", model)
    assert caught.value.args_by_name["code"] == "engine.golden_unreadable"


@pytest.mark.parametrize("array", [numpy.array([["a", "b"]]), numpy.array([[b"a", b"b"]]), numpy.zeros((1, 2), complex)])
def test_arrays_that_are_no_numbers_are_of_no_model_that_takes_or_gives_numbers(array: Any) -> None:
    x, y = (TensorSpec(name, DataType.FP32, (-1, 2)) for name in "xy")
    good = numpy.zeros((1, 2))
    taker = Taker((x,), (y,), 0)
    assert "output 'y' is FP32, and the arrays are of type" in misfit([Sample("s", {"x": good}, {"y": array})], taker)
    assert "input 'x' is FP32, and the arrays are of type" in misfit([Sample("s", {"x": array}, {"y": good})], taker)


def test_an_array_without_dimensions_stays_one(model: Path) -> None:
    numpy.savez(str(model / "golden/inputs.npz"), x=numpy.float32(3))
    numpy.savez(str(model / "golden/outputs.npz"), y=numpy.float32(4))
    (sample,) = golden(model / "golden", model)
    assert sample.inputs["x"].shape == ()
    x, y = (TensorSpec(name, DataType.FP32, ()) for name in "xy")
    assert misfit([sample], Taker((x,), (y,), 0)) == ""
