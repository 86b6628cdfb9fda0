from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from edge_agent.access.last_used import LastUsed
from edge_agent.access.roles import Role
from edge_agent.access.tokens import TokenFile
from edge_agent.domain.clock import Clock


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json", Clock())


def last_used(tokens: TokenFile) -> str:
    return TokenFile(tokens.path, Clock()).list()[0].last_used


async def test_a_use_is_written_after_the_interval(tokens: TokenFile) -> None:
    tokens.authenticate(tokens.add("a", Role.VIEWER))
    keeper = LastUsed(tokens, interval_s=0.01)
    await keeper.start()
    try:
        for _ in range(1000):
            if last_used(tokens):
                break
            await asyncio.sleep(0.01)
        assert last_used(tokens)
    finally:
        await keeper.stop()


async def test_the_last_uses_are_written_at_the_stop(tokens: TokenFile) -> None:
    keeper = LastUsed(tokens, interval_s=1000)
    await keeper.start()
    tokens.authenticate(tokens.add("a", Role.VIEWER))
    await keeper.stop()
    await keeper.stop()
    assert last_used(tokens)


async def test_stop_before_start_does_nothing(tokens: TokenFile) -> None:
    tokens.authenticate(tokens.add("a", Role.VIEWER))
    before = tokens.path.read_bytes()
    await LastUsed(tokens).stop()
    assert tokens.path.read_bytes() == before


async def test_a_file_that_cannot_be_written_is_a_warning(tokens: TokenFile, caplog: pytest.LogCaptureFixture) -> None:
    tokens.authenticate(tokens.add("a", Role.VIEWER))
    tokens.path.write_bytes(b"{")
    keeper = LastUsed(tokens, interval_s=1000)
    await keeper.start()
    with caplog.at_level(logging.WARNING):
        await keeper.stop()
    assert "is damaged" in caplog.text
