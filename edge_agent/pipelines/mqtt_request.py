"""An MQTT message read as a request: what it carries, who wants the answer and where; pure."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Callable, Optional, Tuple, Type, Union

from edge_agent import errors
from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.topics import InferTopic, Topics

_ID_CHARACTERS = 128  #: longer correlation data is shown in hex, shortened
_HEADER_LENGTH = "inference-header-content-length"
_JSON = "application/json"


class Kind(enum.Enum):
    """What a payload is."""

    PICTURE = "picture"
    KSERVE = "kserve"


@dataclass(frozen=True)
class Answer:
    """One message that somebody waits for."""

    topic: str
    payload: Union[bytes, bytearray]
    properties: PublishProperties
    ok: bool = True


@dataclass(frozen=True)
class MqttRequest:
    """A message on a request topic, and where its answer goes."""

    target: InferTopic
    message: Message
    answer_topic: str
    request_id: str  #: correlation data as text or hex, else the tail
    deadline: Optional[float]  #: monotonic second at which the message expires
    fault: str = ""  #: why its address is no good; empty when it is good

    @property
    def model(self) -> str:
        """The model asked."""
        return self.target.model

    @property
    def source(self) -> str:
        """The request's source in rows."""
        return "mqtt/" + self.model[:200]

    def kind(self, max_payload_bytes: int) -> Kind:
        """What the payload is, by its content. Raises InvalidRequest, PayloadTooLarge."""
        payload = self.message.payload
        if not payload:
            raise errors.InvalidRequest("the payload is empty: send a picture or a KServe request")
        if len(payload) > max_payload_bytes:
            text = "the payload has %d bytes, more than the %d allowed by mqtt.max_payload_bytes"
            raise errors.PayloadTooLarge(text % (len(payload), max_payload_bytes))
        if self.may_have_id:
            return Kind.KSERVE
        if is_picture(payload) or (self.message.content_type or "").lower().startswith("image/"):
            return Kind.PICTURE
        raise errors.InvalidRequest(
            "the payload is neither a JPEG, PNG or WebP picture nor KServe JSON (it begins with %r)" % payload[:12]
        )

    @property
    def may_have_id(self) -> bool:
        """Whether it is a KServe request: only reading it tells whether its body has an id."""
        return self.header_length is not None or self.message.payload[:64].lstrip()[:1] == b"{"

    @property
    def header_length(self) -> Optional[str]:
        """The size of the JSON part of a KServe binary request, as it was given."""
        return self.message.user_property(_HEADER_LENGTH)

    def answer(
        self,
        payload: Union[bytes, bytearray],
        content_type: str = _JSON,
        header_length: Optional[int] = None,
        ok: bool = True,
    ) -> Answer:
        """The answer with everything its reader needs to recognise it."""
        user = () if header_length is None else ((_HEADER_LENGTH, str(header_length)),)
        properties = PublishProperties(
            correlation_data=self.message.correlation_data, content_type=content_type, user_properties=user
        )
        return Answer(self.answer_topic, payload, properties, ok)

    def error(self, text: str, request_id: str = "") -> Answer:
        """An answer that says what went wrong."""
        body = {"error": text}
        if request_id or self.request_id:
            body["id"] = request_id or self.request_id
        return self.answer(json.dumps(body).encode(), ok=False)


class Known:
    """What comes to light about a request while it is done."""

    def __init__(self, tell_named: Callable[[bool], None]) -> None:
        self._tell_named = tell_named
        self.request_id: str = ""  #: the id in the KServe body
        self.without_row: Tuple[Type[errors.EdgeAgentError], ...] = (errors.EdgeAgentError,)  #: errors that nobody logs yet

    def read(self, request_id: str) -> None:
        """The body was read, and has this id or none."""
        self.request_id = request_id
        self._tell_named(bool(request_id))


def is_picture(payload: bytes) -> bool:
    """Whether it begins as JPEG, PNG or WebP do."""
    webp = payload[:4] == b"RIFF" and payload[8:12] == b"WEBP"
    return webp or payload.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"))


def read(topics: Topics, target: InferTopic, message: Message) -> MqttRequest:
    """The request that a message on a request topic is; a bad address is told in `fault`."""
    fault = ""
    if not target.tail_is_good:
        fault = "the topic has %d levels behind infer, or an empty one; one to four are allowed" % len(target.tail)
    answer_topic = topics.result(target)
    wanted = message.response_topic
    if wanted is not None:
        if topics.may_answer_on(wanted, target):
            answer_topic = wanted
        else:
            fault = "the response topic %r cannot be answered on" % wanted[:200]
    return MqttRequest(target, message, answer_topic, _request_id(target, message), _deadline(message), fault)


def _deadline(message: Message) -> Optional[float]:
    return None if message.message_expiry_s is None else message.received_at + message.message_expiry_s


def _request_id(target: InferTopic, message: Message) -> str:
    data = message.correlation_data
    if not data:
        return "/".join(target.tail)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable() and len(text) <= _ID_CHARACTERS:
        return text
    return data[: _ID_CHARACTERS // 2].hex()
