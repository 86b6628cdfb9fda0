import numpy
import pytest

from edge_agent.engine_host.decoders import registry
from edge_agent.engine_host.decoders.decoder import DecodeError
from edge_agent.engine_host.tensors import Spec

OUTPUTS = [Spec("y", "FP32", (-1, 2))]


def make(directory, body, kind="python:mine:Mine", **config):
    text = "class Mine:\n    def __init__(self, config):\n        self.config = config\n    def decode(self, outputs):\n"
    (directory / "mine.py").write_text(text + "        " + body + "\n")
    return registry.make(dict(config, kind=kind), [], OUTPUTS, str(directory))


def answer(directory, body, rows=1, **config):
    return make(directory, body, **config).decode(
        {"y": numpy.arange(2 * rows, dtype=numpy.float32).reshape(rows, 2)}, rows, (8, 8)
    )


def test_it_gets_batched_arrays_and_its_configuration(tmp_path):
    body = "return [[{'label': self.config['labels'][0], 'score': row[1], 'box': None}] for row in outputs['y']]"
    assert answer(tmp_path, body, rows=2, labels=["cat"]) == [
        [{"label": "cat", "score": 1.0, "box": None}],
        [{"label": "cat", "score": 3.0, "box": None}],
    ]


def test_numbers_of_numpy_become_plain_and_other_fields_stay(tmp_path):
    body = (
        "y = outputs['y']; return [[{'label': 7, 'score': y[0, 1], 'box': (y[0, 0], 1, y[0, 1], 2), 'mean': y, 'n': y.sum()}]]"
    )
    ((found,),) = answer(tmp_path, body)
    assert found == {"label": "7", "score": 1.0, "box": [0.0, 1.0, 1.0, 2.0], "mean": [[0.0, 1.0]], "n": 1.0}
    assert type(found["n"]) is float


def test_scores_that_are_no_numbers_are_dropped_and_the_limit_holds(tmp_path):
    body = "return [[{'label': str(n), 'score': s} for n, s in enumerate([float('nan'), 1, 2, 3])]]"
    assert [found["label"] for found in answer(tmp_path, body, max_objects=2)[0]] == ["1", "2"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return []", "answered 0 lists for 1 pictures"),
        ("return [[{'label': 'x'}]]", "instead of"),
        ("return [['x']]", "instead of"),
        ("return [[{'label': 'x', 'score': 'high'}]]", "instead of"),
        ("return [[{'label': 'x', 'score': 1, 'box': [1, 2, 3]}]]", r"instead of \[x1, y1, x2, y2\]"),
        ("return [[{'label': 'x', 'score': 1, 'box': [1, 2, 3, float('inf')]}]]", r"instead of \[x1, y1, x2, y2\]"),
    ],
)
def test_an_answer_of_another_form_is_refused(tmp_path, body, says):
    with pytest.raises(DecodeError, match=says):
        answer(tmp_path, body)


def test_what_cannot_be_loaded_is_refused_with_file_and_line(tmp_path):
    with pytest.raises(DecodeError, match=r"mine\.py: .*\(line 6\)"):
        make(tmp_path, "return []\nraise ValueError('on import')")
    with pytest.raises(DecodeError, match="has no attribute 'Other'"):
        make(tmp_path, "return []", kind="python:mine:Other")
    with pytest.raises(DecodeError, match="needs the file .*nowhere.py"):
        make(tmp_path, "return []", kind="python:nowhere:Mine")
    for kind in ("python:", "python:mine", "python:../mine:Mine", "python:mine:Mi ne"):
        with pytest.raises(DecodeError, match="is not python:MODULE:CLASS"):
            make(tmp_path, "return []", kind=kind)


def test_a_changed_file_is_read_again(tmp_path):
    assert answer(tmp_path, "return [[]]") == [[]]
    assert answer(tmp_path, "return [[{'label': 'new', 'score': 1}]]")[0][0]["label"] == "new"


def test_no_kind_is_no_decoder():
    assert registry.make(None, [], OUTPUTS) is None
    assert registry.make({"kind": "none"}, [], OUTPUTS) is None
