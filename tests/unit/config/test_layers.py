from __future__ import annotations

from edge_agent.config.layers import Layer, find, merge, origin

BELOW = Layer("a", {"x": {"p": 1, "q": 2}, "list": [1, 2], "cameras": [{"name": "c", "fps": 1}, {"name": "d", "fps": 2}]})
ABOVE = Layer("b", {"x": {"q": 3}, "list": [3], "cameras": [{"name": "d", "fps": 9}, {"name": "e"}]})


def test_tables_are_joined_lists_replaced_and_named_tables_joined_by_name() -> None:
    assert merge([BELOW, ABOVE]) == {
        "x": {"p": 1, "q": 3},
        "list": [3],
        "cameras": [{"name": "c", "fps": 1}, {"name": "d", "fps": 9}, {"name": "e"}],
    }


def test_merging_leaves_the_layers_alone() -> None:
    merged = merge([BELOW, ABOVE])
    merged["list"].append(4)
    merged["x"]["p"] = 7
    assert ABOVE.tables["list"] == [3]
    assert BELOW.tables["x"]["p"] == 1


def test_the_origin_of_a_key_is_the_last_file_that_sets_it() -> None:
    layers = [BELOW, ABOVE]
    merged = merge(layers)
    assert origin(layers, merged, ("x", "p")) == "a"
    assert origin(layers, merged, ("x", "q")) == "b"
    assert origin(layers, merged, ("cameras", 0, "fps")) == "a"
    assert origin(layers, merged, ("cameras", 1, "fps")) == "b"
    assert origin(layers, merged, ("cameras", 2, "name")) == "b"
    assert origin(layers, merged, ("nowhere",)) == ""


def test_find_answers_none_beside_the_path() -> None:
    assert find(BELOW.tables, ("cameras", 5, "fps")) is None
    assert find(BELOW.tables, ("list", "x")) is None
