"""One request on its way through the batcher."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Hashable, Optional

from edge_agent.domain.requests import InferRequest

if TYPE_CHECKING:
    from edge_agent.batching.line import Line

_order = itertools.count()


@dataclass(eq=False)
class Pending:
    """Owns its future, so one caller's leaving never touches another's. Instants are monotonic seconds."""

    request: InferRequest
    rows: int
    key: Hashable  #: requests of equal keys may share a batch
    future: asyncio.Future[Any]
    enqueued_at: float
    deadline: Optional[float] = None  #: after this it is not sent any more
    level: int = 1  #: priority, 1 is served first
    defer_at: Optional[float] = None  #: from then on all others of its level go first
    send_by: float = float("inf")  #: company is waited for no longer than this
    retried: bool = False  #: its host died once; it runs alone now
    line: Optional[Line] = None  #: where it waits; None when it does not
    deliver: Optional[Callable[[], None]] = None  #: its end, kept until the requests before it have theirs
    number: int = field(default_factory=lambda: next(_order))

    @property
    def ended(self) -> bool:
        """Answered, failed, or its caller left."""
        return self.future.done()

    def fail(self, error: BaseException) -> None:
        """Ends it with an error, once."""
        if not self.future.done():
            self.future.set_exception(error)

    def give_back(self) -> None:
        """Its caller was cancelled, maybe in the moment the answer came: nobody else releases what that holds."""
        future = self.future
        if future.done() and not future.cancelled() and future.exception() is None:
            future.result().release()
