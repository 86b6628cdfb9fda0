"""The real bindings, looked at once a run, where they cannot be had the tests say why; and boards that are fakes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import bindings  # noqa: E402
from board import Board  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """The marker of this folder alone."""
    config.addinivalue_line(
        "markers", "rtx: builds with TensorRT-RTX (90 MB): run where .venvs/rtx is, or EDGE_AGENT_TEST_RTX=1"
    )


Look = Callable[[bindings.Binding], Dict[str, Any]]


@pytest.fixture(scope="session")
def look() -> Look:
    """What a binding has; skips where it cannot be had."""
    seen: Dict[bindings.Binding, Any] = {}

    def look_at(binding: bindings.Binding) -> Dict[str, Any]:
        if binding not in seen:
            try:
                seen[binding] = bindings.introspected(binding)
            except bindings.Unavailable as error:
                seen[binding] = error
        if isinstance(seen[binding], bindings.Unavailable):
            pytest.skip(f"{binding.package} {binding.version} cannot be had: {seen[binding]}")
        return dict(seen[binding])

    return look_at


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Any]:
    """Makes a board."""
    made: List[Board] = []

    def make(version: str = "10.3.0", **choices: Any) -> Board:
        made.append(Board(tmp_path, version, **choices))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()
