"""Where versions that TensorRT should run lie, what runs them, and what is kept of them."""

from __future__ import annotations

import pytest

from tests.healing_rig import Gpu


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture
def gpu(tmp_path):
    return Gpu(tmp_path / "gpu")


@pytest.fixture
def state(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state"
