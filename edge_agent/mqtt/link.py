"""One connection to the broker: callbacks of paho's thread turned into calls on the loop."""

from __future__ import annotations

import asyncio
import functools
import ssl
from typing import Any, Callable, Optional, Protocol, Sequence, Tuple

import paho.mqtt.client as paho
from paho.mqtt import MQTTException
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.mqtt import packets, protocol
from edge_agent.mqtt.inbox import Inbox
from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.network import NetworkClient
from edge_agent.mqtt.options import BrokerOptions
from edge_agent.mqtt.tls import tls_context

FIRST_INFLIGHT = 10  #: QoS 1 messages of ours on the wire before we know what the broker allows (the least seen in the wild)
_MAX_INFLIGHT = 20
_PACKET_OVERHEAD = 1024  #: header and properties of what we publish, generously


class LinkOwner(Protocol):
    """What a link says, always on the loop."""

    def link_accepted(self, session_present: bool) -> None:
        """The broker took our CONNECT."""

    def link_refused(self, reason: int, text: str) -> None:
        """The broker refused it; the link ends by itself."""

    def link_subscribed(self, mid: int, refusals: Sequence[str]) -> None:
        """SUBACK: one text a topic filter, empty where it was granted."""

    def link_message(self, message: Message) -> None:
        """A message came."""

    def link_sent(self, mid: int, refusal: str) -> None:
        """QoS 0: written to the socket; QoS 1: acknowledged, or refused with a text."""


