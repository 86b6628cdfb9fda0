"""What `check` finds in golden files, profiles and plans, before they fail where it matters."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any, Callable, Tuple

import numpy
import pytest

from edge_agent.cli import check
from tests.fake_gpu import make_plan
from tests.serving_rig import MODELS

Check = Callable[[str], Tuple[int, str, str]]

PLAN = "platform = 'tensorrt_plan'\nmax_batch_size = 8\n"
GOLDEN = PLAN + "[accept]\ngolden = 'golden'\n"
ZEROS, ONES = numpy.zeros((2, 4), numpy.float32), numpy.ones((2, 4), numpy.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "models/face/1").mkdir(parents=True)
    shutil.copy(str(MODELS / "add_one.onnx"), str(tmp_path / "models/face/1/model.onnx"))
    return tmp_path / "models/face"


@pytest.fixture
def run(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """With this config.toml."""

    def run(text: str) -> Tuple[int, str, str]:
        (model / "config.toml").write_text(text)
        file = tmp_path / "agent.toml"
        file.write_text('[agent]\nstate_dir = "state"\n[models]\nrepository = "models"\n')
        parser = argparse.ArgumentParser()
        check.add_arguments(parser)
        args = parser.parse_args([])
        args.config = file
        code = check.run(args)
        out, err = capsys.readouterr()
        return code, out, err

    return run


# -- profiles ---------------------------------------------------------------------------------------------------------


def profiled(*sizes: str) -> str:
    return PLAN + "[build]\nprofiles = [%s]\n" % ", ".join("{%s}" % one for one in sizes)


GOOD = "x={min=[1,4],opt=[4,4],max=[8,4]}"


@pytest.mark.parametrize("sizes", [GOOD, "x={min=[4],opt=[4],max=[4]}"], ids=["whole", "without the batch"])
def test_a_profile_of_the_models_sizes_is_good(run: Check, sizes: str) -> None:
    code, _, err = run(profiled(sizes))
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("profile", "path", "why"),
    [
        (GOOD + ",z={min=[1],opt=[1],max=[1]}", "profiles[1].z", "has no input 'z', only 'x'"),
        ("x={min=[1,5],opt=[4,5],max=[8,5]}", "profiles[1].x", "input 'x' has shape [-1, 4], [1, 5] does not fit it"),
        ("x={min=[1,4],opt=[4,4],max=[8,5]}", "profiles[1].x", "input 'x' has shape [-1, 4], [8, 5] does not fit it"),
        ("x={min=[1,4,1],opt=[1,4,1],max=[1,4,1]}", "profiles[1].x", "[1, 4, 1] does not fit it"),
        ("", "profiles[1]", "nobody says it in [build] profile 2"),
    ],
)
def test_a_profile_that_is_not_the_models_is_a_fault(run: Check, profile: str, path: str, why: str) -> None:
    code, _, err = run(profiled(GOOD, profile))
    assert code == 78
    assert "models.face.build.%s: " % path in err
    assert why in err
    assert err.endswith("1 fault\n")


def test_sizes_that_nobody_says_are_a_note(run: Check, model: Path) -> None:
    shutil.copy(str(MODELS / "add_one_any.onnx"), str(model / "1/model.onnx"))
    code, _, err = run(PLAN)
    assert code == 0
    assert "note: models.face.1: no plan can be built: input 'x' has shape [-1, -1]" in err
    assert run(PLAN + "[[input]]\nname = 'x'\ndata_type = 'TYPE_FP32'\ndims = [4]\n")[2] == ""


# -- golden files -----------------------------------------------------------------------------------------------------


def give(model: Path, inputs: Any, outputs: Any) -> None:
    (model / "golden").mkdir()
    numpy.savez(str(model / "golden/inputs.npz"), **inputs)
    numpy.savez(str(model / "golden/outputs.npz"), **outputs)


def test_golden_files_of_the_model_are_good(run: Check, model: Path) -> None:
    give(model, {"x": ZEROS}, {"y": ONES})
    code, _, err = run(GOLDEN)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("name", ["inputs.npz", "outputs.npz"])
@pytest.mark.parametrize("data", [b"", b"no archive"])
def test_golden_files_that_are_no_archives_are_a_fault(run: Check, model: Path, name: str, data: bytes) -> None:
    give(model, {"x": ZEROS}, {"y": ONES})
    (model / "golden" / name).write_bytes(data)
    code, _, err = run(GOLDEN)
    assert code == 78
    assert "models.face.accept.golden: " in err
    assert "%s cannot be used" % name in err


@pytest.mark.parametrize(
    ("inputs", "outputs", "why"),
    [
        ({"x": ZEROS}, {}, "outputs.npz cannot be used: it holds no arrays"),
        ({"z": ZEROS}, {"y": ONES}, "the inputs are x, not z, which does not fit version 1"),
        ({"x": ZEROS}, {"z": ONES}, "there is no output 'z', only y"),
        ({"x": ZEROS[:, :3]}, {"y": ONES}, "input 'x' has the shape [-1, 4], not [2, 3]"),
        ({"x": ZEROS}, {"y": numpy.ones((2, 5))}, "output 'y' has the shape [2, 4], not [2, 5]"),
        ({"x": ZEROS}, {"y": ONES[:1]}, "output 'y' has the shape [2, 4], not [1, 4]"),
        ({"x": ZEROS}, {"y": numpy.full((2, 4), "one")}, "output 'y' is FP32, and the arrays are of type"),
        ({"x": numpy.zeros((9, 4))}, {"y": numpy.ones((9, 4))}, "it has [9] rows, 1 to 8 are taken"),
    ],
)
def test_golden_files_that_are_not_the_models_are_a_fault(run: Check, model: Path, inputs: Any, outputs: Any, why: str) -> None:
    give(model, inputs, outputs)
    code, _, err = run(GOLDEN)
    assert code == 78
    assert "models.face.accept.golden: " in err
    assert why in err
    assert err.endswith("1 fault\n")


def test_an_empty_golden_folder_is_a_fault(run: Check, model: Path) -> None:
    (model / "golden").mkdir()
    code, _, err = run(GOLDEN)
    assert code == 78
    assert "models.face.accept.golden: " in err


# -- plans ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def alone(model: Path) -> Path:
    (model / "1/model.onnx").unlink()
    return model / "1/model.plan"


def test_a_plan_alone_that_looks_like_none_is_a_note(run: Check, alone: Path) -> None:
    make_plan(MODELS / "add_one.onnx", alone)
    code, _, err = run(PLAN)
    assert code == 0
    assert "note: models.face.1: %s does not look like a TensorRT plan; only TensorRT can tell" % alone in err
    alone.write_bytes(b"ftrt" + bytes(64))
    assert run(PLAN)[::2] == (0, "")


def test_what_golden_files_cannot_be_compared_with_is_a_note(run: Check, model: Path, alone: Path) -> None:
    alone.write_bytes(b"ftrt" + bytes(64))
    give(model, {"x": ZEROS}, {"y": ONES})
    code, _, err = run(GOLDEN)
    assert code == 0
    assert "note: models.face.accept.golden: whether it fits version 1 is not looked at" in err
