from __future__ import annotations

import asyncio
from typing import Any, List, Optional

import pytest

from edge_agent import errors
from edge_agent.domain.status import PartStatus, State
from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.topics import Topics
from edge_agent.pipelines.mqtt_answers import Answers
from edge_agent.pipelines.mqtt_repeats import Repeats
from edge_agent.pipelines.mqtt_request import Answer, Kind, MqttRequest, is_picture, read

TOPICS = Topics("p")


def request(topic: str = "p/models/m/infer", payload: bytes = b"x", **fields: Any) -> MqttRequest:
    target = TOPICS.parse_infer(topic)
    assert target is not None
    return read(TOPICS, target, Message(topic, payload, digest=payload, **fields))


@pytest.mark.parametrize(
    ("data", "tail", "shown"),
    [
        (None, "", ""),
        (None, "/press/7", "press/7"),
        (b"", "/press", "press"),
        (b"n-1", "/press", "n-1"),
        ("\u53f7".encode(), "", "\u53f7"),
        (b"\xff\x00", "", "ff00"),
        (b"a\nb", "", "610a62"),
        (b"\xff" * 1000, "", "ff" * 64),
        (b"a" * 129, "", "61" * 64),
    ],
)
def test_the_request_id_is_the_correlation_data_as_text_or_hex_else_the_tail(
    data: Optional[bytes], tail: str, shown: str
) -> None:
    assert request("p/models/m/infer" + tail, correlation_data=data).request_id == shown


@pytest.mark.parametrize(
    ("payload", "fields", "kind"),
    [
        (b"\xff\xd8\xff\xe0", {}, Kind.PICTURE),
        (b"\x89PNG\r\n\x1a\n", {}, Kind.PICTURE),
        (b"RIFF\0\0\0\0WEBPVP8 ", {}, Kind.PICTURE),
        (b"GIF89a", {"content_type": "Image/GIF"}, Kind.PICTURE),
        (b'{"inputs": []}', {}, Kind.KSERVE),
        (b' \n\t{"inputs": []}', {}, Kind.KSERVE),
        (b'{"inputs": []}', {"content_type": "image/jpeg"}, Kind.KSERVE),
        (b"\xff\xd8\xff\xe0", {"user_properties": (("Inference-Header-Content-Length", "0"),)}, Kind.KSERVE),
    ],
)
def test_a_payload_is_known_by_its_content(payload: bytes, fields: Any, kind: Kind) -> None:
    assert request(payload=payload, **fields).kind(1000) is kind


@pytest.mark.parametrize(
    ("payload", "error"),
    [(b"", errors.InvalidRequest), (b"RIFF\0\0\0\0WAVE", errors.InvalidRequest), (b"{" * 13, errors.PayloadTooLarge)],
)
def test_what_is_neither_is_refused(payload: bytes, error: Any) -> None:
    with pytest.raises(error):
        request(payload=payload).kind(12)


def test_the_expiry_counts_from_the_arrival() -> None:
    assert request(received_at=10.0, message_expiry_s=5).deadline == 15.0
    assert request(received_at=10.0).deadline is None


def test_short_payloads_are_no_pictures() -> None:
    assert not any(is_picture(payload) for payload in (b"", b"\xff", b"RIFF", b"\x89PNG"))


def test_a_repeat_needs_correlation_data_or_the_dup_flag() -> None:
    repeats = Repeats(window_s=10.0)
    plain = request(payload=b"a")
    tagged = request(payload=b"a", correlation_data=b"1")
    repeats.begin(plain, 0.0)
    repeats.begin(tagged, 0.0)
    assert repeats.find(plain, 1.0) is None
    assert repeats.find(request(payload=b"a", dup=True), 1.0) is not None
    assert repeats.find(request(payload=b"b", dup=True), 1.0) is None
    assert repeats.find(tagged, 1.0) is not None
    assert repeats.find(request(payload=b"a", correlation_data=b"2"), 1.0) is None
    assert repeats.find(request(payload=b"a", correlation_data=b"1", response_topic="elsewhere"), 1.0) is None
    assert repeats.find(tagged, 11.0) is None


def test_an_id_in_the_body_makes_a_repeat_once_it_is_read() -> None:
    repeats = Repeats(window_s=10.0)
    first = repeats.begin(request(payload=b'{"id": "7"}'), 0.0)
    again = request(payload=b'{"id": "7"}')
    assert (repeats.find(again, 1.0), repeats.unread(again, 1.0)) == (None, first)
    first.tell_named(True)
    first.tell_named(False)  # said again at its end
    assert (repeats.find(again, 1.0), repeats.unread(again, 1.0)) == (first, None)
    assert repeats.find(again, 11.0) is None
    nameless = request(payload=b'{"inputs": 1}')
    repeats.begin(nameless, 0.0).tell_named(False)
    assert (repeats.find(nameless, 1.0), repeats.unread(nameless, 1.0)) == (None, None)


