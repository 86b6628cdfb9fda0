from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.mqtt import failures, packets, tls
from edge_agent.mqtt.inbox import Inbox
from edge_agent.mqtt.link import Link
from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.network import NetworkClient
from edge_agent.mqtt.options import BrokerOptions
from edge_agent.mqtt.outgoing import Outgoing
from tests.fixtures_mosquitto import (  # noqa: F401
    Mosquitto,
    MosquittoMaker,
    make_mosquitto_fixture,
    mosquitto_fixture,
)


class Owner:
    """Notes what a link says, and on which thread."""

    def __init__(self) -> None:
        self.said: List[Tuple[Any, ...]] = []
        self.threads: set[int] = set()

    def _note(self, *what: Any) -> None:
        self.said.append(what)
        self.threads.add(threading.get_ident())

    def link_accepted(self, session_present: bool) -> None:
        self._note("accepted", session_present)

    def link_refused(self, reason: int, text: str) -> None:
        self._note("refused", reason)

    def link_subscribed(self, mid: int, refusals: Sequence[str]) -> None:
        self._note("subscribed", mid, list(refusals))

    def link_message(self, message: Message) -> None:
        self._note("message", message.payload)

    def link_sent(self, mid: int, refusal: str) -> None:
        self._note("sent", mid, refusal)

    async def hears(self, *what: Any) -> None:
        for _ in range(1000):
            if what in self.said:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{what} not among {self.said}")


def link_to(broker: Mosquitto, owner: Owner, fresh: bool = False, **limits: int) -> Link:
    options = BrokerOptions(port=broker.port, client_id="link", keepalive_s=5, **limits)  # type: ignore[arg-type]
    return Link(options, "5", fresh=fresh, max_inflight=10, clock=Clock(), owner=owner)


async def test_a_link_speaks_on_the_loop_and_nowhere_else(mosquitto: Mosquitto) -> None:
    owner = Owner()
    link = link_to(mosquitto, owner)
    link.start()
    await owner.hears("accepted", False)
    await owner.hears("subscribed", link.subscribe([("t", 1)]), [""])
    await owner.hears("sent", link.publish("t", b"x", 1, False, None), "")
    await owner.hears("message", b"x")
    link.hang_up()
    assert await link.ended(5)
    assert owner.threads == {threading.get_ident()}
    with pytest.raises(errors.BrokerError):
        link.publish("t", b"x", 1, False, None)
    link.release()


async def test_a_session_is_found_again_unless_it_is_given_up(mosquitto: Mosquitto) -> None:
    for fresh, present in ((False, False), (False, True), (True, False)):
        owner = Owner()
        link = link_to(mosquitto, owner, fresh)
        link.start()
        await owner.hears("accepted", present)
        link.hang_up()
        assert await link.ended(5)
        link.release()


def flood_and_block(broker: Mosquitto, link: Link) -> None:
    """Eight messages while the loop takes none."""
    command = broker.command("mosquitto_pub", "-q", "1", "-t", "t", "-m", "x" * 4096, "--repeat", "8")
    subprocess.run(command, check=True, timeout=10)
    deadline = time.monotonic() + 5
    while not link.overrun and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("limits", [{"max_inbox": 3}, {"max_inbox_bytes": 3 * 4096}], ids=["count", "bytes"])
async def test_a_link_whose_messages_are_not_taken_is_cut_and_the_broker_keeps_them(
    mosquitto: Mosquitto, limits: Dict[str, int]
) -> None:
    owner = Owner()
    link = link_to(mosquitto, owner, **limits)
    link.start()
    await owner.hears("accepted", False)
    await owner.hears("subscribed", link.subscribe([("t", 1)]), [""])
    flood_and_block(mosquitto, link)
    assert "faster" in link.overrun
    assert await link.ended(5)
    assert len([one for one in owner.said if one[0] == "message"]) == 3
    assert not link.thrown_out
    link.release()
    later = Owner()
    again = link_to(mosquitto, later)
    again.start()
    for _ in range(500):
        if len([one for one in later.said if one[0] == "message"]) == 8:
            break
        await asyncio.sleep(0.01)
    else:
        raise AssertionError(later.said)
    again.hang_up()
    assert await again.ended(5)
    again.release()


