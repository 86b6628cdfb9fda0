"""What was begun by a request is ended even if its client leaves: a model is never left half changed."""

from __future__ import annotations

import asyncio
from typing import Any, Coroutine, Set, TypeVar

Answer = TypeVar("Answer")


class Unbroken:
    """Runs changes to their end."""

    def __init__(self) -> None:
        self._running: Set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What `work` answers, or raises."""
        task: asyncio.Task[Answer] = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may have left; serving has told the log and the store
