from __future__ import annotations

import asyncio
import mmap
import os
import random
import time
from typing import Any, List

import pytest

from edge_agent.errors import ArenaFull, ChildGone, PayloadTooLarge
from edge_agent.processes.arena import Arena, Segment, SlotLease
from edge_agent.processes.segment import PAGE, size_classes

MIB = 1 << 20


@pytest.fixture
def arena() -> Any:
    made = Arena(MIB)
    yield made
    made.close()


def pages_bytes(segment: Segment) -> int:
    return os.fstat(segment.fd).st_blocks * 512


@pytest.mark.parametrize("max_bytes", [PAGE, 2 * PAGE, MIB, 64 * MIB, 256 * MIB, 1000 * PAGE])
def test_size_classes_are_whole_pages_that_grow_by_at_most_a_half_or_one_page(max_bytes: int) -> None:
    sizes = size_classes(max_bytes)
    assert sizes[0] == PAGE
    assert sizes[-1] == max_bytes
    assert all(size % PAGE == 0 for size in sizes)
    assert all(a < b <= max(a * 1.5, a + PAGE) for a, b in zip(sizes, sizes[1:]))


def test_a_segment_can_neither_shrink_nor_grow_nor_lose_its_seals(arena: Arena) -> None:
    segment = arena.segment("sealed")
    for size in (0, segment.size + PAGE):
        with pytest.raises(PermissionError):
            os.ftruncate(segment.fd, size)
    import fcntl

    with pytest.raises(PermissionError):
        fcntl.fcntl(segment.fd, 1033, 8)  # F_ADD_SEALS, F_SEAL_WRITE


def test_a_new_segment_takes_no_memory(arena: Arena) -> None:
    assert pages_bytes(arena.segment("sparse")) == 0


async def test_a_lease_is_as_long_as_asked_and_writable(arena: Arena) -> None:
    segment = arena.segment("one")
    (lease,) = await arena.acquire([(segment, 5000)], 1.0)
    lease.view()[:] = b"x" * 5000
    assert (lease.segment, lease.nbytes, len(lease.view())) == (segment.number, 5000, 5000)
    assert arena.status()["bytes_used"] == 8192
    lease.release()
    assert arena.status()["bytes_used"] == 0


async def test_free_slots_are_reused_last_in_first_out(arena: Arena) -> None:
    segment = arena.segment("lifo")
    leases = await arena.acquire([(segment, PAGE)] * 3, 1.0)
    offsets = [lease.offset for lease in leases]
    for lease in leases:
        lease.release()
    again = await arena.acquire([(segment, PAGE)] * 3, 1.0)
    assert [lease.offset for lease in again] == offsets[::-1]


async def test_no_two_leases_overlap_whatever_the_order() -> None:
    rng = random.Random(7)
    arena = Arena(MIB)
    segments = [arena.segment("a"), arena.segment("b")]
    held: List[Any] = []
    for step in range(3000):
        leases = arena.try_acquire([(rng.choice(segments), rng.randint(1, 60000)) for _ in range(rng.randint(1, 3))])
        for lease in leases or ():
            mark = step % 251
            lease.view()[0], lease.view()[-1] = mark, mark
            held.append((lease, mark))
        while held and (leases is None or rng.random() < 0.3):
            lease, mark = held.pop(rng.randrange(len(held)))
            assert (lease.view()[0], lease.view()[-1]) == (mark, mark) or lease.nbytes == 1
            lease.release()
            leases = []
        assert sum(pages_bytes(segment) for segment in segments) <= MIB
        assert arena.status()["bytes_used"] <= MIB
    for lease, _ in held:
        lease.release()
    assert arena.status()["bytes_used"] == 0
    assert arena.status()["slots"] == 0
    arena.close()


