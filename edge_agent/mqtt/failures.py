"""Why there is no connection, as a code for people; pure."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Dict, Mapping, Union

from edge_agent.mqtt.options import BrokerOptions

_NOT_AUTHORIZED = frozenset((0x86, 0x87, 0x8A, 0x8C))  #: bad user or password, not authorized, banned, bad method
UNSUPPORTED_VERSION = 0x84


@dataclass(frozen=True)
class Failure:
    """A code of domain/codes.py with its arguments."""

    code: str
    args: Mapping[str, Union[str, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(self.args.get("error", self.code))


def _args(options: BrokerOptions, error: str) -> Dict[str, Union[str, int]]:
    return {"host": options.host, "port": options.port, "error": error}


def unreachable(options: BrokerOptions, error: str) -> Failure:
    """No connection, or one that ended."""
    return Failure("mqtt.unreachable", _args(options, error))


def of_exception(options: BrokerOptions, cause: BaseException) -> Failure:
    """What an exception of the network thread means."""
    text = str(cause) or type(cause).__name__
    if isinstance(cause, ssl.SSLError):
        return Failure("mqtt.tls_failed", _args(options, text))
    return unreachable(options, text)


def of_tls_files(options: BrokerOptions, cause: OSError) -> Failure:
    """The files of certificates cannot be used."""
    return Failure("mqtt.tls_failed", _args(options, str(cause)))


def of_refusal(options: BrokerOptions, reason: int, text: str) -> Failure:
    """What the broker's answer to our CONNECT means; `reason` is an MQTT 5 reason code."""
    code = "mqtt.not_authorized" if reason in _NOT_AUTHORIZED else "mqtt.refused"
    return Failure(code, _args(options, text))
