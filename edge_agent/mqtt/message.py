"""A message from the broker, and the properties of one to it; no MQTT library in sight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, Optional, Tuple


def _nothing_to_acknowledge() -> bool:
    return False


@dataclass(frozen=True)
class PublishProperties:
    """MQTT 5 properties of a message we send; left out on an MQTT 3.1.1 connection."""

    response_topic: Optional[str] = None
    correlation_data: Optional[bytes] = None
    content_type: Optional[str] = None
    message_expiry_s: Optional[int] = None
    user_properties: Tuple[Tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Message:
    """One message as it came; with QoS 1 the broker keeps it until ack()."""

    topic: str
    payload: bytes = field(repr=False)
    qos: int = 0
    retain: bool = False
    dup: bool = False
    response_topic: Optional[str] = None
    correlation_data: Optional[bytes] = None
    user_properties: Tuple[Tuple[str, str], ...] = ()
    content_type: Optional[str] = None
    message_expiry_s: Optional[int] = None
    received_at: float = 0.0  #: monotonic seconds
    digest: bytes = field(default=b"", repr=False)  #: BLAKE2b of the payload, made on the network thread
    acknowledge: Callable[[], bool] = field(default=_nothing_to_acknowledge, repr=False, compare=False)

    def ack(self) -> bool:
        """Tell the broker it may forget the message; False when its connection is gone (it will come again)."""
        return self.acknowledge()

    def user_property(self, name: str) -> Optional[str]:
        """The last user property of that name, whatever its case."""
        found: Dict[str, str] = {key.lower(): value for key, value in self.user_properties}
        return found.get(name.lower())
