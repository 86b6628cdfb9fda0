"""The agent's builder code on the real parser and builder of TensorRT-RTX, and on the fake, which must say the same.

RTX needs no GPU. It runs only where `.venvs/rtx` is there already, or with EDGE_AGENT_TEST_RTX=1, which makes it (a download of
90 MB). Its API is that of TensorRT 10 and 11; networks are strongly typed, as in 11.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import pytest
from bindings import RTX, Unavailable, folder_of, python_of

from tests import gpu_models
from tests.fake_gpu import gpu_python

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
PATIENCE_S = 120

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=[pytest.param("rtx", marks=pytest.mark.rtx), "fake"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tuple[Path, str]:
    """An interpreter, and the module in it."""
    if request.param == "fake":
        return Path(gpu_python(tmp_path_factory.mktemp("fake"), version="11.4.0")), "tensorrt"
    if not (folder_of(RTX) / "stamp").exists() and os.environ.get("EDGE_AGENT_TEST_RTX") != "1":
        pytest.skip("TensorRT-RTX is not here (.venvs/rtx); EDGE_AGENT_TEST_RTX=1 fetches it")
    try:
        return python_of(RTX), "tensorrt_rtx_bindings"
    except Unavailable as error:
        pytest.skip(f"TensorRT-RTX cannot be had: {error}")


@pytest.fixture
def build(library: Tuple[Path, str], tmp_path: Path) -> Callable[..., Dict[str, Any]]:
    """Builds a model; the builder's answer, with `plan`, the bytes of the plan or None."""

    def run(model: Callable[[Path], Any], **fields: Any) -> Dict[str, Any]:
        plan = tmp_path / "plan"
        order = {
            "onnx": str(model(tmp_path / "model.onnx")),
            "output": str(plan),
            "precision": "fp32",
            "workspaces": [256 << 20, 64 << 20],
            "larger_workspace": 512 << 20,
            "memory_short": False,
            "max_batch_size": 8,
            "usual_batch_size": 4,
            "profiles": [],
            "inputs": [],
            "dla_core": -1,
            "strongly_typed": False,
            "calibration": "",
            "timing_cache": str(tmp_path / "timing"),
            "timing_temporary": str(tmp_path / "timing.new"),
            "optimization_level": None,
            "expected_s": 0,
        }
        (tmp_path / "order.json").write_text(json.dumps({**order, **fields}))
        python, module = library
        subprocess.run([str(python), "-I", str(HERE / "one_build.py"), module, str(tmp_path)], check=True, timeout=PATIENCE_S)
        answer: Dict[str, Any] = json.loads((tmp_path / "answer.json").read_text())
        answer["plan"] = plan.read_bytes() if plan.exists() else None
        return answer

    return run


def add_one(path: Path) -> Path:
    """The model that everything else is tested with."""
    return Path(shutil.copy(str(MODELS / "add_one.onnx"), str(path)))


def open_sizes(path: Path) -> Any:
    """A convolution that takes pictures of any size."""
    return gpu_models.convolution(path, side=None)


@pytest.mark.parametrize("model", [add_one, gpu_models.convolution, gpu_models.external])
def test_a_dynamic_batch_gets_a_derived_profile_and_a_plan(model: Any, build: Any) -> None:
    answer = build(model)
    (profile,) = answer["report"]["profiles"]
    assert [profile["x"][key][0] for key in ("min", "opt", "max")] == [1, 4, 8]
    assert answer["plan"]
    assert [tensor["name"] for tensor in answer["report"]["io"]] == ["x", "y"]


def test_given_profiles_are_built(build: Any) -> None:
    profiles = [{"x": {"min": [1, 3, side, side], "opt": [2, 3, side, side], "max": [4, 3, side, side]}} for side in (16, 32)]
    answer = build(open_sizes, profiles=profiles)
    assert answer["report"]["profiles"] == profiles
    assert answer["plan"]


def test_a_size_that_nobody_tells_is_asked_for_by_name(build: Any) -> None:
    answer = build(open_sizes)
    assert (answer["code"], answer["permanent"], answer["plan"]) == ("build.no_profile", True, None)
    assert "'x'" in answer["text"]
    assert "profiles = [{ x = { min = [1, 3," in answer["text"]


def test_an_input_whose_values_are_sizes_is_recognised(build: Any) -> None:
    answer = build(gpu_models.tiled)
    assert (answer["code"], answer["plan"]) == ("build.no_profile", None)
    assert "'repeats'" in answer["text"]
    ranges = {"x": {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}, "repeats": {"min": [1, 1], "opt": [2, 2], "max": [4, 4]}}
    assert build(gpu_models.tiled, profiles=[ranges])["plan"]


def test_a_profile_that_does_not_fit_the_network_is_refused(build: Any) -> None:
    profile = {"x": {"min": [1, 5], "opt": [2, 5], "max": [4, 5]}}
    answer = build(add_one, profiles=[profile])
    assert (answer["code"], answer["permanent"], answer["plan"]) == ("build.no_profile", True, None)


def spoiled(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """add_one with its bytes changed."""

    def write(path: Path) -> Path:
        path.write_bytes(change((MODELS / "add_one.onnx").read_bytes()))
        return path

    return write


BAD_FILES = {
    "garbage": gpu_models.garbage,
    "cut off": spoiled(lambda data: data[: len(data) // 2]),
    "empty": spoiled(lambda data: b""),
    "a web page": spoiled(lambda data: b"<html><body>404</body></html>"),
    "zeros": spoiled(lambda data: bytes(len(data))),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_model_is_told_and_not_tried_again(name: str, build: Any) -> None:
    answer = build(BAD_FILES[name])
    assert (answer["code"], answer["permanent"], answer["plan"]) == ("build.parse_failed", True, None)


def test_an_operator_that_nobody_knows_is_named(build: Any) -> None:
    answer = build(gpu_models.unknown_operator)
    assert (answer["code"], answer["permanent"], answer["plan"]) == ("build.unsupported_operator", True, None)
    assert "Frobnicate" in answer["text"]
    assert "Plugin not found" in answer["text"]


def test_a_model_with_quantize_nodes_builds_as_int8(build: Any) -> None:
    answer = build(gpu_models.quantized, precision="int8")
    assert answer["report"]["strongly_typed"] is True
    assert answer["plan"]


def test_a_model_in_half_precision_builds_as_fp16(build: Any) -> None:
    assert build(gpu_models.half, precision="fp16")["plan"]


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_a_precision_that_the_model_itself_does_not_have_is_refused(precision: str, build: Any) -> None:
    answer = build(gpu_models.convolution, precision=precision)
    assert (answer["code"], answer["permanent"], answer["plan"]) == ("build.precision_unsupported", True, None)
