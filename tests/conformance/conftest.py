from __future__ import annotations

import shutil
from pathlib import Path
from typing import Iterator

import pytest

from tests.agent_process import AgentProcess
from tests.conformance import repository
from tests.fixtures_mosquitto import Mosquitto


def pytest_collection_modifyitems(items: list) -> None:
    for item in items:
        if Path(str(item.fspath)).parent.name == "conformance":
            item.add_marker(pytest.mark.acceptance)
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite's repository."""
    folder = tmp_path_factory.mktemp("repository")
    repository.build(folder)
    return folder


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """One mosquitto for the session."""
    if shutil.which("mosquitto") is None and not Path("/usr/sbin/mosquitto").exists():
        pytest.skip("mosquitto is not installed")
    made = Mosquitto(tmp_path_factory.mktemp("broker"), [])
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[AgentProcess]:
    """One agent over HTTP, models loaded by request."""
    with AgentProcess(tmp_path_factory.mktemp("agent"), models, 'control_mode = "explicit"\n') as running:
        yield running


@pytest.fixture(scope="session")
def agent_at_broker(tmp_path_factory: pytest.TempPathFactory, models: Path, broker: Mosquitto) -> Iterator[AgentProcess]:
    """One agent that is asked by MQTT."""
    extra = '[mqtt]\nhost = "127.0.0.1"\nport = %d\n' % broker.port
    with AgentProcess(tmp_path_factory.mktemp("agent"), models, extra) as running:
        yield running
