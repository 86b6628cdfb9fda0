"""What the command line says of an agent that is slow, and of one that is not there."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from typing import Iterator

import pytest

from edge_agent.cli import client, models


@pytest.fixture
def silent() -> Iterator[argparse.Namespace]:
    """An agent that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = "http://127.0.0.1:%d" % listener.getsockname()[1]
        yield argparse.Namespace(url=url, token_file=None, config=Path("none.toml"), action="load", name="face")


def test_an_answer_that_takes_longer_is_still_under_way_and_not_a_missing_agent(silent: argparse.Namespace) -> None:
    with pytest.raises(client.StillUnderWay, match="still under way") as caught:
        client.ask(silent, "POST", "/api/models/face/load", {}, answer_within_s=0.1)
    assert caught.value.retryable  # exit 75


def test_a_load_and_an_unload_are_waited_for_longer_than_a_question(
    silent: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_TIMEOUT_S", 5.0)
    monkeypatch.setattr(client, "LONG_S", 0.1)
    with pytest.raises(client.StillUnderWay, match=r"after 0\.1 s"):
        models.run(silent)


def test_nobody_at_the_address_is_no_agent(silent: argparse.Namespace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        silent.url = "http://127.0.0.1:%d" % gone.getsockname()[1]
    with pytest.raises(client.NotRunning, match="no agent answers"):
        client.ask(silent, "GET", "/api/status")
