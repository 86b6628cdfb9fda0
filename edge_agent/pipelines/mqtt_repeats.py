"""Requests that came before: a redelivered one is not done twice."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Callable, List, Optional, Tuple

from edge_agent.mqtt.message import Message
from edge_agent.pipelines.mqtt_request import Answer, MqttRequest

_Key = Tuple[str, bytes, bytes]


@dataclass
class Seen:
    """A request at work, or done."""

    at: float  #: monotonic second of its first arrival
    acknowledge: List[Callable[[], bool]]  #: what to call when its answer has arrived: one a copy of the message
    answer: Optional[Answer] = None  #: None while it is at work
    settled: bool = False  #: whether the answer has arrived at the broker
    named: Optional[bool] = None  #: whether its body has an id; None until it was read
    _reading: Optional[asyncio.Future[None]] = None

    def tell_named(self, named: bool) -> None:
        """The body was read, or will never be; the first word counts."""
        if self.named is None:
            self.named = named
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    async def was_read(self) -> None:
        """Wait until `named` is known."""
        if self.named is None:
            if self._reading is None:
                self._reading = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._reading)  # others wait for it too


def _key(request: MqttRequest) -> _Key:
    message: Message = request.message
    return request.answer_topic, message.correlation_data or b"", message.digest


class Repeats:
    """The last requests by answer topic, correlation data and payload.

    Without correlation data, and an id in its body, only a message that the broker marks as redelivered (DUP) is a repeat.
    A window of 0 remembers nothing.
    """

    def __init__(self, window_s: float, max_requests: int = 1000, max_bytes: int = 8_388_608) -> None:
        self._window_s = window_s
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._seen: OrderedDict[_Key, Seen] = OrderedDict()
        self._nbytes = 0

    def find(self, request: MqttRequest, now: float) -> Optional[Seen]:
        """The earlier arrival of the same request."""
        seen = self._recent(request, now)
        if seen is None or not (request.message.correlation_data or request.message.dup or seen.named):
            return None
        return seen

    def unread(self, request: MqttRequest, now: float) -> Optional[Seen]:
        """An earlier one with the same payload, of which nobody knows yet whether its body has an id."""
        seen = self._recent(request, now)
        return seen if seen is not None and seen.named is None else None

    def _recent(self, request: MqttRequest, now: float) -> Optional[Seen]:
        seen = self._seen.get(_key(request))
        return seen if seen is not None and now - seen.at <= self._window_s else None

    def begin(self, request: MqttRequest, now: float) -> Seen:
        """Remember a new request that is now at work."""
        seen = Seen(now, [request.message.ack], named=None if request.may_have_id else False)
        if self._window_s > 0:
            self._drop(self._seen.pop(_key(request), None))
            self._seen[_key(request)] = seen
            self._shrink()
        return seen

    def done(self, request: MqttRequest, seen: Seen, answer: Answer) -> None:
        """Keep a good answer for repeats; after an error, a repeat tries again."""
        seen.answer = answer
        if self._seen.get(_key(request)) is not seen:
            return
        if answer.ok:
            self._nbytes += len(answer.payload)
            self._shrink()
        else:
            self.forget(request, seen)

    def forget(self, request: MqttRequest, seen: Seen) -> None:
        """No repeat of it will be recognised."""
        if self._seen.get(_key(request)) is seen:
            self._drop(self._seen.pop(_key(request)))

    def _drop(self, seen: Optional[Seen]) -> None:
        if seen is not None and seen.answer is not None and seen.answer.ok:
            self._nbytes -= len(seen.answer.payload)

    def _shrink(self) -> None:
        while len(self._seen) > self._max_requests or (self._nbytes > self._max_bytes and len(self._seen) > 1):
            self._drop(self._seen.popitem(last=False)[1])
