"""Every name that the engine host and the builder use exists in every TensorRT for which they use it."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Dict, Iterator, List, Set, Tuple

import pytest
from name_lists import FOLDER, load
from used_names import CUDA, MODULE, PACKAGES, SEEDS, Found, Use, read

GENERATIONS = sorted(path.stem for path in FOLDER.glob("*.json"))
LISTS: Dict[str, Dict[str, Any]] = {generation: load(generation) for generation in GENERATIONS}


def _tables(package: str) -> ModuleType:
    return importlib.import_module(f"edge_agent.engine_host.{package}.names")


def _members(names: Dict[str, Any], cls: str) -> Set[str]:
    if cls == MODULE:
        return {*names["names"], "__version__"}
    return {*names["classes"].get(cls, ()), *names["enums"].get(cls, ())}


def _known() -> Set[str]:
    """All names of all classes in any generation, and of PyCUDA as far as the tables tell."""
    found: Set[str] = set()
    for names in LISTS.values():
        for cls in (MODULE, *names["classes"], *names["enums"]):
            found |= _members(names, cls)
    for names_of in _tables("trt").PYCUDA.values():
        found.update(names_of)
    return {name for name in found if not name.startswith("_")}


FOUND: Dict[str, Found] = {package: read(package, _known()) for package in PACKAGES}


def _uses(package: str) -> Iterator[Use]:
    """All uses; a name that comes from a table of the module counts where the class has it in any generation."""
    for use in FOUND[package].uses:
        if not use.cls.endswith("?"):
            yield use
        elif any(use.name in names["enums"].get(use.cls[:-1], ()) for names in LISTS.values()):
            yield use._replace(cls=use.cls[:-1])


def _table(package: str) -> Dict[Tuple[str, str], str]:
    """(class, name): the feature that switches it on."""
    table = {
        (cls, name): feature
        for cls, features in _tables(package).TENSORRT.items()
        for feature, names in features.items()
        for name in names
    }
    pycuda = getattr(_tables(package), "PYCUDA", {})
    table.update({(CUDA + cls, name): "" for cls, names in pycuda.items() for name in names})
    return table


def _has(package: str, generation: str, feature: str) -> bool:
    cls, _, name = _tables(package).FEATURES[feature].rpartition(".")
    return name in _members(LISTS[generation], cls)


def _expected(package: str, generation: str) -> Iterator[Tuple[str, str]]:
    """The names that the package uses on a generation."""
    for (cls, name), feature in _table(package).items():
        if not cls.startswith(CUDA) and (not feature or _has(package, generation, feature)):
            yield cls, name


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_the_code_uses_is_in_its_table(package: str) -> None:
    table = _table(package)
    missing = sorted(
        {f"{use.where} uses {use.cls or 'tensorrt'}.{use.name}" for use in _uses(package) if (use.cls, use.name) not in table}
    )
    assert missing == [], f"not in edge_agent/engine_host/{package}/names.py"


@pytest.mark.parametrize("package", PACKAGES)
def test_the_code_uses_no_name_of_the_library_on_an_object_that_nobody_told_about(package: str) -> None:
    assert FOUND[package].unknown == [], "say in SEEDS of tests/contract/used_names.py what these objects are"


def test_each_object_that_was_told_about_is_there() -> None:
    used = {seed for found in FOUND.values() for seed in found.seeds}
    assert sorted(set(SEEDS) - used) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_table_has_no_name_that_the_code_does_not_use(package: str) -> None:
    found = FOUND[package]
    used = {(use.cls, use.name) for use in _uses(package)}
    used |= {(override.cls, override.name) for override in found.overrides}
    for path in _tables(package).FEATURES.values():
        cls, _, name = path.rpartition(".")
        used |= {(cls, name), (MODULE, cls)}
    unused = [key for key in _table(package) if key not in used and key[1] not in _PYTHON]
    assert unused == [] or {key[0] for key in unused} <= _NAMED_ONLY, unused


_PYTHON = {"__int__"}  # what int() calls
#: classes of the module that the table lists since their members are used; nobody takes them out of the module by name
_NAMED_ONLY = {MODULE}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("package", PACKAGES)
def test_each_generation_has_every_name_that_is_used_on_it(package: str, generation: str) -> None:
    names = LISTS[generation]
    missing = [f"{cls}.{name}" for cls, name in _expected(package, generation) if name not in _members(names, cls)]
    assert missing == []


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("package", PACKAGES)
def test_calls_use_keywords_and_numbers_of_arguments_that_the_generation_takes(package: str, generation: str) -> None:
    expected = set(_expected(package, generation))
    wrong: List[str] = []
    for use in _uses(package):
        taken = _parameters(LISTS[generation], use)
        if (use.cls, use.name) not in expected or taken is None or use.arguments is None:
            continue
        if not set(use.keywords) <= set(taken) or use.arguments + len(use.keywords) > len(taken):
            wrong.append(f"{use.where}: {use.cls}.{use.name} takes {taken}")
    assert wrong == []


def _parameters(names: Dict[str, Any], use: Use) -> Any:
    """Keyword names of a call; None where the bindings do not tell. `__init__` of a base is called with self."""
    if use.cls == MODULE:
        return names["functions"].get(use.name, names["classes"].get(use.name, {}).get("__init__"))
    taken = names["classes"].get(use.cls, {}).get(use.name)
    return ["self", *taken] if taken is not None and use.name == "__init__" else taken


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("package", PACKAGES)
def test_methods_in_place_of_the_librarys_have_its_parameters(package: str, generation: str) -> None:
    for override in FOUND[package].overrides:
        taken = LISTS[generation]["classes"].get(override.cls, {}).get(override.name)
        if taken:
            assert list(override.parameters) == taken, override.where


def test_a_name_in_no_table_is_noticed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader itself: a call of a method, an enumeration's member, a name by text, an object nobody told about."""
    import used_names

    code = """
def describe(trt, engine, other):
    flags = trt.BuilderFlag
    flags.INT4
    hasattr(trt.DataType, "FP4")
    found = trt.Runtime(None).deserialize_cuda_engine(b"", quick=True)
    found.create_engine_inspector()
    other.set_input_shape("x", (1,))
"""
    (tmp_path / "bindings.py").write_text(code)
    monkeypatch.setattr(used_names, "ROOT", tmp_path)
    monkeypatch.setitem(used_names.PACKAGES, "trt", tmp_path)
    found = used_names.read("trt", _known())
    assert {(use.cls, use.name) for use in found.uses} >= {
        ("BuilderFlag", "INT4"),
        ("DataType", "FP4"),
        ("Runtime", "deserialize_cuda_engine"),
        ("ICudaEngine", "create_engine_inspector"),
    }
    assert [use.keywords for use in found.uses if use.name == "deserialize_cuda_engine"] == [("quick",)]
    assert found.unknown == ["bindings.py:8 .set_input_shape of other"]
