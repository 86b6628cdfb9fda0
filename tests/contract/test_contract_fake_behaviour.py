"""The fake TensorRT behaves as the real one does where the agent's code can tell."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from board import ADD_ONE, MODELS

from tests import gpu_models
from tests.fake_gpu import gpu_python, make_plan

BOTH_APIS = ("8.2", "8.6.1", "10.3.0", "11.4.0")


@pytest.mark.parametrize("version", BOTH_APIS)
def test_a_built_plan_computes_what_its_onnx_says(version: str, board: Any) -> None:
    here = board(version)
    plan = here.build(MODELS / "add_one.onnx", *ADD_ONE)
    engine = here.runtime.deserialize_cuda_engine(bytes(plan))
    given = np.arange(12).reshape(3, 4)
    assert np.array_equal(here.run(engine, given), given + 1)


def test_a_dynamic_input_without_a_profile_builds_nothing_and_says_why(board: Any) -> None:
    here = board()
    assert here.build(MODELS / "add_one.onnx") is None
    assert "no optimization profile has been defined" in here.lines[-1]


def test_an_unknown_operator_is_told_by_the_parser(board: Any, tmp_path: Path) -> None:
    here = board()
    assert here.build(gpu_models.unknown_operator(tmp_path / "m.onnx")) is None
    error = here.parser.get_error(0)
    assert (error.node_operator(), error.node_name()) == ("Frobnicate", "n_y")
    assert "Plugin not found" in error.desc()


def test_weights_in_another_file_become_part_of_the_plan(board: Any, tmp_path: Path) -> None:
    here = board()
    plan = here.build(gpu_models.external(tmp_path / "m.onnx"), *ADD_ONE)
    (tmp_path / "weights.bin").unlink()
    engine = here.runtime.deserialize_cuda_engine(plan)
    assert here.run(engine, np.zeros((2, 4))).tolist() == [[1, 2, 3, 4]] * 2


def test_precision_shows_in_the_outputs(board: Any) -> None:
    here = board()
    third = np.full((1, 4), 1 / 3)
    exact = here.run(here.engine(precision="fp32"), third)
    halved = here.run(here.engine(precision="fp16"), third)
    assert exact.tolist() != halved.tolist()
    assert halved.tolist() == exact.astype(np.float16).tolist()


def test_a_quantized_model_needs_the_flag_for_eight_bits(board: Any, tmp_path: Path) -> None:
    here = board()
    model = gpu_models.quantized(tmp_path / "m.onnx")
    assert here.build(model, *ADD_ONE) is None
    assert here.build(model, *ADD_ONE, flags=("INT8",)) is not None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": "10.3.1"}, "Version tag does not match"),
        ({"compute_capability": (7, 2)}, "incompatible device"),
    ],
)
def test_a_foreign_plan_is_none_and_the_log_says_why(fields: Any, words: str, board: Any) -> None:
    here = board()
    assert here.engine(**fields) is None
    assert words in here.lines[-1]


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data[:40], lambda data: b"", lambda data: data + b"x"])
def test_a_damaged_plan_is_none(spoil: Any, board: Any) -> None:
    here = board()
    data = Path(make_plan(MODELS / "add_one.onnx", here.folder / "p", profiles=ADD_ONE)).read_bytes()
    assert here.runtime.deserialize_cuda_engine(spoil(data)) is None


def test_a_shape_out_of_the_profile_is_refused(board: Any) -> None:
    here = board()
    context = here.engine().create_execution_context()
    assert context.set_input_shape("x", (9, 4)) is False
    assert "not in the range of profile 0" in here.lines[-1]


def test_before_10_two_contexts_do_not_share_a_profile(board: Any) -> None:
    here = board("8.5")
    engine = here.engine(profiles=ADD_ONE * 2)
    stream = here.cuda.Stream()
    first, second = engine.create_execution_context(), engine.create_execution_context()
    with pytest.raises(RuntimeError, match="Error in set optimization profile async"):
        second.set_optimization_profile_async(0, stream.handle)
    assert second.set_optimization_profile_async(1, stream.handle) is True
    del first
    assert second.set_optimization_profile_async(0, stream.handle) is True


def test_with_profiles_the_bindings_come_again(board: Any) -> None:
    here = board("8.2")
    engine = here.engine(profiles=ADD_ONE * 2)
    assert [engine.get_binding_name(index) for index in range(engine.num_bindings)] == [
        "x",
        "y",
        "x [profile 1]",
        "y [profile 1]",
    ]


def test_an_output_whose_size_only_the_run_tells_goes_to_its_allocator(board: Any) -> None:
    here = board("8.5")
    engine = here.engine(MODELS / "nonzero.onnx", profiles=[{"x": ((1,), (4,), (8,))}])
    context = engine.create_execution_context()
    context.set_input_shape("x", (5,))
    assert tuple(context.get_tensor_shape("where")) == (1, -1)
    told: List[Any] = []

    class Allocator(here.trt.IOutputAllocator):  # type: ignore[misc, name-defined]
        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
            self.memory = here.cuda.mem_alloc(size)
            return int(self.memory)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            told.append((tensor_name, tuple(shape)))

    allocator, stream = Allocator(), here.cuda.Stream()
    ((x, on_x),) = here.memory((5,))
    x[:] = [0, 1, 0, 2, 3]
    here.cuda.memcpy_htod_async(on_x, x, stream)
    context.set_tensor_address("x", int(on_x))
    context.set_output_allocator("where", allocator)
    assert context.execute_async_v3(stream.handle)
    assert told == [("where", (1, 3))]
    assert engine.get_tensor_dtype("where") == here.trt.int32  # there is no INT64 before 10
    assert np.frombuffer(ctypes.string_at(int(allocator.memory), 12), np.int32).tolist() == [1, 3, 4]


def test_inputs_that_say_sizes_lie_on_the_host(board: Any, tmp_path: Path) -> None:
    here = board()
    model = gpu_models.tiled(tmp_path / "m.onnx")
    engine = here.engine(
        model,
        profiles=[{"x": ((1, 4), (2, 4), (8, 4)), "repeats": ((2,), (2,), (2,))}],
        values=[{"repeats": [[1, 1], [2, 1], [3, 3]]}],
    )
    context = engine.create_execution_context()
    assert engine.get_tensor_location("repeats") == here.trt.TensorLocation.HOST
    context.set_input_shape("x", (2, 4))
    assert context.infer_shapes() == ["repeats"]
    repeats = np.array([2, 3], np.int64)
    context.set_tensor_address("repeats", repeats.ctypes.data)
    assert context.infer_shapes() == []
    assert tuple(context.get_tensor_shape("y")) == (4, 12)
    repeats[:] = 9
    for name in ("x", "y"):
        context.set_tensor_address(name, int(here.cuda.mem_alloc(4096)))
    assert context.execute_async_v3(here.cuda.Stream().handle) is False
    assert "not in the profile's range" in here.lines[-1]


INFERS = """
import sys, tensorrt
log = tensorrt.Logger()
engine = tensorrt.Runtime(log).deserialize_cuda_engine(open(sys.argv[1], "rb").read())
context = engine.create_execution_context()
print(context.set_input_shape("a", (2, 2)), context.set_input_shape("b", (3, 2)))
shape = context.get_tensor_shape(engine.get_tensor_name(2))
print([int(size) for size in shape])
try:
    len(shape)
