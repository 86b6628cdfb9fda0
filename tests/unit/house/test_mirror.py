from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Iterator

import edge_agent

PACKAGE = Path(edge_agent.__file__).resolve().parent
TESTS = Path(__file__).resolve().parents[2]

#: modules that no test imports, and why that is enough
UNNAMED: Dict[str, str] = {}


def _modules() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "__init__.py":
            yield ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def _texts() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__))


def _is_named(module: str, texts: str) -> bool:
    """Imported as `a.b.c`, or as `from a.b import ... c ...`."""
    parent, _, name = module.rpartition(".")
    imported = rf"from {re.escape(parent)} import (\([^)]*\b{name}\b|[^(\n]*\b{name}\b)"
    return bool(re.search(rf"\b{re.escape(module)}\b", texts) or re.search(imported, texts))


def test_every_module_is_named_by_a_test() -> None:
    texts = _texts()
    assert [module for module in _modules() if module not in UNNAMED and not _is_named(module, texts)] == []


def test_the_exceptions_are_still_there() -> None:
    assert set(UNNAMED) - set(_modules()) == set()


def test_no_module_is_longer_than_three_hundred_lines() -> None:
    long = {
        path.name: count
        for path in PACKAGE.rglob("*.py")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 300
    }
    assert long == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty_names = {"utils", "util", "helpers", "helper", "common", "manager", "core", "misc"}
    assert [module for module in _modules() if module.rpartition(".")[2] in empty_names] == []


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
