"""`edge-agent run`: the service, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import sys

from edge_agent.app.agent import Agent
from edge_agent.config.last_good import load_with_fallback

#: a busy thread gives the interpreter to the loop after this long (measured: halves the loop's lag under writes)
_SWITCH_INTERVAL_S = 0.0005
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def _return_memory() -> None:
    """Large blocks go back to the system when they are freed: glibc would keep up to 32 MB pieces after the first.

    What every read from a socket takes (256 KB) stays below both bounds: mapping it anew cost a fifth of a small request.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)
        mallopt(_M_TRIM_THRESHOLD, 4 << 20)


def run(args: argparse.Namespace) -> int:
    """0 after an orderly stop; a configuration or a store that does not let it start is raised."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    _return_memory()
    config, broken = load_with_fallback(args.config, os.environ)
    asyncio.run(Agent(config, os.environ, broken).run())
    return 0
