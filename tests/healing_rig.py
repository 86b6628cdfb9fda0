"""A rig whose host `gpu` has the fake TensorRT, and how a test watches a plan come to be."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, AsyncIterator, Callable, Dict, Optional

import numpy

from edge_agent.config.hosts import HostSection
from edge_agent.domain.clock import Clock
from edge_agent.serving.healing.surroundings import Surroundings
from tests.fake_gpu import gpu_python, set_faults
from tests.serving_rig import Rig, add_model

PLAN = 'platform = "tensorrt_plan"\nmax_batch_size = 8\n'
WRONG = 1000.0  #: what a wrong plan adds: no answer of an unverified one goes unseen
PATIENCE_S = 40.0


class FastClock(Clock):
    """For the pauses between tries: an hour passes in a second."""

    def monotonic(self) -> float:
        return super().monotonic() * 3600

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() * 3600


class Gpu:
    """An interpreter with the fake TensorRT, whose faults can be changed while it runs."""

    def __init__(self, folder: Path, **options: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.faults_path = folder / "faults.json"
        self.gate = folder / "gate"
        self.faults()
        self.python = gpu_python(folder, faults=self.faults_path, **options)
        self.hosts = {"gpu": HostSection(python=self.python)}

    def faults(self, **faults: Any) -> None:
        """What goes wrong from now on, and nothing else."""
        set_faults(self.faults_path, **faults)

    def hold_builds(self, **faults: Any) -> None:
        """Builds wait until `let_go`."""
        self.gate.write_text("")
        self.faults(gate=self.gate, **faults)

    def let_go(self, **faults: Any) -> None:
        """They go on."""
        self.faults(**faults)
        self.gate.unlink()


def surroundings(**changes: Any) -> Surroundings:
    """With pauses that pass quickly."""
    return Surroundings(**{"tries_clock": FastClock(), "look_s": 0.05, "unable_s": 0.1, "slow_s": 0.1, **changes})


def add_plan_model(repository: Path, name: str = "one", config: str = PLAN, version: int = 1) -> Path:
    """A model that TensorRT should run; its ONNX file alone."""
    return add_model(repository, name, "add_one.onnx", config, version)


def version_of(rig: Rig, name: str = "one", number: str = "1") -> Dict[str, Any]:
    """The version's entry in the status."""
    model = next(model for model in rig.serving.status() if model["name"] == name)
    return next(version for version in model["versions"] if version["version"] == number)


async def until(what: Callable[[], Any], rig: Rig, timeout_s: float = PATIENCE_S) -> Any:
    """Waits until it is true, and answers it."""
    end = rig.clock.monotonic() + timeout_s
    while True:
        found = what()
        if found:
            return found
        assert rig.clock.monotonic() < end, (rig.serving.status(), rig.journal.events)
        await asyncio.sleep(0.02)


async def until_on(engine: str, rig: Rig, name: str = "one", **want: Any) -> Dict[str, Any]:
    """Waits until the version runs on that engine and its status has these values."""

    def there() -> Optional[Dict[str, Any]]:
        version = version_of(rig, name)
        good = version["engine"] == engine and all(version.get(key) == value for key, value in want.items())
        return version if good else None

    found: Dict[str, Any] = await until(there, rig)
    return found


async def right(rig: Rig, name: str = "one", value: float = 1.0) -> bool:
    """Whether the model adds one."""
    array = numpy.full((1, 4), value, numpy.float32)
    return bool(numpy.allclose(await rig.ask(name, array), array + 1))


def told(rig: Rig, kind: str) -> int:
    """How many events there were of a kind."""
    return sum(event[0] == kind for event in rig.journal.events)


@contextlib.asynccontextmanager
async def healing(repository: Path, gpu: Gpu, **options: Any) -> AsyncIterator[Rig]:
    """A rig whose models are loaded or have failed; nothing is left of it afterwards."""
    rig = Rig(repository, **{"hosts": gpu.hosts, "surroundings": surroundings(), **options})
    await rig.serving.start()
    try:
        await asyncio.wait_for(rig.serving.settled(), PATIENCE_S)
        yield rig
    finally:
        await rig.serving.stop()
        assert rig.arena.status()["slots"] == 0
