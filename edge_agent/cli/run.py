"""`edge-agent run`: the service, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from edge_agent.app.agent import Agent
from edge_agent.config.last_good import load_with_fallback

#: a busy thread gives the interpreter to the loop after this long (measured: halves the loop's lag under writes)
_SWITCH_INTERVAL_S = 0.0005


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(args: argparse.Namespace) -> int:
    """0 after an orderly stop; a configuration or a store that does not let it start is raised."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    config, broken = load_with_fallback(args.config, os.environ)
    asyncio.run(Agent(config, os.environ, broken).run())
    return 0
