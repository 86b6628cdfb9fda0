"""The real PyCUDA for the tests here; they are skipped, with the reason, where it cannot be built."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterator, List, Tuple

import pytest

from tests import fake_gpu
from tests.cuda import pycuda_venv
from tests.cuda.pycuda_venv import CannotMake, PycudaVenv
from tests.cuda.real_pycuda import GpuInterpreter, interpreter, skip_reason
from tests.serving_rig import MODELS

BUILDING_S = 900  # the first run on a machine builds PyCUDA, and the other workers wait for it
_COMMON = "3.8"


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    """Each of these tests may be the one that has to wait for the building."""
    here = Path(__file__).resolve().parent
    for item in items:
        if here in Path(str(item.fspath)).parents:
            item.add_marker(pytest.mark.timeout(BUILDING_S))


def _venv(version: str) -> PycudaVenv:
    try:
        return pycuda_venv.make(version)
    except CannotMake as reason:
        pytest.skip(skip_reason(version, reason))


@pytest.fixture(scope="session", params=sorted(pycuda_venv.RECIPES))
def each_venv(request: Any) -> PycudaVenv:
    """Python and PyCUDA of each JetPack."""
    return _venv(request.param)


@pytest.fixture(scope="session")
def venv() -> PycudaVenv:
    """One of them, for what does not differ between them."""
    return _venv(_COMMON)


@pytest.fixture
def gpu(venv: PycudaVenv, tmp_path: Path) -> Iterator[Callable[..., GpuInterpreter]]:
    """Makes an interpreter with a GPU as wanted: `gpu(integrated=0, memory_limit=1 << 20)`."""
    yield from _maker(venv, tmp_path)


@pytest.fixture
def each_gpu(each_venv: PycudaVenv, tmp_path: Path) -> Iterator[Callable[..., GpuInterpreter]]:
    """The same with each of the Pythons."""
    yield from _maker(each_venv, tmp_path)


def _maker(venv: PycudaVenv, folder: Path) -> Iterator[Callable[..., GpuInterpreter]]:
    made: List[GpuInterpreter] = []

    def make(**choices: Any) -> GpuInterpreter:
        home = folder / ("gpu%d" % len(made))
        home.mkdir()
        made.append(interpreter(home, venv, **choices))
        return made[-1]

    yield make
    for one in made:
        one.driver.close()


@pytest.fixture
def make_plan(tmp_path: Path) -> Callable[..., str]:
    """`make_plan(capability)`: a plan that adds one to a matrix of up to 64 rows."""

    def make(capability: Tuple[int, int] = (8, 7)) -> str:
        profile = {"x": ((1, 1), (4, 16), (64, 1 << 16))}
        target = tmp_path / "add.plan"
        return str(fake_gpu.make_plan(MODELS / "add_one_any.onnx", target, compute_capability=capability, profiles=[profile]))

    return make


@pytest.fixture
def plan(make_plan: Callable[..., str]) -> str:
    """One for the usual device."""
    return make_plan()
