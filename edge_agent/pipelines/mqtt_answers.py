"""Answers on their way to the broker: kept while it is away, sent again until acknowledged."""

from __future__ import annotations

import asyncio
import functools
import heapq
from typing import List, Optional, Tuple

from edge_agent import errors
from edge_agent.pipelines.mqtt_parts import Connection
from edge_agent.pipelines.mqtt_request import Answer

_ON_THE_WAY = 20  #: answers handed to the broker and not yet acknowledged
_RETRY_S = 0.5


class Answers:
    """At most so many answers and bytes; when full, the oldest goes and is counted."""

    def __init__(self, connection: Connection, max_answers: int = 1000, max_bytes: int = 67_108_864) -> None:
        self._connection = connection
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._waiting: List[Tuple[int, Answer, asyncio.Future[None]]] = []  #: a heap: oldest first
        self._waiting_bytes = 0
        self._number = 0
        self._on_the_way = 0
        self._empty: Optional[asyncio.Event] = None  #: set when the last one is gone, for whoever waits in drained()
        self.sent = 0
        self.dropped = 0  #: left unsent, as too many waited
        self.refused = 0  #: the broker does not take them

    def __len__(self) -> int:
        return len(self._waiting) + self._on_the_way

    def send(self, answer: Answer) -> asyncio.Future[None]:
        """The future ends when the broker has acknowledged the answer, has refused it, or it was dropped."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1
        self._push(self._number, answer, settled)
        self.pump()
        return settled

    def pump(self) -> None:
        """Hand over what the connection takes; called when something was added and at each connect."""
        while self._waiting and self._on_the_way < _ON_THE_WAY and self._connection.connected:
            number, answer, settled = heapq.heappop(self._waiting)
            self._waiting_bytes -= len(answer.payload)
            self._on_the_way += 1
            sending = self._connection.publish(answer.topic, answer.payload, qos=1, properties=answer.properties)
            sending.add_done_callback(functools.partial(self._done, number, answer, settled))

    def _push(self, number: int, answer: Answer, settled: asyncio.Future[None]) -> None:
        heapq.heappush(self._waiting, (number, answer, settled))
        self._waiting_bytes += len(answer.payload)
        while len(self._waiting) > self._max_answers or (self._waiting_bytes > self._max_bytes and len(self._waiting) > 1):
            _number, oldest, unsettled = heapq.heappop(self._waiting)
            self._waiting_bytes -= len(oldest.payload)
            self.dropped += 1
            _settle(unsettled)

    def _done(self, number: int, answer: Answer, settled: asyncio.Future[None], sending: asyncio.Future[None]) -> None:
        self._on_the_way -= 1
        problem = None if sending.cancelled() else sending.exception()
        if problem is None:
            self.sent += 1
            _settle(settled)
        elif isinstance(problem, errors.PublishRefused):
            self.refused += 1
            _settle(settled)
        else:
            self._push(number, answer, settled)
            asyncio.get_running_loop().call_later(_RETRY_S, self.pump)
            return
        if self._empty is not None and not len(self):
            self._empty.set()
        self.pump()

    async def drained(self, timeout_s: float) -> bool:
        """Wait until nothing is left; False when the broker is away or too slow."""
        if not len(self):
            return True
        if not self._connection.connected:
            return False
        self._empty = asyncio.Event()
        try:
            await asyncio.wait_for(self._empty.wait(), timeout_s)
        except asyncio.TimeoutError:
            return False
        return True


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
