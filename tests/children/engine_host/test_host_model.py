import pytest

from edge_agent.engine_host.model import LoadError, load, picture_size
from edge_agent.engine_host.onnx_engine import OnnxEngine


def test_a_loaded_model_tells_its_tensors_with_the_batch_dimension_open(order):
    _, reply = load(order("add_one"))
    assert reply["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert reply["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}]
    assert (reply["batched"], reply["max_batch_size"], reply["warnings"]) == (True, 8, [])
    assert reply["load_ms"] >= 0


def test_the_configuration_may_fix_sizes_that_the_file_leaves_open(order):
    dims = [{"name": "x", "datatype": "FP32", "shape": [7]}]
    assert load(order("add_one_any", inputs=dims))[1]["inputs"][0]["shape"] == [-1, 7]
    whole = [{"name": "x", "datatype": "FP32", "shape": [-1, 7]}]
    assert load(order("add_one_any", inputs=whole))[1]["inputs"][0]["shape"] == [-1, 7]


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"name": "z", "datatype": "FP32", "shape": [4]}, "no input 'z'; it has 'x'"),
        ({"name": "x", "datatype": "INT8", "shape": [4]}, "is FP32, the configuration says INT8"),
        ({"name": "x", "datatype": "FP32", "shape": [5]}, r"shape \[-1, 4\], the configuration says \[5\]"),
        ({"name": "x", "datatype": "FP32", "shape": [1, 2, 4]}, "the configuration says"),
    ],
)
def test_a_configuration_that_contradicts_the_file_is_refused(order, declared, says):
    with pytest.raises(LoadError, match=says):
        load(order("add_one", inputs=[declared]))


def test_a_graph_fixed_at_one_row_is_served_one_by_one_with_a_warning(order):
    model, reply = load(order("add_one_fixed"))
    assert (model.batched, reply["max_batch_size"]) == (True, 1)
    assert "add_one_fixed.onnx" in reply["warnings"][0]
    assert "dynamic batch dimension" in reply["warnings"][0]


def test_a_graph_that_is_fixed_within_is_found_by_the_warm_up(order):
    _, reply = load(order("add_one_half_dynamic"))
    assert reply["max_batch_size"] == 1
    assert "runs 1 row but not 8" in reply["warnings"][0]


@pytest.mark.parametrize(
    ("fields", "sizes"),
    [
        ({}, [1, 8]),
        ({"warmup_sizes": [4, 6, 8, 1, 16]}, [1, 8, 6, 4]),
        ({"warmup_sizes": [4], "max_batch_size": 0}, [1]),
        ({"warmup_sizes": [4], "warmup": False}, []),
    ],
)
def test_the_warm_up_runs_the_preferred_sizes_too(order, monkeypatch, fields, sizes):
    ran = []
    run = OnnxEngine.run
    monkeypatch.setattr(OnnxEngine, "run", lambda self, names, feeds: (ran.append(len(feeds["x"])), run(self, names, feeds))[1])
    name = "add_one_fixed" if fields.get("max_batch_size") == 0 else "add_one"
    _, reply = load(order(name, **fields))
    assert (ran, reply["warnings"]) == (sizes, [])


def test_a_graph_of_three_rows_is_refused_as_a_batch_and_served_whole(order):
    with pytest.raises(LoadError, match="exactly 3 rows"):
        load(order("add_one_three"))
    assert load(order("add_one_three", max_batch_size=0))[1]["inputs"][0]["shape"] == [3, 4]


def test_a_model_that_mixes_rows_is_refused_as_a_batch(order):
    with pytest.raises(LoadError, match="'y' has 1 rows for 8 rows of input.*max_batch_size = 0"):
        load(order("sum_of_batch"))
    assert load(order("sum_of_batch", max_batch_size=0))[1]["batched"] is False


def test_bad_files_are_refused_by_name(order, tmp_path):
    text = tmp_path / "text.onnx"
    text.write_text("this is no model")
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    with open(order("sum_and_difference")["path"], "rb") as whole:
        cut = tmp_path / "cut.onnx"
        cut.write_bytes(whole.read()[:60])
    cases = [
        (text, "ONNX Runtime"),
        (cut, "ONNX Runtime"),
        (empty, "is empty"),
        (tmp_path / "no.onnx", "No such file"),
        (tmp_path, "directory"),
    ]
    for path, says in cases:
        with pytest.raises(LoadError, match=says) as caught:
            load(order("add_one", path=str(path)))
        assert str(path) in str(caught.value)


def test_bfloat16_is_refused_by_name(order):
    with pytest.raises(LoadError, match="input 'x' is a tensor.bfloat16"):
        load(order("same_bf16"))


def test_another_platform_is_refused_with_what_there_is(order):
    with pytest.raises(LoadError, match="runs onnxruntime_onnx, python, tensorrt_plan, not openvino"):
        load(order("add_one", platform="openvino"))


def test_a_decoder_that_does_not_fit_is_refused_at_load(order):
    with pytest.raises(LoadError, match="kind 'centerface' reads outputs of 1, 2, 2 and 10"):
        load(order("mean_colour", decode={"kind": "centerface"}))
    with pytest.raises(LoadError, match="kind 'magic' is unknown"):
        load(order("mean_colour", decode={"kind": "magic"}))


def test_a_decoder_of_ones_own_that_fails_is_found_by_the_warm_up(order, tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    def __init__(self, config):\n        pass\n"
        "    def decode(self, outputs):\n        return outputs['scors']\n"
    )
    with pytest.raises(LoadError, match="failed on zeros: KeyError: 'scors'"):
        load(order("mean_colour", directory=str(tmp_path), decode={"kind": "python:mine:Mine"}))


@pytest.mark.parametrize(
    ("shape", "size"),
    [((1, 3, 480, 640), (480, 640)), ((1, 480, 640, 3), (480, 640)), ((1, 1, 28, 30), (28, 30)), ((3, 20, 10), (20, 10))],
)
def test_the_size_of_a_picture_is_read_from_either_layout(shape, size):
    assert picture_size(shape) == size
