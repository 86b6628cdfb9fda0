"""What the end of one connection means for the next: when, in which version, and what to tell people; pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Optional, Tuple

from edge_agent.mqtt import failures
from edge_agent.mqtt.failures import Failure
from edge_agent.mqtt.options import BrokerOptions
from edge_agent.mqtt.protocol import VersionChoice
from edge_agent.mqtt.redial import Redial

_POISONED = 3  #: network threads in a row that died of what the stored session held


@dataclass(frozen=True)
class LinkEnd:
    """How a connection ended."""

    lived_s: Optional[float] = None  #: since the broker accepted it; None when it never did
    thrown_out: bool = False  #: the broker ended it
    cause: Optional[BaseException] = None  #: what ended the network thread, if an exception did
    refusal: Optional[Tuple[int, str]] = None  #: reason code and text of the broker's refusal
    given_up: Optional[str] = None  #: why we ended it ourselves


@dataclass(frozen=True)
class Ending:
    """What follows: seconds until the next connection, and what to show; None: nothing worth a word."""

    delay_s: float
    failure: Optional[Failure]


class Retry:
    """Remembers enough of past connections to choose the next."""

    def __init__(self, options: BrokerOptions, rng: Optional[random.Random] = None) -> None:
        self._options = options
        self._versions = VersionChoice(options.version)
        self._redial = Redial(options.retry_min_s, options.retry_max_s, rng or random.Random())
        self._deaths = 0

    @property
    def version(self) -> str:
        """The protocol version to try next."""
        return self._versions.now

    @property
    def fresh(self) -> bool:
        """Whether to give up the stored session, as what lies in it kills us each time."""
        return self._deaths >= _POISONED

    def failed(self) -> float:
        """Seconds to wait after an attempt that did not even begin."""
        return self._redial.failed()

    def after(self, end: LinkEnd) -> Ending:
        """The next step after a connection, or the attempt at one."""
        broken = end.cause is not None and not isinstance(end.cause, OSError)
        self._deaths = self._deaths + 1 if broken and end.lived_s is not None else 0
        if end.lived_s is not None:
            self._versions.lost()
            delay_s = self._redial.lost(end.lived_s, end.thrown_out and end.given_up is None)
            return Ending(delay_s, self._failure(end))
        if end.refusal is not None and end.refusal[0] == failures.UNSUPPORTED_VERSION and self._versions.refused():
            return Ending(0.0, None)  # this is how `auto` finds the version
        if end.refusal is None and end.given_up is None and not isinstance(end.cause, OSError):
            self._versions.hung_up()
        return Ending(self._redial.failed(), self._failure(end))

    def _failure(self, end: LinkEnd) -> Failure:
        if end.refusal is not None:
            return failures.of_refusal(self._options, *end.refusal)
        if self._redial.duel:
            return Failure("mqtt.client_id_taken", {"client_id": self._options.client_id})
        if end.given_up is not None:
            return failures.unreachable(self._options, end.given_up)
        if end.cause is not None:
            return failures.of_exception(self._options, end.cause)
        return failures.unreachable(self._options, "the broker closed the connection")
