"""A whole agent in a folder: its configuration as a file, and the agent in this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any, AsyncIterator, Dict, Optional

from edge_agent.access.tokens import TokenFile
from edge_agent.app.access import Admission
from edge_agent.app.agent import Agent
from edge_agent.app.parts import Parts
from edge_agent.config.http import HttpSection
from edge_agent.config.load import load_config
from edge_agent.config.root import AgentConfig
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.telemetry.notify import ServiceManager
from tests.doubles.engine_host import until

BASE = """
[agent]
id = "box"
state_dir = "state"
stop_timeout_s = 2
[http]
port = 0
[metrics]
port = 0
[models]
repository = "models"
"""


def config(folder: Path, extra: str = "", base: str = BASE) -> AgentConfig:
    """The configuration of an agent that lives in `folder`."""
    (folder / "models").mkdir(exist_ok=True)
    file = folder / "agent.toml"
    file.write_text(base + extra)
    return load_config(file, {})


def parts(settings: AgentConfig, http: Optional[HttpSection] = None, environ: Optional[Dict[str, str]] = None) -> Parts:
    """All parts, none started."""
    clock = Clock()
    tokens = TokenFile(settings.agent.state_dir / "tokens.json", clock)
    manager = ServiceManager(environ or {})
    admission = Admission(http or settings.http, True, PartStatus(State.OK))
    return Parts(settings, environ or {}, clock, manager, admission, tokens, dict, lambda: False)


@contextlib.asynccontextmanager
async def living(agent: Agent) -> AsyncIterator[Any]:
    """The agent runs, and its parts are answered once its models are loaded; stopped by a signal."""
    life = asyncio.ensure_future(agent.run())
    try:
        await until(lambda: life.done() or (hasattr(agent, "_parts") and agent._parts.serving.ready()), 20)
        if life.done():
            await life
        yield agent._parts
    finally:
        if not life.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(life, 30)
