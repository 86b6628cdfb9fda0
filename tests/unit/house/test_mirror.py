from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator, Set

import edge_agent

PACKAGE = Path(edge_agent.__file__).resolve().parent
TESTS = Path(__file__).resolve().parents[2]

#: modules that are tested as a process of their own, by tests/acceptance
BY_PROCESS = {"edge_agent.__main__", "edge_agent.cli.run", "edge_agent.app.agent"}


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


def _imports(module: str) -> Set[str]:
    """What the module imports or names, functions' own imports too."""
    path = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
    found: Set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found.update([node.module, *(f"{node.module}.{name.name}" for name in node.names)])
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # verbs and children are started by their module's name
    return found


def test_every_module_is_tested_by_name_or_as_a_part_of_its_neighbour() -> None:
    """A part that only its own room uses may be tested through the module there that tests do name."""
    modules, texts = set(_modules()), _texts()
    tested = {module for module in modules if module in BY_PROCESS or _is_named(module, texts)}
    reached = set(tested)
    while reached:
        room_mates = {(module, other) for module in reached for other in _imports(module) & modules - tested}
        reached = {other for module, other in room_mates if _room(module) == _room(other)}
        tested |= reached
    assert sorted(modules - tested) == []


def _room(module: str) -> str:
    return module.split(".")[1]


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
