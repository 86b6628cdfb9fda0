from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

import pytest

from edge_agent.config.load import load_config
from edge_agent.errors import ConfigError

Faults = Dict[str, Tuple[str, str]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a configuration, answer its path."""

    def write(text: str, name: str = "agent.toml") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


@pytest.fixture
def faults_of(write: Callable[..., Path]) -> Callable[..., Faults]:
    """The faults of a configuration text, by path."""

    def faults_of(text: str, environ: Optional[Dict[str, str]] = None) -> Faults:
        with pytest.raises(ConfigError) as caught:
            load_config(write(text), environ or {})
        return {path: (what, cure) for path, what, cure in caught.value.faults}

    return faults_of


CAMERA = '[[cameras]]\nname = "dock"\nmodel = "face"\nsource = "%s"\n'


@pytest.fixture
def camera() -> Any:
    """One camera's section with a source."""
    return lambda source="clip.mp4", more="": (CAMERA % source) + more
