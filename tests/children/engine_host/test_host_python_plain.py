"""Python models of the agent's own kind."""

import json
import sys

import numpy
import pytest

from edge_agent.engine_host import wire
from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.model import load

DOUBLES = """
class Model:
    def load(self, config):
        self.factor = float(config["parameters"]["factor"]["string_value"]) if config.get("parameters") else 2.0

    def infer(self, inputs):
        self.seen = inputs["x"].shape
        inputs["x"] *= self.factor
        return {"y": inputs["x"]}
"""


def infers(body, head=""):
    return head + "\nclass Model:\n    def infer(self, inputs):\n        " + body + "\n"


def row(*values):
    return numpy.array([values], numpy.float32)


def failure_of(answer):
    assert answer.status == wire.FAILED
    return json.loads(answer.text.decode())["text"]


def test_requests_of_a_batch_come_as_one_array_and_go_apart(python_bench):
    b = python_bench(DOUBLES)
    one, two = b.run(b.request(row(1, 2, 3, 4)), b.request(numpy.ones((2, 4), numpy.float32), room=1))
    assert b.arena.read(one.outputs[0]).tolist() == [[2, 4, 6, 8]]
    assert b.arena.read(two.outputs[0]).tolist() == [[2] * 4] * 2
    assert b.model.engine._model.seen == (3, 4)


def test_what_a_model_does_to_its_input_stays_its_own(python_bench):
    b = python_bench(DOUBLES)
    request = b.request(row(1, 2, 3, 4))
    b.run(request)
    assert b.arena.read(request.inputs[0]).tolist() == [[1, 2, 3, 4]]


def test_the_configuration_reaches_the_model(python_bench):
    config = json.dumps({"name": "pm", "parameters": {"factor": {"string_value": "5"}}})
    b = python_bench(DOUBLES, config_json=config)
    (answer,) = b.run(b.request(row(1, 2, 3, 4)))
    assert b.arena.read(answer.outputs[0]).tolist() == [[5, 10, 15, 20]]


def test_a_model_without_a_batch_dimension_gets_its_tensors_as_they_are(python_bench):
    shape = [{"name": "x", "datatype": "FP32", "shape": [4]}], [{"name": "y", "datatype": "FP32", "shape": [4]}]
    b = python_bench(DOUBLES, max_batch_size=0, inputs=shape[0], outputs=shape[1])
    (answer,) = b.run(b.request(numpy.ones(4, numpy.float32), rows=1))
    assert b.arena.read(answer.outputs[0]).tolist() == [2, 2, 2, 2]


def test_lists_and_plain_numbers_become_the_configured_type(python_bench):
    b = python_bench(infers("return {'y': [[1, 2, 3, 4]]}"))
    (answer,) = b.run(b.request(row(0, 0, 0, 0)))
    assert b.arena.read(answer.outputs[0]).dtype == numpy.float32


STRINGS = {
    "inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1, -1]}],
    "outputs": [{"name": "y", "datatype": "BYTES", "shape": [-1, -1]}],
}


def test_strings_come_as_bytes_whatever_is_in_them(python_bench):
    text = infers("assert inputs['x'].dtype == object\n        return {'y': inputs['x'] + b'!'}")
    b = python_bench(text, **STRINGS)
    array = numpy.array([[b"\xff\x00", b""]], object)
    (answer,) = b.run(b.request(array, datatype="BYTES"))
    view = b.arena.views.view(answer.outputs[0].segment, answer.outputs[0].offset, answer.outputs[0].nbytes)
    assert bytes(view) == b"\x03\x00\x00\x00\xff\x00!\x01\x00\x00\x00!"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return {'z': inputs['x']}", "gave no output 'y', only z"),
        ("return {}", "gave no output 'y', only nothing"),
        ("return None", "gave NoneType instead of a dict"),
        ("return {'y': inputs['x'].astype('f8')}", "'y' is float64, the configuration says FP32"),
        ("return {'y': inputs['x'][:, :3]}", r"'y' has shape [1, 3], the configuration says [-1, 4]"),
        ("return {'y': inputs['x'].repeat(2, 0)}", "'y' has 2 rows for 1 rows"),
        ("return {'y': 'text'}", "'y' is <U4, the configuration says FP32"),
        ("raise ValueError('sixteen')", "ValueError: sixteen (model.py line 4)"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
    ],
)
def test_a_bad_answer_says_what_is_wrong_and_the_next_is_answered(python_bench, body, says):
    b = python_bench(infers("if inputs['x'][0, 0] == 9:\n            return {'y': inputs['x']}\n        " + body))
    (answer,) = b.run(b.request(row(1, 1, 1, 1)))
    assert says.replace("line 4", "line 6") in failure_of(answer)
    (answer,) = b.run(b.request(row(9, 1, 1, 1)))
    assert answer.status == wire.OK


