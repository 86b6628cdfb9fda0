from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, Callable, Iterator, List, Tuple

import pytest

from edge_agent.engine_host import wire
from edge_agent.errors import ChildGone
from edge_agent.processes.channel import Channel

Pair = Tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ours, theirs
    ours.close()
    theirs.close()


class Owner:
    def __init__(self) -> None:
        self.messages: List[bytes] = []
        self.closed = 0

    def on_closed(self) -> None:
        self.closed += 1


def opened(pair: Pair, **options: Any) -> Tuple[Channel, Owner]:
    owner = Owner()
    return Channel(pair[0], owner.messages.append, owner.on_closed, **options), owner


async def test_messages_keep_their_borders_and_order(pair: Pair, until: Callable[..., Any]) -> None:
    channel, owner = opened(pair)
    sent = [b"a", b"b" * 60000, b"c"] + [b"%d" % number for number in range(100)]
    for message in sent[:3]:
        pair[1].send(message)
    await until(lambda: len(owner.messages) == 3)
    for message in sent[3:]:
        pair[1].send(message)
    await until(lambda: len(owner.messages) == len(sent))
    assert owner.messages == sent
    channel.close()


async def test_what_the_socket_does_not_take_waits_and_arrives_in_order(pair: Pair, until: Callable[..., Any]) -> None:
    channel, _ = opened(pair, max_queued=5000)
    sent = [b"%06d" % number for number in range(3000)]
    for message in sent:
        channel.send(message)
    assert channel.queued > 0
    pair[1].setblocking(False)
    got: List[bytes] = []

    def drained() -> bool:
        while True:
            try:
                got.append(pair[1].recv(100))
            except BlockingIOError:
                return len(got) == len(sent)

    await until(drained)
    assert got == sent
    assert channel.queued == 0
    channel.close()


async def test_a_full_queue_refuses_and_counts(pair: Pair) -> None:
    channel, _ = opened(pair, max_queued=10)
    while channel.queued < 10:
        channel.send(b"x")
    with pytest.raises(ChildGone, match="does not read"):
        channel.send(b"x")
    assert (channel.queued, channel.refused) == (10, 1)
    channel.close()


async def test_descriptors_arrive_even_if_queued_and_closed_by_the_sender(pair: Pair, until: Callable[..., Any]) -> None:
    channel, _ = opened(pair, max_queued=10)
    before = len(os.listdir("/proc/self/fd"))
    while channel.queued == 0:
        channel.send(b"{}")
    reading, writing = os.pipe()
    channel.send(b'{"op":"take"}', (writing,))
    os.close(writing)
    pair[1].setblocking(False)
    taken: List[int] = []

    def drained() -> bool:
        try:
            while not taken:
                taken.extend(wire.receive_control(pair[1])[1])
        except BlockingIOError:
            pass
        return bool(taken)

    await until(drained)
    os.write(taken[0], b"hello")
    os.close(taken[0])
    assert os.read(reading, 10) == b"hello"
    assert os.read(reading, 10) == b""  # no copy of the writing end is left anywhere
    os.close(reading)
    assert len(os.listdir("/proc/self/fd")) == before
    channel.close()


async def test_closing_gives_queued_descriptors_back(pair: Pair) -> None:
    before = len(os.listdir("/proc/self/fd"))
    channel, _ = opened(pair, max_queued=100)
    while channel.queued < 50:
        channel.send(b"x", (0,))
    channel.close()
    pair[1].close()
    assert len(os.listdir("/proc/self/fd")) == before - 2


async def test_the_end_of_the_other_side_is_told_once_after_its_last_messages(pair: Pair, until: Callable[..., Any]) -> None:
    channel, owner = opened(pair)
    for number in range(40):
        pair[1].send(b"%d" % number)
    pair[1].close()
    await until(lambda: owner.closed)
    assert len(owner.messages) == 40
    with pytest.raises(ChildGone):
        channel.send(b"x")
    await asyncio.sleep(0)
    assert owner.closed == 1


async def test_a_death_with_messages_of_ours_unread_loses_none_of_its_own(pair: Pair, until: Callable[..., Any]) -> None:
    channel, owner = opened(pair)
    channel.send(b"never read")
    for number in range(40):
        pair[1].send(b"%d" % number)
    pair[1].close()
    await until(lambda: owner.closed)
    assert owner.messages == [b"%d" % number for number in range(40)]


async def test_sending_to_one_who_is_gone_tells_the_owner_later(pair: Pair, until: Callable[..., Any]) -> None:
    channel, owner = opened(pair)
    pair[1].close()
    with pytest.raises(ChildGone):
        channel.send(b"x")
    assert owner.closed == 0  # not from within send
    await until(lambda: owner.closed == 1)


async def test_an_owner_who_closes_is_not_told(pair: Pair) -> None:
    channel, owner = opened(pair)
    pair[1].close()
    with pytest.raises(ChildGone):
        channel.send(b"x")
    channel.close()
    channel.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert owner.closed == 0


async def test_a_flood_does_not_keep_others_from_the_loop(pair: Pair) -> None:
    channel, owner = opened(pair)
    for number in range(200):
        pair[1].send(b"%d" % number)
    seen: List[int] = []
    while len(owner.messages) < 200:
        await asyncio.sleep(0)
        seen.append(len(owner.messages))
    assert max(b - a for a, b in zip([0, *seen], seen)) <= 16
    channel.close()


async def test_a_message_over_the_limit_ends_the_channel(pair: Pair, until: Callable[..., Any]) -> None:
    _, owner = opened(pair)
    pair[1].send(b"x" * 70000)
    await until(lambda: owner.closed == 1)
    assert owner.messages == []


async def test_a_message_that_makes_the_owner_close_is_the_last(pair: Pair, until: Callable[..., Any]) -> None:
    got: List[bytes] = []

    def take(message: bytes) -> None:
        got.append(message)
        channel.close()

    channel = Channel(pair[0], take, lambda: None)
    for _ in range(5):
        pair[1].send(b"x")
    await until(lambda: channel.closed)
    assert got == [b"x"]