def test_the_inbox_has_bounds_and_one_message_alone_always_fits() -> None:
    inbox = Inbox(max_messages=3, max_bytes=100)
    assert inbox.has_room(1, 1000)
    inbox.put(Message("t", b"x" * 1000, 1))
    assert not inbox.has_room(1, 1)
    assert not inbox.has_room(0, 1)
    assert len(inbox.take().payload) == 1000
    for _ in range(3):
        assert inbox.has_room(1, 10)
        inbox.put(Message("t", b"x" * 10, 1))
    assert not inbox.has_room(1, 10)
    assert not inbox.has_room(0, 10)


async def test_a_released_link_says_nothing_more(mosquitto: Mosquitto) -> None:
    owner = Owner()
    link = link_to(mosquitto, owner)
    link.start()
    await owner.hears("accepted", False)
    link.subscribe([("t", 1)])
    link.cut()
    link.release()
    assert await link.ended(5)
    assert owner.said == [("accepted", False)]


async def test_a_message_larger_than_the_broker_takes_is_refused_here(make_mosquitto: MosquittoMaker) -> None:
    broker = make_mosquitto("max_packet_size 5000")
    owner = Owner()
    link = link_to(broker, owner)
    link.start()
    await owner.hears("accepted", False)
    with pytest.raises(errors.PublishRefused, match="5000"):
        link.publish("t", b"x" * 5000, 1, False, None)
    await owner.hears("sent", link.publish("t", b"x", 1, False, None), "")
    link.hang_up()
    assert await link.ended(5)
    link.release()


@pytest.mark.parametrize("fault", [ValueError("a packet that cannot be read"), OSError("no route"), None])
def test_the_end_of_the_network_thread_is_told_whatever_ended_it(fault: Optional[Exception]) -> None:
    ends: List[Optional[BaseException]] = []
    told = threading.Event()

    def dial(client: paho.Client) -> None:
        if fault is not None:
            raise fault

    def ended(cause: Optional[BaseException]) -> None:
        ends.append(cause)
        told.set()

    client = NetworkClient("c", MQTTProtocolVersion.MQTTv5, dial, ended, Clock().monotonic)
    client.loop_start()
    assert told.wait(5)
    client.loop_stop()
    assert ends == [fault]


def test_properties_survive_the_way_to_the_wire() -> None:
    given = PublishProperties("back", b"\x00", "a/b", 7, (("k", "v"), ("k", "w")))
    made = packets.publish_properties(given)
    assert made is not None
    assert (made.ResponseTopic, made.CorrelationData, made.ContentType) == ("back", b"\x00", "a/b")
    assert (made.MessageExpiryInterval, made.UserProperty) == (7, [("k", "v"), ("k", "w")])
    assert packets.publish_properties(None) is None


def test_the_session_outlives_the_connection_and_the_broker_holds_back() -> None:
    made = packets.connect_properties(BrokerOptions(receive_maximum=7))
    assert (made.SessionExpiryInterval, made.ReceiveMaximum) == (86_400, 7)


def test_the_authority_is_the_systems_or_the_one_given(tmp_path: Path) -> None:
    context = tls.tls_context(BrokerOptions(tls=True))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname is True
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        tls.tls_context(BrokerOptions(tls=True, ca_file=str(broken)))


def test_a_failure_shows_no_secret() -> None:
    options = BrokerOptions(host="h", port=1, username="u", password="secret")
    failure = failures.of_exception(options, OSError("no route"))
    assert (str(failure), "secret" in repr(failure)) == ("no route", False)


async def test_outgoing_messages_have_bounds_and_each_its_own_end() -> None:
    loop = asyncio.get_running_loop()
    outgoing = Outgoing(max_messages=3, max_bytes=10)
    futures = [loop.create_future() for _ in range(3)]
    outgoing.check_room(1000)  # one alone may be as large as it likes
    for mid, future in enumerate(futures):
        outgoing.add(mid, future, 3, since=float(mid), acknowledged=mid > 0)
    assert outgoing.oldest_unacknowledged() == 1.0
    with pytest.raises(errors.BrokerError):
        outgoing.check_room(1)
    outgoing.settle(0, "")
    with pytest.raises(errors.BrokerError):
        outgoing.check_room(5)
    outgoing.check_room(4)
    outgoing.settle(1, "Not authorized")
    outgoing.settle(99, "")
    outgoing.fail_all("lost")
    assert futures[0].result() is None
    assert isinstance(futures[1].exception(), errors.PublishRefused)
    assert not isinstance(futures[2].exception(), errors.PublishRefused)
    assert (len(outgoing), outgoing.refused_full) == (0, 2)
    with contextlib.suppress(errors.BrokerError):
        await futures[2]
