"""Messages handed to the broker and not yet acknowledged: bounded, each with its future; on the loop only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Dict, Optional

from edge_agent import errors


@dataclass(frozen=True)
class _Unsent:
    future: asyncio.Future[None]
    nbytes: int
    since: float
    acknowledged: bool  #: whether an acknowledgement is due (QoS 1)


def _look_at(future: asyncio.Future[None]) -> None:
    """Whoever does not care for the outcome leaves no complaint in the log."""
    if not future.cancelled():
        future.exception()


class Outgoing:
    """Message numbers of one connection and who waits for them."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._unsent: Dict[int, _Unsent] = {}
        self._nbytes = 0
        self.refused_full = 0

    def __len__(self) -> int:
        return len(self._unsent)

    def check_room(self, nbytes: int) -> None:
        """Raises BrokerError when this message is one too many."""
        if len(self._unsent) < self._max_messages and (not self._unsent or self._nbytes + nbytes <= self._max_bytes):
            return
        self.refused_full += 1
        raise errors.BrokerError(f"{len(self._unsent)} messages wait for the broker already ({self._nbytes} bytes)")

    def add(self, mid: int, future: asyncio.Future[None], nbytes: int, since: float, acknowledged: bool) -> None:
        """Remember who waits for a message."""
        future.add_done_callback(_look_at)
        self._unsent[mid] = _Unsent(future, nbytes, since, acknowledged)
        self._nbytes += nbytes

    def settle(self, mid: int, refusal: str) -> None:
        """The broker has it, or has refused it."""
        entry = self._unsent.pop(mid, None)
        if entry is None:
            return
        self._nbytes -= entry.nbytes
        if entry.future.done():
            return
        if refusal:
            entry.future.set_exception(errors.PublishRefused(f"the broker refused the message: {refusal}"))
        else:
            entry.future.set_result(None)

    def fail_all(self, text: str) -> None:
        """The connection is gone: nobody knows which of them arrived."""
        entries = list(self._unsent.values())
        self._unsent.clear()
        self._nbytes = 0
        for entry in entries:
            if not entry.future.done():
                entry.future.set_exception(errors.BrokerError(text))

    def oldest_unacknowledged(self) -> Optional[float]:
        """When the message was handed over that waits longest for its acknowledgement."""
        return min((entry.since for entry in self._unsent.values() if entry.acknowledged), default=None)
