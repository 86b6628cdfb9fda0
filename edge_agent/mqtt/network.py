"""The client of paho with its thread's life made visible: what it heard last, when it ended and why."""

from __future__ import annotations

import logging
import socket
from typing import Any, Callable, Optional

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion

_log = logging.getLogger(__name__)


class NetworkClient(paho.Client):
    """One connection of one paho client; it never reconnects by itself.

    paho keeps saying is_connected() and accepting messages after its thread died, and repeats old messages by
    numbers that mean nothing on a new connection. So a client lives as long as its connection, and whoever made
    it watches `heard_at` and waits for `ended`.
    """

    def __init__(
        self,
        client_id: str,
        version: MQTTProtocolVersion,
        dial: Callable[[paho.Client], Any],
        ended: Callable[[Optional[BaseException]], None],
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=None if version == MQTTProtocolVersion.MQTTv5 else False,
            protocol=version,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self._dial = dial
        self._tell_end = ended
        self._monotonic = monotonic
        self.heard_at = monotonic()
        self.given_up = False

    def loop_read(self, max_packets: int = 1) -> MQTTErrorCode:
        """Paho calls this when the socket has something to read."""
        self.heard_at = self._monotonic()
        return super().loop_read(max_packets)

    def loop_forever(self, timeout: float = 1.0, retry_first_connection: bool = False) -> MQTTErrorCode:
        """The whole life of the network thread."""
        cause: Optional[BaseException] = None
        try:
            self._dial(self)
            if self.given_up:
                self.cut()
            return super().loop_forever(timeout, retry_first_connection=False)
        except OSError as exc:
            cause = exc
        except Exception as exc:  # noqa: BLE001  the thread's runner: whatever a packet does, it ends here
            _log.warning("the MQTT network thread met an error", exc_info=True, extra={"code": "mqtt.failed"})
            cause = exc
        finally:
            self._tell_end(cause)
        return MQTTErrorCode.MQTT_ERR_UNKNOWN

    def cut(self) -> None:
        """Make the thread end soon, from any thread, without a goodbye to the broker."""
        self.given_up = True
        sock = self.socket()
        if sock is None:
            return
        try:
            sock.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]  # the thread's select() returns
        except OSError:
            return
