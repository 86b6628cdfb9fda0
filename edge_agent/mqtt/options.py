"""What the connection to the broker needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class BrokerOptions:
    """One broker and this agent's place at it; the first keys are those of `[mqtt]`."""

    host: str = "127.0.0.1"
    port: int = 1883
    client_id: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca_file: str = ""  #: empty: the system's certificates
    cert_file: str = ""
    key_file: str = ""
    version: str = "auto"  #: auto | 5 | 3.1.1
    keepalive_s: int = 30
    receive_maximum: int = 20  #: QoS 1 messages on their way to us before the first is acknowledged (MQTT 5)
    will_topic: str = ""  #: empty: no will
    will_payload: bytes = b""
    max_packet_bytes: int = 67_108_864  #: the broker keeps larger packets from us (MQTT 5)
    session_expiry_s: int = 86_400  #: how long the broker keeps our session while we are away (MQTT 5)
    retry_min_s: float = 0.5
    retry_max_s: float = 30.0
    ack_timeout_s: float = 60.0  #: a broker that acknowledges nothing for so long is left and called anew
    max_inbox: int = 1000  #: messages that came and that the loop has not taken; with more QoS 1 the connection is cut
    max_inbox_bytes: int = 134_217_728
    max_unsent: int = 1000  #: messages handed to the broker and not yet acknowledged
    max_unsent_bytes: int = 67_108_864
