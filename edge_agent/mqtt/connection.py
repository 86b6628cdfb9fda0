"""The agent's place at the broker: connects, notices when the link is dead, connects again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import Callable, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.mqtt import failures
from edge_agent.mqtt.failures import Failure
from edge_agent.mqtt.link import FIRST_INFLIGHT, Link
from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.options import BrokerOptions
from edge_agent.mqtt.outgoing import Outgoing
from edge_agent.mqtt.retry import Ending, LinkEnd, Retry
from edge_agent.mqtt.subscriptions import Subscriptions
from edge_agent.mqtt.topics import is_publishable
from edge_agent.mqtt.watch import Silence

_log = logging.getLogger(__name__)

_TICK_S = 0.5  #: how often the link is looked at
_GOODBYE_S = 2.0
_CUT_S = 1.0


def _ignore_message(_message: Message) -> None:
    return


def _ignore_change(_status: PartStatus) -> None:
    return


class BrokerConnection:
    """Keeps one link to the broker alive. `on_message` and `on_change` are called on the loop."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        on_message: Callable[[Message], None] = _ignore_message,
        on_change: Callable[[PartStatus], None] = _ignore_change,
    ) -> None:
        self._options = options
        self._clock = clock
        self._on_message = on_message
        self._on_change = on_change
        self._retry = Retry(options)
        self._subscriptions = Subscriptions()
        self._outgoing = Outgoing(options.max_unsent, options.max_unsent_bytes)
        self._status = PartStatus(State.OFF)
        self._connected = False
        self._refusal: Optional[Tuple[int, str]] = None
        self._inflight = FIRST_INFLIGHT
        self._link: Optional[Link] = None
        self._wake: asyncio.Event
        self._task: Optional[asyncio.Task[None]] = None
        self._stopping = False
        self.connects = 0
        self.dropped = 0  #: QoS 0 messages that came faster than the loop took them
        self.unreadable = 0  #: messages whose topic was no UTF-8

    # -- for the rooms above ---------------------------------------------------------------------------

    def listen(self, on_message: Callable[[Message], None], on_change: Callable[[PartStatus], None]) -> None:
        """Say who hears; before start()."""
        self._on_message = on_message
        self._on_change = on_change

    def subscribe(self, topic_filter: str, qos: int) -> None:
        """Hear these topics, now and after each reconnect."""
        self._subscriptions.want(topic_filter, qos)
        if self._link is not None and self._link.accepted_at is not None:
            self._ask_subscriptions(self._link)

    async def start(self) -> None:
        """Begin to connect, in the background; a broker that is down is no error."""
        self._stopping = False
        self._wake = asyncio.Event()
        self._set_status(State.DEGRADED, Failure("mqtt.connecting"))
        self._task = asyncio.get_running_loop().create_task(self._run(), name="mqtt-connection")

    async def stop(self) -> None:
        """Say goodbye to the broker and end; publishes nothing by itself."""
        self._stopping = True
        task, self._task = self._task, None
        if task is None:
            return
        link = self._link
        if link is not None:
            link.hang_up()
            if link.accepted_at is None or not await link.ended(_GOODBYE_S):
                link.cut()
                await link.ended(_CUT_S)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._set_status(State.OFF, Failure(""))

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        retain: bool = False,
        properties: Optional[PublishProperties] = None,
    ) -> asyncio.Future[None]:
        """Send now or not at all: nothing is kept for a later connection.

        The future resolves when the message is acknowledged (QoS 1) or written to the socket (QoS 0). It carries
        BrokerError when there is no connection or it broke (the message may have arrived), PublishRefused when the
        same message would be refused again.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            if not is_publishable(topic):
                raise errors.PublishRefused(f"{topic[:200]!r} is not a topic to publish on")
            if self._link is None or self._link.accepted_at is None:
                raise errors.BrokerError("not connected to the broker")
            self._outgoing.check_room(len(payload))
            mid = self._link.publish(topic, payload, qos, retain, properties)
        except errors.BrokerError as exc:
            future.set_exception(exc)
            future.exception()  # seen: whoever does not care for the outcome leaves no complaint in the log
            return future
        self._outgoing.add(mid, future, len(payload), self._clock.monotonic(), acknowledged=qos > 0)
        return future

    @property
    def connected(self) -> bool:
        """Whether the broker has taken us and has answered our subscriptions."""
        return self._connected

    @property
    def version(self) -> str:
        """The protocol version of the present (or last tried) connection."""
        return self._link.version if self._link is not None else self._retry.version

    @property
    def unsent(self) -> int:
        """Messages handed over and not yet acknowledged."""
        return len(self._outgoing)

    def status(self) -> PartStatus:
        """What runs, or why not."""
        return self._status

    # -- what the link says ----------------------------------------------------------------------------

    def link_accepted(self, session_present: bool) -> None:
        """CONNACK: ask for our topics."""
        link = self._link
        if link is None:
            return
        self.connects += 1
        session = "with the session it kept" if session_present else "in a new session"
        where = (self._options.host, self._options.port, link.version, session)
        _log.info("connected to the MQTT broker at %s:%s, MQTT %s, %s", *where, extra={"code": "mqtt.up"})
        self._subscriptions.forget_answers()
        self._ask_subscriptions(link)
        self._show_connected()

    def link_refused(self, reason: int, text: str) -> None:
        """CONNACK with a refusal."""
        self._refusal = (reason, text)

    def link_subscribed(self, mid: int, refusals: Sequence[str]) -> None:
        """SUBACK."""
        self._subscriptions.answered(mid, refusals)
        self._show_connected()

    def link_message(self, message: Message) -> None:
        """PUBLISH."""
        self._on_message(message)

    def link_sent(self, mid: int, refusal: str) -> None:
        """PUBACK, or a QoS 0 message left."""
        self._outgoing.settle(mid, refusal)

    # -- the supervisor --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._stopping:
            try:
                delay = await self._one_link()
            except Exception:  # noqa: BLE001  the supervisor of the link: a fault of ours must not end MQTT for good
                _log.exception("the MQTT connection met an error", extra={"code": "mqtt.failed"})
                delay = self._retry.failed()
            await asyncio.sleep(delay)

    async def _one_link(self) -> float:
        """Connect, stay until the link ends; answers the seconds to wait before the next one."""
        self._refusal = None
        link = Link(self._options, self._retry.version, self._retry.fresh, self._inflight, self._clock, self)
        try:
            link.start()
        except OSError as exc:
            self._set_status(State.FAILED, failures.of_tls_files(self._options, exc))
            return self._retry.failed()
        self._link = link
        silent: Optional[str] = None
        try:
            silent = await self._watch(link)
        finally:
            link.cut()
            self._link = None
            link.release()
            self._forget(link)
        ending = self._ending(link, silent or link.overrun or None)
        if ending.failure is not None and not self._stopping:
            self._set_status(State.FAILED, ending.failure)
        return ending.delay_s

    async def _watch(self, link: Link) -> Optional[str]:
        """Wait for the link's end; answers why we gave it up, None when it ended by itself."""
        silence = Silence(self._options.keepalive_s, self._options.ack_timeout_s, self._clock.monotonic())
        while not await link.ended(_TICK_S):
            now = self._clock.monotonic()
            reason = silence.complaint(now, link.accepted_at, link.heard_at, self._outgoing.oldest_unacknowledged())
            if reason:
                link.cut()
                await link.ended(_CUT_S)
                return reason
            if link.accepted_at is not None and self._subscriptions.due(now):
                self._ask_subscriptions(link)
        return None

    def _ask_subscriptions(self, link: Link) -> None:
        filters = self._subscriptions.filters()
        if not filters:
            return
        try:
            mid = link.subscribe(filters)
        except errors.BrokerError:  # the link is ending; the next one asks again
            return
        self._subscriptions.asked(mid, filters, self._clock.monotonic())

    def _ending(self, link: Link, given_up: Optional[str]) -> Ending:
        lived_s = None if link.accepted_at is None else self._clock.monotonic() - link.accepted_at
        return self._retry.after(LinkEnd(lived_s, link.thrown_out, link.cause, self._refusal, given_up))

    def _forget(self, link: Link) -> None:
        self._connected = False
        self._inflight = link.max_inflight
        self.dropped += link.dropped
        self.unreadable += link.unreadable
        self._outgoing.fail_all("the connection to the broker ended before it acknowledged the message")

    # -- status ----------------------------------------------------------------------------------------

    def _show_connected(self) -> None:
        if not self._subscriptions.complete:
            return
        self._connected = True
        refused = self._subscriptions.refused
        if refused:
            topic, text = next(iter(refused.items()))
            self._set_status(State.DEGRADED, Failure("mqtt.subscribe_refused", {"topic": topic, "error": text}))
        else:
            self._set_status(State.OK, Failure(""))

    def _set_status(self, state: State, failure: Failure) -> None:
        if (state, failure.code) == (self._status.state, self._status.code):
            self._status = dataclasses.replace(self._status, args=failure.args)
            return
        self._status = PartStatus(state, self._clock.now(), failure.code, failure.args)
        if failure.code and failure.code != "mqtt.connecting":
            _log.warning("MQTT: %s", failure, extra={"code": failure.code})
        self._on_change(self._status)
