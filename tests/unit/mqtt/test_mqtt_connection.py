from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import subprocess
import threading
from typing import AsyncIterator, Awaitable, Callable, List, Optional

import paho.mqtt.client as paho
import pytest

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.mqtt.connection import BrokerConnection
from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.options import BrokerOptions
from tests.fixtures_mosquitto import (  # noqa: F401
    Mosquitto,
    MosquittoMaker,
    free_port,
    make_mosquitto_fixture,
    mosquitto_fixture,
)


class Heard:
    """A connection with all that it said."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.connection = connection
        self.messages: List[Message] = []
        self.changes: List[PartStatus] = []
        connection.listen(self.messages.append, self.changes.append)

    @property
    def codes(self) -> List[str]:
        return [change.code for change in self.changes]


@contextlib.asynccontextmanager
async def connected(
    broker: Optional[Mosquitto] = None, wait: bool = True, topic: str = "in/#", **options: object
) -> AsyncIterator[Heard]:
    settings = {"port": broker.port if broker else 1, "client_id": "agent", "keepalive_s": 5, "retry_max_s": 1.0}
    heard = Heard(BrokerConnection(BrokerOptions(**{**settings, **options}), Clock()))
    if topic:
        heard.connection.subscribe(topic, 1)
    await heard.connection.start()
    try:
        if wait:
            await until(lambda: heard.connection.connected)
        yield heard
    finally:
        await asyncio.wait_for(heard.connection.stop(), 8)


async def until(condition: Callable[[], object], within_s: float = 10.0) -> None:
    deadline = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "did not come about in time"
        await asyncio.sleep(0.01)


async def outcome(future: Awaitable[None]) -> None:
    await asyncio.wait_for(future, 5)


def send(broker: Mosquitto, *words: str) -> None:
    subprocess.run(broker.command("mosquitto_pub", *words), check=True, timeout=10)


def network_threads() -> List[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("paho-mqtt-client")]


async def test_a_message_arrives_with_all_its_properties(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto) as heard:
        send(
            mosquitto, "-V", "5", "-q", "1", "-t", "in/a", "-m", "hello",
            "-D", "publish", "response-topic", "back", "-D", "publish", "correlation-data", "c1",
            "-D", "publish", "user-property", "Size", "7", "-D", "publish", "content-type", "text/plain",
            "-D", "publish", "message-expiry-interval", "60",
        )  # fmt: skip
        await until(lambda: heard.messages)
        (message,) = heard.messages
        assert (message.topic, message.payload, message.qos, message.retain) == ("in/a", b"hello", 1, False)
        assert (message.response_topic, message.correlation_data) == ("back", b"c1")
        assert message.user_property("size") == "7"
        assert (message.content_type, message.message_expiry_s) == ("text/plain", 60)
        assert message.ack() is True


async def test_a_published_message_is_acknowledged_and_arrives_with_its_properties(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto) as heard:
        properties = PublishProperties(correlation_data=b"\x00\xff", content_type="x/y", user_properties=(("a", "b"),))
        await outcome(heard.connection.publish("in/back", b"\x00payload", qos=1, properties=properties))
        await outcome(heard.connection.publish("in/zero", b"", qos=0))
        await until(lambda: len(heard.messages) == 2)
        first = heard.messages[0]
        assert (first.payload, first.correlation_data, first.content_type) == (b"\x00payload", b"\x00\xff", "x/y")
        assert first.user_properties == (("a", "b"),)
        assert heard.connection.unsent == 0


async def test_an_unacknowledged_message_comes_again_and_an_acknowledged_one_does_not(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto) as heard:
        send(mosquitto, "-q", "1", "-t", "in/kept", "-m", "kept")
        send(mosquitto, "-q", "1", "-t", "in/done", "-m", "done")
        await until(lambda: len(heard.messages) == 2)
        kept, done = heard.messages
        assert done.ack()
    assert not kept.ack(), "an acknowledgement after the end of its connection must not be sent on another"
    async with connected(mosquitto) as again:
        await until(lambda: again.messages)
        await outcome(again.connection.publish("in/last", b"last", qos=1))
        await until(lambda: again.messages[-1].topic == "in/last")
        assert [(message.topic, message.dup) for message in again.messages] == [("in/kept", True), ("in/last", False)]


async def test_messages_sent_while_we_were_away_come_at_the_next_connect(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto):
        pass
    for number in range(5):
        send(mosquitto, "-q", "1", "-t", "in/a", "-m", str(number))
    mosquitto.terminate()
    mosquitto.start()
    async with connected(mosquitto) as heard:
        await until(lambda: len(heard.messages) == 5)
        assert [message.payload for message in heard.messages] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_broker_that_is_down_at_the_start_is_no_error(make_mosquitto: MosquittoMaker) -> None:
    broker = make_mosquitto(start=False)
    async with connected(broker, wait=False) as heard:
        await until(lambda: heard.connection.status().code == "mqtt.unreachable")
        assert heard.connection.status().state is State.FAILED
        assert heard.connection.status().args["port"] == broker.port
        with pytest.raises(errors.BrokerError):
            await heard.connection.publish("in/x", b"lost", qos=1)
        broker.start()
        await until(lambda: heard.connection.connected)
        assert heard.connection.status().state is State.OK
        await outcome(heard.connection.publish("in/x", b"there", qos=1))
        await until(lambda: heard.messages)
        assert [message.payload for message in heard.messages] == [b"there"], "nothing is kept for a later connection"


async def test_a_killed_broker_fails_what_was_on_its_way_and_hears_us_again_after_its_restart(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto) as heard:
        mosquitto.freeze()
        waiting = heard.connection.publish("in/x", b"?", qos=1)
        mosquitto.kill()
        with pytest.raises(errors.BrokerError):
            await outcome(waiting)
        await until(lambda: not heard.connection.connected)
        mosquitto.start()
        await until(lambda: heard.connection.connected)
        send(mosquitto, "-q", "1", "-t", "in/after", "-m", "x")
        await until(lambda: any(message.topic == "in/after" for message in heard.messages))
        assert len(network_threads()) == 1


async def test_a_broker_that_forgot_the_session_is_subscribed_anew(make_mosquitto: MosquittoMaker) -> None:
    broker = make_mosquitto()
    async with connected(broker) as heard:
        broker.kill()
        (broker.folder / "mosquitto.db").unlink(missing_ok=True)
        broker.start()
        await until(lambda: heard.connection.connects == 2 and heard.connection.connected)
        send(broker, "-q", "1", "-t", "in/after", "-m", "x")
        await until(lambda: heard.messages)


async def test_a_frozen_broker_is_noticed_within_one_and_a_half_keepalives(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto) as heard:
        mosquitto.freeze()
        await until(lambda: not heard.connection.connected, within_s=5 * 1.5 + 4)
        assert "silent" in heard.connection.status().args["error"]
        mosquitto.thaw()
        await until(lambda: heard.connection.connected)


async def test_a_broker_that_acknowledges_nothing_is_left(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto, ack_timeout_s=0.1, keepalive_s=60) as heard:
        mosquitto.freeze()
        waiting = heard.connection.publish("in/x", b"?", qos=1)
        with pytest.raises(errors.BrokerError):
            await outcome(waiting)
        mosquitto.thaw()
        await until(lambda: heard.connection.connects == 2)


async def test_a_wrong_password_is_named_and_never_shown(make_mosquitto: MosquittoMaker) -> None:
    broker = make_mosquitto(password="agent:right")
    options = BrokerOptions(username="agent", password="wrong-secret")
    assert "wrong-secret" not in repr(options)
    async with connected(broker, wait=False, username="agent", password="wrong-secret") as heard:
        await until(lambda: heard.connection.status().code == "mqtt.not_authorized")
        assert "wrong-secret" not in str(heard.connection.status())


async def test_the_right_password_is_let_in(make_mosquitto: MosquittoMaker) -> None:
    broker = make_mosquitto(password="agent:right")
    async with connected(broker, username="agent", password="right") as heard:
        assert heard.connection.version == "5"


async def test_tls_with_the_right_authority_works(make_mosquitto: MosquittoMaker) -> None:
    broker = make_mosquitto(tls=True)
    async with connected(port=broker.tls_port, tls=True, ca_file=str(broker.ca_file)) as heard:
        await outcome(heard.connection.publish("in/x", b"x" * 200_000, qos=1))
        await until(lambda: heard.messages)
        assert len(heard.messages[0].payload) == 200_000


@pytest.mark.parametrize("ca_file", ["", "/nowhere/ca.pem"])
async def test_tls_that_cannot_be_trusted_is_named(make_mosquitto: MosquittoMaker, ca_file: str) -> None:
    broker = make_mosquitto(tls=True)
    async with connected(wait=False, port=broker.tls_port, tls=True, ca_file=ca_file) as heard:
        await until(lambda: heard.connection.status().code == "mqtt.tls_failed")


async def test_the_will_tells_others_when_the_connection_breaks(mosquitto: Mosquitto) -> None:
    async with contextlib.AsyncExitStack() as stack:
        will = {"will_topic": "in/will", "will_payload": b"gone"}
        mortal = await stack.enter_async_context(connected(mosquitto, client_id="mortal", **will))
        watcher = await stack.enter_async_context(connected(mosquitto, client_id="watcher"))
        assert mortal.connection._link is not None
        mortal.connection._link.cut()
        await until(lambda: watcher.messages)
        assert watcher.messages[0].payload == b"gone"


async def test_a_clean_stop_sends_no_will(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto, client_id="watcher") as watcher:
        async with connected(mosquitto, will_topic="in/will", will_payload=b"gone", client_id="mortal"):
            pass
        await outcome(watcher.connection.publish("in/last", b"", qos=1))
        await until(lambda: watcher.messages)
        assert [message.topic for message in watcher.messages] == ["in/last"]


async def test_an_old_broker_is_spoken_to_in_its_version() -> None:
    async with old_broker(refuse_v5=b"\x20\x02\x00\x01") as port, connected(port=port, topic="") as heard:
        assert heard.connection.version == "3.1.1"
        assert "mqtt.refused" not in heard.codes


async def test_a_broker_that_hangs_up_on_mqtt_5_is_asked_in_3_1_1() -> None:
    async with old_broker(refuse_v5=b"") as port, connected(port=port, topic="") as heard:
        assert heard.connection.version == "3.1.1"


async def test_mqtt_5_is_not_tried_where_3_1_1_is_configured(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto, version="3.1.1") as heard:
        assert heard.connection.version == "3.1.1"
        await outcome(heard.connection.publish("in/x", b"1", qos=1, properties=PublishProperties(correlation_data=b"c")))
        await until(lambda: heard.messages)
        assert heard.messages[0].correlation_data is None
        assert heard.messages[0].ack()


@contextlib.asynccontextmanager
async def old_broker(refuse_v5: bytes) -> AsyncIterator[int]:
    """Knows 3.1.1 only: answers an MQTT 5 CONNECT with those bytes and closes."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        head = await reader.readexactly(2)
        connect = await reader.readexactly(head[1])
        if connect[6] == 4:
            writer.write(b"\x20\x02\x00\x00")
            await reader.read()
        else:
            writer.write(refuse_v5)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        for writer in writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def test_a_broker_that_closes_right_after_connack_or_talks_nonsense_ends_no_thread_for_good(mosquitto: Mosquitto) -> None:
    answers = [
        b"\x20\x03\x00\x00\x00",
        b"\x20\x03\x00\x00\x00\x30\x02\x00\x09",
        b"\x20\x03\x00\x00\x00\x30\x05\x00\x01a\x7f\xff",
    ]
    served = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readexactly(2)
        await reader.readexactly(head[1])
        if served.__len__() < len(answers):
            writer.write(answers[len(served)])
            served.append(1)
            await writer.drain()
            writer.close()
            return
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", mosquitto.port)
        upstream.write(CONNECT)
        writer.write(await upstream_reader.read(100))
        await reader.read()
        upstream.close()
        writer.close()

    connect = b"\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01p"
    CONNECT = b"\x10" + bytes([len(connect)]) + connect  # noqa: N806
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with connected(wait=False, port=server.sockets[0].getsockname()[1], topic="", retry_max_s=0.2, version="5") as heard:
        await until(lambda: heard.connection.connects >= 2 and heard.connection.connected and len(served) == 3, within_s=15)
    server.close()
    await server.wait_closed()


