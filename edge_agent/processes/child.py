"""One life of one child process: calls to it, events from it, what it prints, its end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from types import MappingProxyType
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Set, Tuple, Union

from edge_agent.domain.clock import Clock
from edge_agent.engine_host.wire import MAX_MESSAGE
from edge_agent.errors import ChildGone, ChildRefused, ChildTimeout, InvalidRequest
from edge_agent.processes.channel import Channel
from edge_agent.processes.output import ChildOutput
from edge_agent.processes.process import ChildSpec, Process
from edge_agent.processes.segment import Segment

__all__ = ["Child", "ChildSpec"]

_MAX_CALLS = 256  # unanswered at a time
_LAST_LINE = 300
_PING, _STOP = 0, -1  # ids of messages that no call waits for

Reply = Dict[str, Any]
EventHandler = Callable[[str, Dict[str, Any]], None]
_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> None:
    """For an end that nobody asked to hear of."""


def _refusal(error: Mapping[str, Any]) -> ChildRefused:
    return ChildRefused(str(error["text"]), str(error["code"]), dict(error.get("detail") or {}))


def _packet_pair() -> Tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise ChildGone("no socket pair for a child: %s" % error) from error


class Child:
    """A running child. Every call ends: with its answer, its timeout or the child's end."""

    def __init__(self, spec: ChildSpec, clock: Clock, on_event: EventHandler) -> None:
        self.spec = spec
        self.started_at = 0.0  #: monotonic seconds
        self.pongs = 0  #: pings answered so far
        self.busy = ""  #: the slow operation it said it was in, at the last ping
        self.on_end: Callable[[], None] = _nothing  #: called in the moment of its end, before its calls hear of it
        self._clock = clock
        self._on_event = on_event
        self._calls: Dict[int, asyncio.Future[Reply]] = {}
        self._last_call = 0
        self._attached: Set[int] = set()
        self._why_killed = ""
        self.pid = 0
        self.ended: asyncio.Future[None]  #: done when its control channel ended or it was killed

    def start(self) -> None:
        """Spawns the process; ChildGone when that is impossible."""
        self.started_at = self._clock.monotonic()
        self.ended = asyncio.get_running_loop().create_future()
        ours, theirs = _packet_pair()
        try:
            self._process, output = Process.spawn(self.spec, theirs, self._clock)
        except ChildGone:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self._output = ChildOutput(output, self.spec.name, self._clock)
        self._channel = Channel(ours, self._on_message, self._let_go)

    @property
    def killed(self) -> bool:
        """Whether the agent ended it."""
        return bool(self._why_killed)

    @property
    def gone(self) -> bool:
        """Whether it ended or was killed."""
        return self.ended.done()

    async def call(
        self,
        op: str,
        fields: Mapping[str, Any] = _NO_FIELDS,
        descriptors: Sequence[int] = (),
        timeout_s: float = 10.0,
    ) -> Reply:
        """Asks for an operation and waits for the reply. Raises ChildGone, ChildTimeout, ChildRefused.

        After a timeout or a cancellation the child may still be at it: slots it was given are not free yet.
        """
        if len(self._calls) >= _MAX_CALLS:
            raise ChildGone("%s has not answered %d calls" % (self.spec.name, _MAX_CALLS))
        self._last_call += 1
        number = self._last_call
        self._send(dict(fields, id=number, op=op), descriptors)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reply] = loop.create_future()
        self._calls[number] = answer
        timer = loop.call_later(timeout_s, self._time_out, answer, op, timeout_s)
        try:
            return await answer
        finally:
            timer.cancel()
            self._calls.pop(number, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, even if the caller was cancelled in the same moment

    def ping(self) -> None:
        """Asks for a sign of life; the answer counts in `pongs`."""
        self._send({"id": _PING, "op": "ping"}, ())

    @staticmethod
    def instance_channel() -> Tuple[socket.socket, socket.socket]:
        """(ours, theirs) of a new packet pair. Send the descriptor of theirs with a call, then close it."""
        return _packet_pair()

    async def attach(self, segment: Segment, writable: bool = True) -> None:
        """Lets the child map a segment; once a life."""
        if segment.number in self._attached:
            return
        fields = {"segment": segment.number, "bytes": segment.size, "writable": writable}
        await self.call("attach", fields, (segment.fd,))
        self._attached.add(segment.number)

    async def detach(self, segment: Segment) -> None:
        """Lets the child forget a segment."""
        if segment.number in self._attached:
            self._attached.remove(segment.number)
            await self.call("detach", {"segment": segment.number})

    def kill(self, reason: str) -> None:
        """SIGKILL, at once; calls end with ChildGone. Reaping is the supervisor's. The first reason given stays."""
        self._why_killed = self._why_killed or reason
        self._process.kill()
        self._let_go()

    def look(self) -> None:
        """Notices an end that the channel does not tell: a process that the child forked may hold it open."""
        if self._process.poll():
            self._let_go()

    async def reaped(self, timeout_s: float) -> bool:
        """Waits for the end of the process itself; False when it is still there. Closes what belonged to it."""
        self._let_go()
        gone = await self._process.reaped(timeout_s)
        self._output.close()
        return gone

    async def terminate(self, timeout_s: float) -> None:
        """Asks for a clean end, insists with SIGTERM half-way; the process may be there still afterwards."""
        self._why_killed = self._why_killed or "stopped"
        if not self.gone:
            self._send_stop()
        if not await self._process.reaped(timeout_s / 2):
            self._process.signal(signal.SIGTERM)
            await self._process.reaped(timeout_s / 2)

    @property
    def returncode(self) -> Optional[int]:
        """Exit status, negative for a signal; None until it was reaped."""
        return self._process.returncode

    @property
    def killed_from_outside(self) -> bool:
        """Whether SIGKILL ended it that the agent did not send; known when it was reaped."""
        return not self._why_killed and self._process.returncode == -signal.SIGKILL

    def reason(self) -> str:
        """Why it ended, for people: who killed it, or how it went and the last thing it said."""
        if self._why_killed:
            return self._why_killed
        said = self._output.last[:_LAST_LINE]
        return "%s: %s" % (self._process.epitaph(), said) if said else self._process.epitaph()

    def _send_stop(self) -> None:
        try:
            self._send({"id": _STOP, "op": "stop"}, ())
        except ChildGone:
            self._let_go()  # EOF says the same

    def _send(self, message: Dict[str, Any], descriptors: Sequence[int]) -> None:
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MAX_MESSAGE:
            raise InvalidRequest("operation %s takes %d bytes, over %d" % (message["op"], len(data), MAX_MESSAGE))
        if self.gone:
            raise ChildGone("%s is gone" % self.spec.name)
        try:
            self._channel.send(data, descriptors)
        except ChildGone:
            if self._channel.closed:
                self._let_go()  # now, not when the loop tells: who hears of the end must not find it up still
            raise

    def _time_out(self, answer: asyncio.Future[Reply], op: str, timeout_s: float) -> None:
        if not answer.done():
            answer.set_exception(ChildTimeout("%s did not answer %s within %g s" % (self.spec.name, op, timeout_s)))

    def _on_message(self, data: bytes) -> None:
        try:
            message: Dict[str, Any] = json.loads(data.decode())
            event = message.pop("event", None)
            number = int(message.pop("id", 0))
            refused = None if event or message.pop("ok") else _refusal(message["error"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self.kill("sent a message that cannot be read: %s: %s" % (type(error).__name__, error))
            return
        if event:
            self._on_event(str(event), message)
        elif number == _PING:
            self.pongs += 1
            self.busy = str(message.get("busy") or "")
        else:
            self._answer(number, refused or message)

    def _answer(self, number: int, said: Union[Reply, ChildRefused]) -> None:
        answer = self._calls.get(number)
        if answer is None or answer.done():
            return  # nobody waits any more
        if isinstance(said, ChildRefused):
            answer.set_exception(said)
        else:
            answer.set_result(said)

    def _let_go(self) -> None:
        """Closes the channel and ends all calls; the process is told by EOF."""
        self._channel.close()
        if not self.ended.done():
            self.ended.set_result(None)
            self.on_end()
        calls, self._calls = self._calls, {}
        for answer in calls.values():
            if not answer.done():
                answer.set_exception(ChildGone("%s ended: %s" % (self.spec.name, self._why_killed or "its channel closed")))
