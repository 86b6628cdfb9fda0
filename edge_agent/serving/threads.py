"""Work that waits for a disk, off the loop."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[..., Result], *args: Any) -> Result:
    """Runs `work` in the loop's pool of threads."""
    return await asyncio.get_running_loop().run_in_executor(None, work, *args)


async def to_the_end(work: Callable[..., Result], *args: Any) -> Result:
    """The same, but a caller that is cancelled leaves only when the thread is done: what it works on is the caller's."""
    task = asyncio.ensure_future(in_thread(work, *args))
    try:
        return await asyncio.shield(task)
    finally:
        if not task.done():
            await asyncio.wait({task})
