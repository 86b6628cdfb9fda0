"""Messages on their way from the network thread to the loop: bounded, without a lock."""

from __future__ import annotations

from collections import deque
from typing import Deque

from edge_agent.mqtt.message import Message

_MAX_LOSSY = 256  #: behind so many messages one with QoS 0 has no room


class Inbox:
    """The network thread puts, the loop takes; each side writes a counter of its own."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._messages: Deque[Message] = deque()
        self._put_bytes = 0  #: written by the network thread only
        self._taken_bytes = 0  #: written by the loop only

    def has_room(self, qos: int, nbytes: int) -> bool:
        """Whether one more message may be put; one alone may be as large as it likes."""
        waiting = len(self._messages)
        if waiting >= (self._max_messages if qos else min(self._max_messages, _MAX_LOSSY)):
            return False
        return not waiting or self._put_bytes - self._taken_bytes + nbytes <= self._max_bytes

    def put(self, message: Message) -> None:
        """From the network thread."""
        self._put_bytes += len(message.payload)
        self._messages.append(message)

    def take(self) -> Message:
        """From the loop: the oldest message."""
        message = self._messages.popleft()
        self._taken_bytes += len(message.payload)
        return message