def test_what_a_model_raised_goes_to_the_log_whole(python_bench, capfd):
    b = python_bench(infers("raise ValueError('sixteen')"))
    b.run(b.request(row(1, 1, 1, 1)))
    assert "Traceback" in capfd.readouterr()[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "has neither a class Model nor a class TritonPythonModel"),
        ("class Model:\n    pass\n", "class Model has no method infer"),
        ("def broken(:\n", "cannot read it: invalid syntax"),
        ("import no_such_thing\n", r"No module named 'no_such_thing' (model.py line 1)"),
        ("class Model:\n    def load(self, config):\n        raise KeyError('weights')\n    infer = None\n", "no method infer"),
        (
            infers("pass") + "    def load(self, config):\n        raise KeyError('weights')\n",
            "KeyError: 'weights' (model.py line 6)",
        ),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
    ],
)
def test_a_model_that_cannot_be_loaded_says_why(order_of, text, says):
    order = order_of(text)
    with pytest.raises(LoadError) as caught:
        load(order)
    assert order["path"] in str(caught.value)
    assert says in str(caught.value)


def test_a_model_needs_its_tensors_configured(order_of):
    with pytest.raises(LoadError, match="names no output; a Python model needs each"):
        load(order_of(infers("return {}"), outputs=[]))


def test_a_missing_file_is_named(order_of, tmp_path):
    with pytest.raises(LoadError, match=r"gone\.py: cannot be read: No such file"):
        load(order_of("", path=str(tmp_path / "gone.py")))


def test_modules_beside_the_model_are_its_own_and_the_repository_stays_clean(order_of, tmp_path):
    text = infers("return {'y': inputs['x'] + beside.ADDS}", "import beside")
    models = []
    for name, adds in (("one", 1), ("two", 2)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "beside.py").write_text("ADDS = %d\n" % adds)
        (folder / "model.py").write_text(text)
        models.append(load(order_of(text, path=str(folder / "model.py"), directory=str(folder)))[0])
    found = [model.engine.run(["y"], {"x": row(0, 0, 0, 0)})[0][0, 0] for model in models]
    assert found == [1, 2]
    assert "beside" not in sys.modules
    assert list(tmp_path.glob("**/__pycache__")) == []
    assert not [entry for entry in sys.path if entry.startswith(str(tmp_path))]


def placed(order_of, folder, text, **files):
    """The model of `text` with files beside it, loaded."""
    for name, content in dict(files, model=text).items():
        path = folder / (name.replace("__of__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return load(order_of(text, path=str(folder / "model.py"), directory=str(folder)))[0]


def y_of(model):
    return model.engine.run(["y"], {"x": row(0, 0, 0, 0)})[0][0, 0]


@pytest.mark.parametrize(
    "statement",
    [
        "from beside import ADDS",
        "import beside; ADDS = beside.ADDS",
        "import pack.inner; ADDS = pack.inner.ADDS",
        "import pack.inner as own; ADDS = own.ADDS",
        "from pack import inner; ADDS = inner.ADDS",
        "from pack.inner import ADDS",
        "import pickle, beside; ADDS = pickle.loads(pickle.dumps(beside.Kept())).value",
    ],
)
def test_what_is_imported_while_a_model_runs_is_its_own_too(order_of, tmp_path, statement):
    models = []
    for adds in (1, 2):
        files = {
            "beside": "ADDS = %d\nclass Kept:\n    value = ADDS\n" % adds,
            "pack__of____init__": "",
            "pack__of__inner": "from .far import ADDS",
            "pack__of__far": "def late():\n    import beside\n    return beside.ADDS\nADDS = late()",
        }
        text = infers(statement + "; return {'y': inputs['x'] + ADDS}")
        models.append(placed(order_of, tmp_path / str(adds), text, **files))
    assert [y_of(model) for model in models] == [1, 2]
    models[0].engine.close()
    assert y_of(models[1]) == 2


def test_an_import_does_not_touch_the_models_own_names(order_of, tmp_path):
    text = infers("from beside import ADDS; return {'y': inputs['x'] + ADDS + beside}", "beside = 10")
    assert y_of(placed(order_of, tmp_path, text, beside="ADDS = 1")) == 11


def test_a_folder_beside_a_model_hides_no_module(order_of, tmp_path):
    (tmp_path / "wave").mkdir()  # a module of the standard library that nothing here imports
    text = infers("import wave; return {'y': inputs['x'] + (wave.open is not None)}")
    assert y_of(placed(order_of, tmp_path, text)) == 1


def test_a_model_that_is_gone_leaves_no_module_and_its_successor_reads_the_modules_anew(order_of, tmp_path):
    before = set(sys.modules)
    text = infers("import beside; return {'y': inputs['x'] + beside.ADDS}")
    for adds in (1, 2):  # of the same length, within the same second
        model = placed(order_of, tmp_path, text, beside="ADDS = %d" % adds)
        assert y_of(model) == adds
        model.engine.close()
        assert not [name for name in set(sys.modules) - before if name.startswith("edge_agent_model_")]
    with pytest.raises(LoadError):
        placed(order_of, tmp_path, "import beside\nraise ValueError(beside)", beside="ADDS = 3")
    assert not [name for name in set(sys.modules) - before if name.startswith("edge_agent_model_")]


def test_a_reload_sees_the_new_text(order_of):
    values = [load(order_of(infers("return {'y': inputs['x'] + %d}" % n)))[0] for n in (1, 2)]
    assert [model.engine.run(["y"], {"x": row(0, 0, 0, 0)})[0][0, 0] for model in values] == [1, 2]


def test_unloading_tells_the_model(order_of, tmp_path):
    mark = tmp_path / "mark"
    text = infers("return {}") + "    def unload(self):\n        open(%r, 'w').close()\n" % str(mark)
    model, _ = load(order_of(text))
    model.engine.close()
    assert mark.exists()
    model.engine.close()
