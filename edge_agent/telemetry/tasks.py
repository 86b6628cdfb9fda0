"""Background tasks of the loop: kept, named, and heard when they fail."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Callable, Coroutine, Set

_log = logging.getLogger(__name__)


class Tasks:
    """Holds the background tasks of one part. One that fails is logged once and told to `on_failure`."""

    def __init__(self, on_failure: Callable[[BaseException], None] = lambda error: None) -> None:
        self._tasks: Set[asyncio.Task[Any]] = set()
        self._on_failure = on_failure

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Starts `work` on the running loop."""
        task = asyncio.get_running_loop().create_task(work)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("task %s failed", task.get_name(), exc_info=error, extra={"code": "agent.error"})
            self._on_failure(error)

    async def stop(self) -> None:
        """Cancels what still runs and waits for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