def test_wants_that_do_not_fit_together_take_nothing(arena: Arena) -> None:
    segment = arena.segment("all or nothing")
    assert arena.try_acquire([(segment, MIB // 2)]) is not None
    before = arena.status()
    assert arena.try_acquire([(segment, PAGE), (segment, MIB // 2)]) is None
    assert arena.status() == before


def test_the_budget_is_one_over_all_segments(arena: Arena) -> None:
    first, second = arena.segment("first"), arena.segment("second")
    assert arena.try_acquire([(first, MIB)]) is not None
    assert arena.try_acquire([(second, 1)]) is None


async def test_a_want_that_can_never_fit_is_refused_at_once(arena: Arena) -> None:
    segment = arena.segment("small")
    for wants in ([(segment, MIB + 1)], [(segment, MIB), (segment, 1)]):
        with pytest.raises(PayloadTooLarge):
            await arena.acquire(wants, 60.0)


async def test_a_small_want_does_not_overtake_a_large_one_that_waits(arena: Arena) -> None:
    segment = arena.segment("queue")
    (held,) = await arena.acquire([(segment, MIB // 2)], 1.0)
    large = asyncio.ensure_future(arena.acquire([(segment, MIB)], 10.0))
    await asyncio.sleep(0)
    assert arena.try_acquire([(segment, 1)]) is None
    small = asyncio.ensure_future(arena.acquire([(segment, 1)], 10.0))
    await asyncio.sleep(0)
    held.release()
    (lease,) = await large
    assert not small.done()
    lease.release()
    await small


async def test_waiting_ends_with_arena_full_and_is_counted(arena: Arena) -> None:
    segment = arena.segment("full")
    arena.try_acquire([(segment, MIB)])
    with pytest.raises(ArenaFull):
        await arena.acquire([(segment, 1)], 0.01)
    assert arena.status()["refused"] == 1
    assert arena.status()["waiting"] == 0


async def test_one_who_gives_up_lets_the_next_pass(arena: Arena) -> None:
    segment = arena.segment("next")
    await arena.acquire([(segment, MIB // 2)], 1.0)
    large = asyncio.ensure_future(arena.acquire([(segment, MIB)], 0.02))
    await asyncio.sleep(0)
    (lease,) = await arena.acquire([(segment, 1)], 10.0)
    assert lease.nbytes == 1
    with pytest.raises(ArenaFull):
        await large


async def test_a_cancelled_waiter_leaves_its_place_to_the_next(arena: Arena) -> None:
    segment = arena.segment("cancel")
    await arena.acquire([(segment, MIB // 2)], 1.0)
    large = asyncio.ensure_future(arena.acquire([(segment, MIB)], 10.0))
    await asyncio.sleep(0)
    small = asyncio.ensure_future(arena.acquire([(segment, 1)], 10.0))
    await asyncio.sleep(0)
    large.cancel()
    await asyncio.wait_for(small, 5.0)
    assert large.cancelled()


async def test_slots_granted_in_the_moment_of_cancellation_come_back(arena: Arena) -> None:
    segment = arena.segment("race")
    (held,) = await arena.acquire([(segment, MIB)], 1.0)
    waiter = asyncio.ensure_future(arena.acquire([(segment, MIB)], 10.0))
    await asyncio.sleep(0)
    held.release()  # granted
    waiter.cancel()  # before it could take them
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert arena.status()["bytes_used"] == 0


async def test_the_queue_of_waiters_is_bounded(arena: Arena) -> None:
    segment = arena.segment("crowd")
    (held,) = await arena.acquire([(segment, MIB)], 1.0)
    crowd = [asyncio.ensure_future(arena.acquire([(segment, 1)], 30.0)) for _ in range(1024)]
    await asyncio.sleep(0)
    with pytest.raises(ArenaFull):
        await arena.acquire([(segment, 1)], 30.0)
    for one in crowd:
        one.cancel()
    await asyncio.wait(crowd)
    held.release()
    assert arena.status()["waiting"] == 0


async def test_a_slot_is_free_when_its_last_holder_is_gone(arena: Arena) -> None:
    (lease,) = await arena.acquire([(arena.segment("count"), 10)], 1.0)
    assert lease.retain() is lease
    lease.release()
    assert arena.status()["slots"] == 1
    lease.release()
    assert arena.status()["slots"] == 0


async def test_a_slot_that_was_released_is_never_released_viewed_or_retained_again(arena: Arena) -> None:
    (lease,) = await arena.acquire([(arena.segment("bug"), 10)], 1.0)
    lease.release()
    for forbidden in (lease.release, lease.view, lease.retain):
        with pytest.raises(AssertionError):
            forbidden()
    assert arena.status()["bytes_used"] == 0


async def test_a_retired_segment_closes_with_its_last_lease(arena: Arena) -> None:
    segment = arena.segment("retired")
    (lease,) = await arena.acquire([(segment, 10)], 1.0)
    arena.retire(segment)
    with pytest.raises(ChildGone):
        arena.try_acquire([(segment, 10)])
    os.fstat(segment.fd)
    lease.view()[0] = 1
    lease.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(segment.fd)
    assert arena.status()["segments"] == 0
    arena.retire(segment)


async def test_who_waits_for_a_segment_that_is_retired_hears_of_it(arena: Arena) -> None:
    segment, other = arena.segment("goes"), arena.segment("stays")
    (held,) = await arena.acquire([(other, MIB)], 1.0)
    waits = asyncio.ensure_future(arena.acquire([(segment, 10)], 10.0))
    stays = asyncio.ensure_future(arena.acquire([(other, 10)], 10.0))
    await asyncio.sleep(0)
    arena.retire(segment)
    with pytest.raises(ChildGone):
        await waits
    held.release()
    await stays


async def test_what_is_used_in_an_abandoned_segment_stays_off_the_budget_until_it_is_retired(arena: Arena) -> None:
    segment, other = arena.segment("stuck"), arena.segment("other")
    used, idle = await arena.acquire([(segment, MIB // 4), (segment, MIB // 4)], 1.0)
    idle.view()[:] = b"x" * (MIB // 4)
    idle.release()
    arena.abandon(segment)
    used.release()
    status = arena.status()
    assert status["abandoned_bytes"] == status["bytes_used"] >= MIB // 4
    assert pages_bytes(segment) == 0
    with pytest.raises(ChildGone):
        arena.try_acquire([(segment, 1)])
    with pytest.raises(PayloadTooLarge):
        arena.try_acquire([(other, MIB)])
    arena.retire(segment)
    assert arena.status()["abandoned_bytes"] == 0
    assert arena.try_acquire([(other, MIB)]) is not None


async def test_trim_gives_pages_of_slots_back_that_have_been_free_for_long(arena: Arena) -> None:
    segment = arena.segment("trim")
    (lease,) = await arena.acquire([(segment, 20 * PAGE)], 1.0)
    lease.view()[:] = b"x" * (20 * PAGE)
    offset = lease.offset
    lease.release()
    assert arena.trim(older_than_s=60.0) == 0
    assert pages_bytes(segment) == 20 * PAGE
    assert arena.trim(older_than_s=0.0) >= 20 * PAGE
    assert pages_bytes(segment) == 0
    (again,) = await arena.acquire([(segment, 20 * PAGE)], 1.0)
    assert again.offset == offset
    assert bytes(again.view()[:4]) == b"\0\0\0\0"


async def test_free_pages_of_one_class_do_not_keep_another_from_the_budget(arena: Arena) -> None:
    segment, other = arena.segment("kept"), arena.segment("wanting")
    (lease,) = await arena.acquire([(segment, MIB // 2)], 1.0)
    lease.view()[:] = b"x" * (MIB // 2)
    lease.release()
    (large,) = await arena.acquire([(other, MIB)], 1.0)
    large.view()[:] = b"y" * MIB
    assert pages_bytes(segment) == 0
    assert pages_bytes(other) == MIB


async def test_a_reserve_is_had_while_others_fill_the_rest_and_wait(arena: Arena) -> None:
    camera, upload = arena.segment("camera", reserve_bytes=MIB // 4), arena.segment("upload")
    with pytest.raises(PayloadTooLarge):
        arena.try_acquire([(upload, MIB)])
    assert arena.try_acquire([(upload, 500000)]) is not None
    assert arena.try_acquire([(upload, MIB // 4)]) is None
    waits = asyncio.ensure_future(arena.acquire([(upload, MIB // 4)], 10.0))
    await asyncio.sleep(0)
    leases = arena.try_acquire([(camera, MIB // 8), (camera, PAGE)])
    assert leases is not None
    assert arena.status()["waiting"] == 1
    arena.retire(camera)
    for lease in leases:
        lease.release()
    await waits


def test_no_more_is_reserved_than_there_is(arena: Arena) -> None:
    arena.segment("most", reserve_bytes=MIB - PAGE)
    with pytest.raises(ArenaFull):
        arena.segment("rest", reserve_bytes=2 * PAGE)


def test_a_view_outlives_its_segment(arena: Arena) -> None:
    segment = arena.segment("viewed")
    leases = arena.try_acquire([(segment, 10)])
    assert leases is not None
    view = leases[0].view()
    leases[0].release()
    arena.retire(segment)
    view[:3] = b"abc"
    assert bytes(view[:3]) == b"abc"


def test_segments_leave_no_descriptor_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    arena = Arena(MIB)
    for number in range(100):
        segment = arena.segment("n%d" % number)
        leases = arena.try_acquire([(segment, 10)])
        assert leases is not None
        leases[0].release()
        arena.retire(segment)
    arena.segment("open")
    arena.close()
    assert len(os.listdir("/proc/self/fd")) == before


async def _ensemble(arena: Arena, segment: Segment, took: List[int]) -> None:
    """A request whose plan needs three slots: input, between, output."""
    leases: List[SlotLease] = await arena.acquire([(segment, MIB // 4)] * 3, 20.0)
    took.append(arena.status()["slots"])
    await asyncio.sleep(0.001)
    for lease in leases:
        lease.release()


async def test_ensembles_on_an_arena_that_holds_one_all_end(arena: Arena) -> None:
    segment = arena.segment("host")
    took: List[int] = []
    await asyncio.wait_for(asyncio.gather(*(_ensemble(arena, segment, took) for _ in range(50))), 30.0)
    assert took == [3] * 50
    assert arena.status()["bytes_used"] == 0


async def test_two_ensembles_of_two_hosts_on_an_arena_that_holds_one_both_end(arena: Arena) -> None:
    one, two = arena.segment("one"), arena.segment("two")

    async def run(first: Segment, second: Segment) -> None:
        for _ in range(20):
            leases = await arena.acquire([(first, MIB // 4), (second, MIB // 4), (first, MIB // 4)], 20.0)
            await asyncio.sleep(0)
            for lease in leases:
                lease.release()

    await asyncio.wait_for(asyncio.gather(run(one, two), run(two, one)), 30.0)
    assert arena.status()["bytes_used"] == 0


def test_taking_and_giving_back_a_slot_costs_little(arena: Arena) -> None:
    segment = arena.segment("speed")
    rounds: List[float] = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(200):
            leases = arena.try_acquire([(segment, 20000)])
            assert leases is not None
            leases[0].release()
        rounds.append((time.perf_counter() - start) / 200)
    assert min(rounds) < 100e-6  # 4 us where this was written


def test_the_mapping_is_shared_with_whoever_maps_the_descriptor(arena: Arena) -> None:
    segment = arena.segment("shared")
    leases = arena.try_acquire([(segment, 100)])
    assert leases is not None
    with mmap.mmap(segment.fd, segment.size) as other:
        other[leases[0].offset : leases[0].offset + 3] = b"abc"
    assert bytes(leases[0].view()[:3]) == b"abc"


async def test_what_makes_one_waiter_s_want_impossible_is_told_to_that_waiter_only(arena: Arena) -> None:
    segment = arena.segment("one")
    (held,) = await arena.acquire([(segment, MIB // 2)], 1.0)
    large = asyncio.ensure_future(arena.acquire([(segment, 7 * MIB // 8)], 30.0))
    small = asyncio.ensure_future(arena.acquire([(segment, PAGE)], 30.0))
    await asyncio.sleep(0)
    arena.segment("camera", reserve_bytes=MIB // 4)
    held.release()  # whoever releases must not hear of the other's trouble
    with pytest.raises(PayloadTooLarge):
        await asyncio.wait_for(large, 5)
    (lease,) = await asyncio.wait_for(small, 5)
    lease.release()
