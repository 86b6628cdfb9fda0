from __future__ import annotations

import pytest

from edge_agent import errors
from edge_agent.engines.segments import HostSegments
from edge_agent.processes.arena import Arena


class Child:
    """Notes what it maps."""

    def __init__(self):
        self.maps = {}

    async def attach(self, segment, writable=True):
        self.maps[segment.number] = writable

    async def detach(self, segment):
        del self.maps[segment.number]


@pytest.fixture
def arena():
    made = Arena(1 << 20)
    yield made
    made.close()


async def test_what_one_process_mapped_the_next_one_maps_too(arena):
    segments = HostSegments(arena, "host:test")
    camera, calls = arena.segment("camera"), arena.segment("calls")
    first, second = Child(), Child()
    await segments.attach_all(first)
    await segments.share(first, camera, writable=False)
    await segments.share(first, calls, writable=True)
    expected = {segments.own.number: True, camera.number: False, calls.number: True}
    assert first.maps == expected
    await segments.attach_all(second)
    assert second.maps == expected
    assert all(segments.has(one) for one in (segments.own, camera, calls))
    assert not segments.has(arena.segment("another"))


async def test_what_is_closed_is_let_go(arena):
    segments, child = HostSegments(arena, "host:test"), Child()
    old, new = arena.segment("old"), arena.segment("new")
    await segments.share(child, old, writable=True)
    arena.retire(old)
    await segments.share(child, new, writable=True)
    assert child.maps == {new.number: True}
    arena.retire(new)
    after = Child()
    await segments.attach_all(after)
    assert after.maps == {segments.own.number: True}


async def test_a_process_that_does_not_go_takes_what_it_writes_with_it_and_no_more(arena):
    segments, child = HostSegments(arena, "host:test"), Child()
    camera, calls, own = arena.segment("camera"), arena.segment("calls"), segments.own
    await segments.share(child, camera, writable=False)
    await segments.share(child, calls, writable=True)
    segments.abandon(77)
    assert (own.abandoned, calls.abandoned, camera.abandoned) == (True, True, False)
    assert segments.own is not own
    after = Child()
    await segments.attach_all(after)
    assert after.maps == {segments.own.number: True, camera.number: False}
    segments.reaped(77)
    segments.reaped(77)
    assert own.closed
    assert calls.closed
    with pytest.raises(errors.ChildGone, match="is given up"):
        arena.find(calls.number)
    segments.retire()
    assert segments.own.closed