async def test_a_refused_subscription_is_shown_and_not_taken_for_granted(make_mosquitto: MosquittoMaker) -> None:
    async with denying_broker() as port, connected(port=port, wait=False, version="5") as heard:
        await until(lambda: heard.connection.status().code == "mqtt.subscribe_refused")
        assert heard.connection.status().state is State.DEGRADED
        assert heard.connection.status().args["topic"] == "in/#"


@contextlib.asynccontextmanager
async def denying_broker() -> AsyncIterator[int]:
    """Takes everybody, and refuses every subscription."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                kind, length = await reader.readexactly(2)
                body = await reader.readexactly(length)
                if kind >> 4 == 1:
                    writer.write(b"\x20\x03\x00\x00\x00")
                elif kind >> 4 == 8:
                    writer.write(b"\x90\x04" + body[:2] + b"\x00\x87")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def test_a_second_client_with_our_id_is_recognised(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto, wait=False, retry_min_s=0.1) as heard:
        other = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="agent", protocol=paho.MQTTv5)
        other.reconnect_delay_set(0.1, 0.1)
        other.connect("127.0.0.1", mosquitto.port)
        other.loop_start()
        try:
            await until(lambda: "mqtt.client_id_taken" in heard.codes, within_s=20)
        finally:
            other.disconnect()
            await asyncio.get_running_loop().run_in_executor(None, other.loop_stop)
            del other


@pytest.mark.parametrize("topic", ["", "a/#", "a/+/b", "x" * 70_000, "half\ud800"])
async def test_an_impossible_topic_is_refused_and_harms_nobody(mosquitto: Mosquitto, topic: str) -> None:
    async with connected(mosquitto) as heard:
        with pytest.raises(errors.PublishRefused):
            await heard.connection.publish(topic, b"x", qos=1)
        await outcome(heard.connection.publish("in/ok", b"x", qos=1))
        assert heard.connection.connects == 1


async def test_more_than_the_bound_is_refused_and_counted(mosquitto: Mosquitto) -> None:
    async with connected(mosquitto, max_unsent=3) as heard:
        mosquitto.freeze()
        futures = [heard.connection.publish("in/x", b"x", qos=1) for _ in range(4)]
        with pytest.raises(errors.BrokerError, match="3 messages wait"):
            await futures[3]
        mosquitto.thaw()
        for future in futures[:3]:
            await outcome(future)


async def test_stop_twice_and_stop_of_a_connection_that_never_came_about_end_soon() -> None:
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(5)
    async with connected(wait=False, port=silent.getsockname()[1]) as heard:
        await until(network_threads)
        await asyncio.wait_for(heard.connection.stop(), 5)
        await heard.connection.stop()
    silent.close()
    await until(lambda: not network_threads())


async def test_twenty_restarts_leave_no_thread_and_no_socket(mosquitto: Mosquitto) -> None:
    for _ in range(20):
        async with connected(mosquitto):
            pass
    await until(lambda: not network_threads())
    gc.collect()
    assert mosquitto.log().count("New client connected") == 20


async def test_an_unknown_host_is_unreachable_not_fatal() -> None:
    for host in ("no-such-host.invalid", "ab..cd", "x" * 300):
        async with connected(wait=False, host=host, port=free_port()) as heard:
            await until(lambda heard=heard: heard.connection.status().code == "mqtt.unreachable", within_s=30)
