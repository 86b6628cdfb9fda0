"""Asks the service manager for more time while the models of the start are loaded."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Sequence

_EVERY_S = 10.0
_MORE_S = 60.0


async def ask_for_time(loads: Sequence[asyncio.Task[Any]], extend: Callable[[float], None]) -> None:
    """Until all have ended: a plan may take long to load, and longer to check."""
    left = set(loads)
    while left:
        extend(_MORE_S)
        _, left = await asyncio.wait(left, timeout=_EVERY_S)
