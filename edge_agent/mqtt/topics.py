"""The agent's topics (design: section MQTT), made and read in one place; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

MAX_TAIL_LEVELS = 4  #: levels that a device may add to a request topic
_MAX_BYTES = 65_535
_MAX_LEVELS = 200  #: brokers refuse deeper topics, some by closing the connection


def _is_plain(character: str) -> bool:
    """Whether brokers take it within a topic: control characters and non-characters end the connection."""
    point = ord(character)
    control = point <= 0x1F or 0x7F <= point <= 0x9F
    surrogate = 0xD800 <= point <= 0xDFFF
    not_a_character = 0xFDD0 <= point <= 0xFDEF or point & 0xFFFE == 0xFFFE
    return not (control or surrogate or not_a_character)


def is_publishable(topic: str) -> bool:
    """Whether a message can be published there without the broker throwing us out."""
    if not topic or len(topic) > _MAX_BYTES or "+" in topic or "#" in topic or topic.startswith("$"):
        return False
    if not all(map(_is_plain, topic)):
        return False
    return topic.count("/") < _MAX_LEVELS and len(topic.encode()) <= _MAX_BYTES


@dataclass(frozen=True)
class InferTopic:
    """What a request topic says: the model, and the levels that the device added."""

    model: str
    tail: Tuple[str, ...] = ()

    @property
    def tail_is_good(self) -> bool:
        """No level empty and not more than allowed."""
        return len(self.tail) <= MAX_TAIL_LEVELS and all(self.tail)


class Topics:
    """All topics below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.status = prefix + "/status"
        self.heartbeat = prefix + "/heartbeat"
        self.events = prefix + "/agent/events"
        self.infer_filter = prefix + "/models/+/infer/#"  # `#` covers the level above it: `infer` itself
        self._models = prefix + "/models/"

    def result(self, request: InferTopic) -> str:
        """Where the answer to a request goes that names no topic of its own."""
        return "/".join((self._models + request.model, "result") + request.tail)

    def camera(self, camera: str, leaf: str) -> str:
        """`results`, `counts` or `status` of a camera."""
        return f"{self.prefix}/cameras/{camera}/{leaf}"

    def parse_infer(self, topic: str) -> Optional[InferTopic]:
        """The request that a topic means; None when it is no request topic."""
        if not topic.startswith(self._models):
            return None
        model, *rest = topic[len(self._models) :].split("/")
        if not rest or rest[0] != "infer":
            return None
        return InferTopic(model, tuple(rest[1:]))

    def may_answer_on(self, topic: str, request: InferTopic) -> bool:
        """Whether a requester may choose that topic.

        The agent's rights at the broker are wider than a device's: below its own prefix it answers only on the
        result topics of the model that was asked.
        """
        if not is_publishable(topic):
            return False
        own = topic == self.prefix or topic.startswith(self.prefix + "/")
        results = self.result(InferTopic(request.model))
        return not own or topic == results or topic.startswith(results + "/")