except ValueError as error:
    print(error)
sys.stdout.flush()
try:
    context.infer_shapes()
except RuntimeError as error:
    print("raised")
"""


@pytest.mark.parametrize(("version", "code"), [("8.5", -11), ("8.6.1", 0), ("10.3.0", 0)])
def test_shapes_that_do_not_go_together_have_no_dimensions_and_are_not_to_be_inferred(
    version: str, code: int, tmp_path: Path
) -> None:
    either = ((1, 2), (4, 2), (8, 2))
    profiles = [{"a": either, "b": either}]
    plan = make_plan(MODELS / "sum_and_difference.onnx", tmp_path / "p", version=version, profiles=profiles)
    python = gpu_python(tmp_path, version=version)
    done = subprocess.run([python, "-I", "-c", INFERS, str(plan)], capture_output=True, text=True, timeout=60, check=False)
    lines = ["True True", "[]", "__len__() should return >= 0"] + ([] if code else ["raised"])
    assert done.stdout.split("\n")[:-1] == lines
    assert done.returncode == code
    assert code or "do not go together" in done.stderr


def test_by_bindings_they_have_no_dimensions_either_and_the_run_is_refused(board: Any) -> None:
    here = board("8.2")
    either = ((1, 2), (4, 2), (8, 2))
    engine = here.engine(MODELS / "sum_and_difference.onnx", profiles=[{"a": either, "b": either}])
    context, stream = engine.create_execution_context(), here.cuda.Stream()
    assert context.set_binding_shape(0, (2, 2))
    assert context.set_binding_shape(1, (3, 2))
    assert context.all_binding_shapes_specified
    assert [int(size) for size in context.get_binding_shape(2)] == []
    memory = [int(here.cuda.mem_alloc(4096)) for _ in range(engine.num_bindings)]
    assert not context.execute_async_v2(memory, stream.handle)
    stream.synchronize()


def test_only_the_first_context_has_a_profile_where_sizes_are_open(board: Any) -> None:
    here = board()
    engine = here.engine()
    first, second = engine.create_execution_context(), engine.create_execution_context()
    assert (first.active_optimization_profile, second.active_optimization_profile) == (0, -1)
    fixed = here.engine(MODELS / "add_one_fixed.onnx", profiles=[{"x": ((1, 4), (1, 4), (1, 4))}])
    assert [fixed.create_execution_context().active_optimization_profile for _ in range(2)] == [0, 0]


def test_bfloat16_is_two_bytes_of_each_number(board: Any) -> None:
    here = board()
    engine = here.engine(MODELS / "same_bf16.onnx", profiles=[{"x": ((1, 1), (1, 4), (8, 8))}])
    assert engine.get_tensor_dtype("x") == here.trt.DataType.BF16
    with pytest.raises(TypeError):
        here.trt.nptype(here.trt.DataType.BF16)
    context, stream = engine.create_execution_context(), here.cuda.Stream()
    x, y = (here.cuda.pagelocked_empty((2, 2), np.uint16) for _ in range(2))
    x[...] = [[0x3F80, 0x4000], [0xBF80, 0x3E80]]
    on_x, on_y = (here.cuda.mem_alloc(8) for _ in range(2))
    here.cuda.memcpy_htod_async(on_x, x, stream)
    assert here.enqueue(engine, context, (2, 2), (on_x, on_y), stream)
    here.cuda.memcpy_dtoh_async(y, on_y, stream)
    stream.synchronize()
    assert y.tolist() == x.tolist()


@pytest.mark.parametrize("version", ["10.3.0", "11.4.0"])
def test_an_attribute_that_the_generation_lacks_cannot_be_set(version: str, board: Any) -> None:
    here = board(version)
    config = here.trt.Builder(here.log).create_builder_config()
    with pytest.raises(AttributeError):
        config.max_workspace_size = 1
