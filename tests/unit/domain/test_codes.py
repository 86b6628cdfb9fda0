from __future__ import annotations

import ast
import string
from pathlib import Path
from typing import Iterator, Set

import pytest

import edge_agent
from edge_agent import errors
from edge_agent.config.model_config import ModelConfig
from edge_agent.config.root import AgentConfig
from edge_agent.domain import codes

PACKAGE = Path(edge_agent.__file__).parent
AREAS = {code.split(".")[0] for code in codes.CODES}
_FILE_ENDINGS = {"onnx", "plan", "py", "toml", "pbtxt", "mark", "jpg", "json", "db"}


def _config_keys() -> Set[str]:
    """`section.key` of both schemas, which faults name and which look like codes."""
    return {
        f"{section}.{key}"
        for root in (AgentConfig, ModelConfig)
        for section, field in root.model_fields.items()
        for kind in [field.annotation, *getattr(field.annotation, "__args__", ())]
        for key in getattr(kind, "model_fields", {})
    }


def _literals(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _codes_used() -> Set[str]:
    used = set()
    for path in PACKAGE.rglob("*.py"):
        for literal in _literals(path):
            area, dot, what = literal.partition(".")
            if dot and area in AREAS and what.replace("_", "").isalpha() and what.islower() and what not in _FILE_ENDINGS:
                used.add(literal)
    return used - _config_keys()


def _placeholders(text: str) -> Set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_code_in_the_package_is_in_the_table() -> None:
    assert _codes_used() - set(codes.CODES) == set()


def test_every_error_class_has_a_code_of_the_table() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.EdgeAgentError)]
    assert {cls.code for cls in classes} <= set(codes.CODES)


@pytest.mark.parametrize("code", sorted(codes.CODES))
def test_both_languages_say_the_same_thing(code: str) -> None:
    row = codes.CODES[code]
    assert row.reason.en
    assert row.reason.zh
    assert bool(row.cure.en) == bool(row.cure.zh)
    assert _placeholders(row.reason.en) == _placeholders(row.reason.zh)
    assert _placeholders(row.cure.en) == _placeholders(row.cure.zh)
    assert any("\u4e00" <= character <= "\u9fff" for character in row.reason.zh)
    assert not any("\u4e00" <= character <= "\u9fff" for character in row.reason.en + row.cure.en)


def test_args_fill_the_text_in_either_language() -> None:
    args = {"source": "10.0.0.5"}
    assert codes.reason("camera.unreachable", args) == "The camera does not answer at 10.0.0.5."
    assert "10.0.0.5" in codes.reason("camera.unreachable", args, "zh")
    assert codes.cure("camera.unreachable", args, "zh").startswith("请")


def test_a_missing_arg_shows_as_a_question_mark() -> None:
    assert codes.reason("camera.unreachable", {}) == "The camera does not answer at ?."


def test_the_empty_code_says_nothing() -> None:
    assert (codes.reason("", {}), codes.cure("", {})) == ("", "")


def test_an_unknown_code_is_shown_as_it_is() -> None:
    assert (codes.reason("later.thing", {}), codes.cure("later.thing", {})) == ("later.thing", "")
