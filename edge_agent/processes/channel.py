"""The agent's end of a SEQPACKET socket pair, without an asyncio transport (they refuse this kind of socket)."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections import deque
from typing import Callable, Deque, Sequence, Tuple

from edge_agent.engine_host.wire import MAX_MESSAGE
from edge_agent.errors import ChildGone

_MAX_DRAINED = 16  # datagrams a wake-up, so that one busy child cannot hold the loop


class Channel:
    """Whole messages in and out, read on the loop that runs when it is made.

    `on_closed` is called once, when the other side ends; never after `close()`. A message that the socket does not take
    waits in a queue of `max_queued`; when that is full `send` raises ChildGone: a child that does not read is as good as gone.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[bytes], None],
        on_closed: Callable[[], None],
        max_queued: int = 256,
    ) -> None:
        self._sock = sock
        self._on_message = on_message
        self._on_closed = on_closed
        self._max_queued = max_queued
        self._queue: Deque[Tuple[bytes, Tuple[int, ...]]] = deque()
        self._receive = sock.recv
        self._send = sock.send
        self.closed = False
        self.refused = 0  #: messages refused because the queue was full
        sock.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)

    @property
    def queued(self) -> int:
        """Messages that wait for the socket."""
        return len(self._queue)

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Sends or queues one message. Descriptors are duplicated: the caller closes its own. ChildGone when impossible."""
        if self.closed:
            raise ChildGone("the channel is closed")
        if not self._queue and self._try_send(data, descriptors):
            return
        if self.closed:
            raise ChildGone("the channel broke")
        if len(self._queue) >= self._max_queued:
            self.refused += 1
            raise ChildGone("the queue of %d messages to the child is full: it does not read" % self._max_queued)
        self._queue.append((data, tuple(os.dup(one) for one in descriptors)))
        if len(self._queue) == 1:
            self._loop.add_writer(self._sock.fileno(), self._writable)

    def close(self) -> None:
        """Closes our end; the child sees EOF. Idempotent."""
        self._on_closed = _nothing
        if self.closed:
            return
        self._release()

    def _release(self) -> None:
        self.closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        for _, descriptors in self._queue:
            _close_all(descriptors)
        self._queue.clear()
        self._sock.close()

    def _try_send(self, data: bytes, descriptors: Sequence[int]) -> bool:
        """True when the socket took it; closes the channel when it broke."""
        try:
            if descriptors:
                self._sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])
            else:
                self._send(data)
        except BlockingIOError:
            return False
        except OSError:
            self._broke()
            return False
        return True

    def _writable(self) -> None:
        while self._queue:
            data, descriptors = self._queue[0]
            if not self._try_send(data, descriptors):
                return
            self._queue.popleft()
            _close_all(descriptors)
        self._loop.remove_writer(self._sock.fileno())

    def _readable(self) -> None:
        for _ in range(_MAX_DRAINED):
            try:
                data = self._receive(MAX_MESSAGE + 1)
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # the child ended with messages of ours unread; what it had sent can still be read
            except OSError:
                data = b""
            if not data or len(data) > MAX_MESSAGE:
                self._broke()
                return
            self._on_message(data)
            if self.closed:
                return

    def _broke(self) -> None:
        """Closes now and tells the owner from the loop, never from within its own `send`."""
        if not self.closed:
            self._release()
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._on_closed()


def _nothing() -> None:
    """What is told to an owner who has closed the channel itself."""


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