def test_a_picture_has_no_id_to_wait_for() -> None:
    repeats = Repeats(window_s=10.0)
    repeats.begin(request(payload=b"\xff\xd8\xff"), 0.0)
    assert repeats.unread(request(payload=b"\xff\xd8\xff"), 0.0) is None


def test_a_window_of_zero_remembers_nothing() -> None:
    repeats = Repeats(window_s=0.0)
    tagged = request(correlation_data=b"1", dup=True)
    seen = repeats.begin(tagged, 0.0)
    assert (repeats.find(tagged, 0.0), repeats.unread(tagged, 0.0)) == (None, None)
    repeats.done(tagged, seen, Answer("t", b"x", PublishProperties()))
    assert repeats.find(tagged, 0.0) is None


def test_only_the_latest_of_two_can_be_forgotten() -> None:
    repeats = Repeats(window_s=10.0)
    tagged = request(correlation_data=b"1")
    older, newer = repeats.begin(tagged, 0.0), repeats.begin(tagged, 0.0)
    repeats.forget(tagged, older)
    assert repeats.find(tagged, 0.0) is newer
    repeats.forget(tagged, newer)
    assert repeats.find(tagged, 0.0) is None


def test_repeats_keep_no_more_than_their_bounds() -> None:
    repeats = Repeats(window_s=10.0, max_requests=3, max_bytes=100)
    asked = [request(correlation_data=b"%d" % number) for number in range(5)]
    for one in asked:
        repeats.begin(one, 0.0)
    assert [repeats.find(one, 0.0) is not None for one in asked] == [False, False, True, True, True]
    for one in asked[2:]:
        seen = repeats.find(one, 0.0)
        assert seen is not None
        repeats.done(one, seen, Answer("t", b"x" * 60, PublishProperties()))
    assert [repeats.find(one, 0.0) is not None for one in asked] == [False, False, False, False, True]


class HandConnection:
    """Takes messages; the test says what becomes of them."""

    version = "5"
    unsent = 0

    def __init__(self) -> None:
        self.connected = False
        self.sent: List[bytes] = []
        self.futures: List[asyncio.Future] = []

    def publish(
        self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, properties: Optional[PublishProperties] = None
    ) -> asyncio.Future:
        self.sent.append(payload)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def listen(self, on_message: Any, on_change: Any) -> None:
        return

    def subscribe(self, topic_filter: str, qos: int) -> None:
        return

    def status(self) -> PartStatus:
        return PartStatus(State.OK)

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return


def answer(text: str) -> Answer:
    return Answer("t", text.encode(), PublishProperties())


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_answers_wait_for_the_connection_and_go_in_order_again_after_a_break() -> None:
    connection = HandConnection()
    answers = Answers(connection)
    settled = [answers.send(answer(str(number))) for number in range(3)]
    assert connection.sent == []
    connection.connected = True
    answers.pump()
    assert connection.sent == [b"0", b"1", b"2"]
    connection.connected = False
    connection.futures[0].set_result(None)
    for future in connection.futures[1:]:
        future.set_exception(errors.BrokerError("lost"))
    await turn()
    assert [future.done() for future in settled] == [True, False, False]
    connection.connected = True
    answers.pump()
    assert connection.sent[3:] == [b"1", b"2"]
    for future in connection.futures[3:]:
        future.set_result(None)
    assert await answers.drained(1.0)
    assert all(future.done() for future in settled)
    assert answers.sent == 3


async def test_the_oldest_answer_goes_when_too_many_wait() -> None:
    connection = HandConnection()
    answers = Answers(connection, max_answers=3, max_bytes=10)
    first, *_rest = [answers.send(answer(text)) for text in ("a", "b", "c", "d")]
    assert first.done()
    assert answers.dropped == 1
    answers.send(answer("12345678"))
    assert answers.dropped == 2, "c, d and the new one are ten bytes"
    connection.connected = True
    answers.pump()
    assert connection.sent == [b"c", b"d", b"12345678"]
    assert not await answers.drained(0.01)


async def test_a_refused_answer_is_not_tried_again() -> None:
    connection = HandConnection()
    connection.connected = True
    answers = Answers(connection)
    settled = answers.send(answer("x"))
    connection.futures[0].set_exception(errors.PublishRefused("Not authorized"))
    await asyncio.wait_for(settled, 1)
    assert (answers.refused, len(connection.sent), len(answers)) == (1, 1, 0)


async def test_no_more_answers_than_the_bound_are_on_their_way() -> None:
    connection = HandConnection()
    connection.connected = True
    answers = Answers(connection)
    for number in range(30):
        answers.send(answer(str(number)))
    assert len(connection.sent) == 20
    connection.futures[0].set_result(None)
    await turn()
    assert len(connection.sent) == 21
