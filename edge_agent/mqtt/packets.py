"""paho's messages and properties from and to ours; pure."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, List, Optional, Sequence, Tuple

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.options import BrokerOptions

_DIGEST_BYTES = 16


def digest(payload: bytes) -> bytes:
    """The mark by which a repeated payload is known."""
    return hashlib.blake2b(payload, digest_size=_DIGEST_BYTES).digest()


def message(topic: str, raw: paho.MQTTMessage, received_at: float, acknowledge: Callable[[], bool]) -> Message:
    """What came, as the rest of the house reads it."""
    found = raw.properties
    return Message(
        topic=topic,
        payload=raw.payload,
        qos=raw.qos,
        retain=bool(raw.retain),
        dup=bool(raw.dup),
        response_topic=getattr(found, "ResponseTopic", None),
        correlation_data=getattr(found, "CorrelationData", None),
        user_properties=tuple(getattr(found, "UserProperty", ())),
        content_type=getattr(found, "ContentType", None),
        message_expiry_s=getattr(found, "MessageExpiryInterval", None),
        received_at=received_at,
        digest=digest(raw.payload),
        acknowledge=acknowledge,
    )


def publish_properties(given: Optional[PublishProperties]) -> Optional[Properties]:
    """The properties of a PUBLISH. Raises ValueError, MQTTException for values that MQTT cannot carry."""
    if given is None:
        return None
    made = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    for name, value in (
        ("ResponseTopic", given.response_topic),
        ("CorrelationData", given.correlation_data),
        ("ContentType", given.content_type),
        ("MessageExpiryInterval", given.message_expiry_s),
        ("UserProperty", list(given.user_properties) or None),
    ):
        if value is not None:
            setattr(made, name, value)
    return made


def connect_properties(options: BrokerOptions) -> Properties:
    """A session that outlives the connection, and how much the broker may send us."""
    made = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    made.SessionExpiryInterval = options.session_expiry_s
    made.ReceiveMaximum = options.receive_maximum
    made.MaximumPacketSize = options.max_packet_bytes
    return made


def subscriptions(filters: Sequence[Tuple[str, int]], with_options: bool) -> List[Tuple[str, Any]]:
    """Topic filters as paho takes them.

    With options (MQTT 5) the retain flag stays on live messages too, and old retained messages come only when the
    subscription is new, not at each renewal.
    """
    if not with_options:
        return list(filters)
    return [(name, SubscribeOptions(qos=qos, retainAsPublished=True, retainHandling=1)) for name, qos in filters]
