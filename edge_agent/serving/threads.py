"""Work that waits for a disk, off the loop."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[..., Result], *args: Any) -> Result:
    """Runs `work` in the loop's pool of threads."""
    return await asyncio.get_running_loop().run_in_executor(None, work, *args)