class Link:
    """A client and its thread, from CONNECT to the end; never used twice."""

    def __init__(
        self, options: BrokerOptions, version: str, fresh: bool, max_inflight: int, clock: Clock, owner: LinkOwner
    ) -> None:
        self.version = version
        self.max_inflight = max_inflight  #: what the broker allows, once it has answered; used by the next link
        self._options = options
        self._fresh = fresh  #: clean start: forget the session that the broker keeps
        self._clock = clock
        self._owner = owner
        self._loop: asyncio.AbstractEventLoop
        self._ended: asyncio.Event
        self._client: Optional[NetworkClient] = None
        self._inbox = Inbox(options.max_inbox, options.max_inbox_bytes)
        self.cause: Optional[BaseException] = None  #: what ended the thread, if an exception did
        self.accepted_at: Optional[float] = None
        self.thrown_out = False  #: the broker ended it: by DISCONNECT (MQTT 5) or by closing
        self.overrun = ""  #: why the thread itself cut the connection: QoS 1 messages found the inbox full
        self.dropped = 0  #: QoS 0 messages that found the inbox full
        self.unreadable = 0  #: messages with a topic that is no UTF-8
        self.max_packet_bytes = 268_435_455  #: what the broker takes

    def start(self) -> None:
        """Make the client and let its thread dial. Raises OSError when a certificate file is no good."""
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        wire = MQTTProtocolVersion.MQTTv5 if self.version == protocol.V5 else MQTTProtocolVersion.MQTTv311
        context = tls_context(self._options) if self._options.tls else None
        self._client = NetworkClient(self._options.client_id, wire, self._dial, self._on_thread_end, self._clock.monotonic)
        self._furnish(self._client, context)
        self._client.loop_start()

    def _furnish(self, client: NetworkClient, context: Optional[ssl.SSLContext]) -> None:
        options = self._options
        client.max_inflight_messages_set(self.max_inflight)
        if options.username:
            client.username_pw_set(options.username, options.password or None)
        if context is not None:
            client.tls_set_context(context)
        if options.will_topic:
            client.will_set(options.will_topic, options.will_payload, qos=1, retain=True)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe

    # -- from the loop ---------------------------------------------------------------------------------

    @property
    def heard_at(self) -> float:
        """Monotonic second of the last byte from the broker (of the start, before the first)."""
        return self._client.heard_at if self._client is not None else 0.0

    async def ended(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; False when it still runs."""
        try:
            await asyncio.wait_for(self._ended.wait(), timeout_s)
        except asyncio.TimeoutError:
            return False
        return True

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool, properties: Optional[PublishProperties]) -> int:
        """Hand a message to the network thread; answers its number. Raises BrokerError, PublishRefused."""
        client = self._live()
        if len(payload) + len(topic) + _PACKET_OVERHEAD > self.max_packet_bytes:
            raise errors.PublishRefused(f"{len(payload)} bytes are more than the broker takes ({self.max_packet_bytes})")
        try:
            made = packets.publish_properties(properties) if self.version == protocol.V5 else None
            info = client.publish(topic, payload, qos, retain, made)
        except (ValueError, MQTTException) as exc:
            raise errors.PublishRefused(f"cannot publish on {topic[:200]!r}: {exc}") from exc
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise errors.BrokerError(f"the broker connection takes no messages: {paho.error_string(info.rc)}")
        return info.mid

    def subscribe(self, filters: Sequence[Tuple[str, int]]) -> int:
        """Ask for topics; answers the number that SUBACK will carry. Raises BrokerError."""
        code, mid = self._live().subscribe(packets.subscriptions(filters, with_options=self.version == protocol.V5))
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS or mid is None:
            raise errors.BrokerError(f"cannot subscribe: {paho.error_string(code)}")
        return mid

    def hang_up(self) -> None:
        """Say goodbye to the broker: no will, and the thread ends when the goodbye is written."""
        if self._client is not None:
            self._client.disconnect()

    def cut(self) -> None:
        """End without a goodbye."""
        if self._client is not None:
            self._client.cut()

    def release(self) -> None:
        """Let go of the client: it says nothing more, and its sockets close when its thread has ended."""
        self._client = None

    def _live(self) -> NetworkClient:
        if self._client is None or self._ended.is_set():
            raise errors.BrokerError("not connected to the broker")
        return self._client

    def _ack(self, mid: int) -> bool:
        """PUBACK on the connection that the message came by; on another one its number means something else."""
        client = self._client
        if client is None or self._ended.is_set() or client.given_up:
            return False
        return client.ack(mid, 1) == MQTTErrorCode.MQTT_ERR_SUCCESS

    # -- on the network thread -------------------------------------------------------------------------

    def _post(self, function: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop is closed: nobody listens any more
            return

    def _dial(self, client: paho.Client) -> None:
        options = self._options
        if self.version != protocol.V5:
            client.connect(options.host, options.port, options.keepalive_s)
            return
        # No clean start (but for a poisonous session): mosquitto loses a session at its own restart when the
        # client's last connect said clean start.
        wanted = packets.connect_properties(options)
        client.connect(options.host, options.port, options.keepalive_s, clean_start=self._fresh, properties=wanted)

    def _on_thread_end(self, cause: Optional[BaseException]) -> None:
        self._post(self._end, cause)

    def _on_connect(self, client: paho.Client, _data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        if reason.is_failure:
            self._post(self._tell, self._owner.link_refused, reason.value, str(reason))
            return
        self.max_inflight = min(_MAX_INFLIGHT, getattr(properties, "ReceiveMaximum", _MAX_INFLIGHT))
        self._post(self._accept, bool(flags.session_present), getattr(properties, "MaximumPacketSize", self.max_packet_bytes))

    def _on_disconnect(self, client: Any, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
        self.thrown_out = not client.given_up and str(reason) != "Keep alive timeout"

    def _on_message(self, client: Any, _data: Any, raw: paho.MQTTMessage) -> None:
        if client.given_up:
            return  # what was on its way when the connection was cut; it comes again
        try:
            topic = raw.topic
        except UnicodeDecodeError:
            self.unreadable += 1
            client.ack(raw.mid, raw.qos)
            return
        if not self._inbox.has_room(raw.qos, len(raw.payload)):
            self._no_room(raw.qos)
            return
        acknowledge = functools.partial(self._ack, raw.mid) if raw.qos else bool
        self._inbox.put(packets.message(topic, raw, self._clock.monotonic(), acknowledge))
        self._post(self._deliver)

    def _no_room(self, qos: int) -> None:
        """QoS 0 is dropped; QoS 1 must not be: unacknowledged, the broker keeps it for the next connection."""
        if qos == 0:
            self.dropped += 1
            return
        self.overrun = "messages came faster than the agent takes them"
        self.cut()

    def _on_publish(self, _client: Any, _data: Any, mid: int, reason: ReasonCode, _properties: Any) -> None:
        self._post(self._tell, self._owner.link_sent, mid, str(reason) if reason.is_failure else "")

    def _on_subscribe(self, _client: Any, _data: Any, mid: int, reasons: Sequence[ReasonCode], _properties: Any) -> None:
        refusals = [str(one) if one.is_failure else "" for one in reasons]
        self._post(self._tell, self._owner.link_subscribed, mid, refusals)

    # -- back on the loop ------------------------------------------------------------------------------

    def _tell(self, function: Callable[..., None], *args: Any) -> None:
        if self._client is not None:
            function(*args)

    def _accept(self, session_present: bool, max_packet_bytes: int) -> None:
        self.accepted_at = self._clock.monotonic()
        self.max_packet_bytes = max_packet_bytes
        self._tell(self._owner.link_accepted, session_present)

    def _deliver(self) -> None:
        self._tell(self._owner.link_message, self._inbox.take())

    def _end(self, cause: Optional[BaseException]) -> None:
        self.cause = cause
        self._ended.set()
