"""The checked-in name lists are what the real bindings have."""

from __future__ import annotations

from typing import Any, Callable, Dict

import pytest
from bindings import BINDINGS, Binding
from name_lists import FOLDER, load, of_document

Look = Callable[[Binding], Dict[str, Any]]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("binding", BINDINGS, ids=[binding.version for binding in BINDINGS])
def test_the_checked_in_names_are_those_of_the_real_bindings(binding: Binding, look: Look) -> None:
    real, listed = of_document(look(binding)), load(binding.names)
    for group in ("functions", "classes", "enums"):
        for name in sorted({*real[group], *listed[group]}):
            assert listed[group].get(name) == real[group].get(name), (
                f"{name} of {binding.version}: tests/contract/names/{binding.names}.json differs from the wheel"
            )
    assert sorted(listed["names"]) == sorted(real["names"])


def test_there_is_a_list_for_each_generation() -> None:
    lists = {path.stem for path in FOLDER.glob("*.json")}
    assert lists == {"8.2", "8.5"} | {binding.names for binding in BINDINGS}


OLDER = (("8.2", "8.5"), ("8.5", "8.6.1"))


@pytest.mark.parametrize(("older", "newer"), OLDER)
def test_within_a_major_version_a_later_one_has_all_names_of_an_earlier_one(older: str, newer: str) -> None:
    """True of the lists that come from wheels, so it must be true of those written from tables."""
    before, after = load(older), load(newer)
    assert set(before["names"]) < set(after["names"])
    for name, members in before["classes"].items():
        assert set(members) <= set(after["classes"][name])
        for member, keywords in members.items():
            assert keywords == after["classes"][name][member], f"{name}.{member}"
    for name, numbers in before["enums"].items():
        assert numbers.items() <= after["enums"][name].items()


#: what the research into each version found to begin or to end with it
BOUNDARIES = (
    ("8.2", "IBuilderConfig", "max_workspace_size", True),
    ("8.2", "IBuilderConfig", "set_memory_pool_limit", False),
    ("8.2", "ICudaEngine", "num_io_tensors", False),
    ("8.2", "IExecutionContext", "execute_async_v2", True),
    ("8.5", "ICudaEngine", "num_io_tensors", True),
    ("8.5", "IExecutionContext", "execute_async_v3", True),
    ("8.5", "IBuilderConfig", "builder_optimization_level", False),
    ("8.6.1", "IBuilderConfig", "builder_optimization_level", True),
    ("8.6.1", "ICudaEngine", "num_bindings", True),
    ("10.3.0", "ICudaEngine", "num_bindings", False),
    ("10.3.0", "IBuilderConfig", "max_workspace_size", False),
    ("10.3.0", "Builder", "platform_has_fast_fp16", True),
    ("11.4.0", "Builder", "platform_has_fast_fp16", False),
    ("11.4.0", "IBuilderConfig", "int8_calibrator", False),
)


@pytest.mark.parametrize(("version", "cls", "member", "there"), BOUNDARIES)
def test_the_lists_know_where_names_begin_and_end(version: str, cls: str, member: str, there: bool) -> None:
    assert (member in load(version)["classes"][cls]) is there
