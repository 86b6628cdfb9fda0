"""The tensor arena: counted holds on slots of shared memory, under one budget, without deadlock.

All slots that a request needs are taken in one step or not at all, and who waits is served in order, so nobody
waits for a slot while holding one. Belongs to the loop: not thread safe.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Sequence, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.errors import ArenaFull, ChildGone, EdgeAgentError, PayloadTooLarge
from edge_agent.processes.lease import SlotLease
from edge_agent.processes.segment import PAGE, Segment, SizeClass, size_classes

__all__ = ["Arena", "Segment", "SlotLease", "Want"]

Want = Tuple[Segment, int]

_MAX_WAITING = 1024
_MAX_SEGMENTS = 0xFFFF  # a segment's number has 16 bits on the wire


class _Waiter:
    """Who waits: what for, and the future that gets the leases."""

    __slots__ = ("wants", "granted")

    def __init__(self, wants: Sequence[Want], granted: asyncio.Future[List[SlotLease]]) -> None:
        self.wants = wants
        self.granted = granted


class Arena:
    """Segments that share one budget of `max_bytes` (rounded down to whole pages; slots count with their class's size).

    Free slots keep their pages until `trim` or until somebody else needs the budget, so memory stays under it too.
    """

    def __init__(self, max_bytes: int, clock: Optional[Clock] = None) -> None:
        self.max_bytes = max(max_bytes // PAGE, 1) * PAGE
        self._clock = clock or Clock()
        self._sizes = size_classes(self.max_bytes)
        self._segments: Dict[int, Segment] = {}
        self._numbers = itertools.cycle(range(1, _MAX_SEGMENTS + 1))
        self._charged = 0
        self._withheld = 0  # reserves, and what abandoned segments hold: no want can have it
        self._resident = 0
        self._waiters: Deque[_Waiter] = deque()
        self.refused = 0  #: requests for slots that ended with ArenaFull

    def segment(self, name: str, reserve_bytes: int = 0) -> Segment:
        """A new segment. Its reserve is its own part of the budget, had without queueing; ArenaFull when there is none left."""
        reserve = -(-reserve_bytes // PAGE) * PAGE
        if reserve > self.max_bytes - self._charged:
            raise ArenaFull("no %d bytes are left to reserve for %s" % (reserve, name))
        number = next(n for n in itertools.islice(self._numbers, _MAX_SEGMENTS) if n not in self._segments)
        try:
            segment = Segment(number, name, self._sizes, reserve)
        except OSError as error:
            raise ArenaFull("the system gives no shared memory for %s: %s" % (name, error)) from error
        self._segments[number] = segment
        self._charged += reserve
        self._withheld += reserve
        return segment

    def find(self, number: int) -> Segment:
        """The segment of that number; ChildGone when it is closed."""
        segment = self._segments.get(number)
        if segment is None:
            raise ChildGone("segment %d is given up" % number)
        return segment

    def retire(self, segment: Segment) -> None:
        """No new leases; closed with its last lease. Also ends `abandon`, once the child has been reaped after all."""
        if segment.closed:
            return
        segment.retired = True
        if segment.abandoned:
            segment.abandoned = False
            self._withheld -= segment.used_bytes
        self._drop_reserve(segment)
        self._fail_waiters(segment)
        if segment.leases == 0:
            self._close(segment)
        self._serve()

    def abandon(self, segment: Segment) -> None:
        """Its child could not be reaped: what is in use there may still be written to, is never reused and stays charged."""
        if segment.closed or segment.abandoned:
            return
        segment.abandoned = True
        self._drop_reserve(segment)
        self._withheld += segment.used_bytes
        self._fail_waiters(segment)
        while segment.warm_bytes:
            self._resident -= segment.cool(segment.oldest()[1])
        self._serve()

    def try_acquire(self, wants: Sequence[Want]) -> Optional[List[SlotLease]]:
        """Leases of all wants, or None when they are not to be had at once or others wait already.

        Raises PayloadTooLarge when they can never be had, ChildGone when a segment is retired.
        """
        charge = self._charge(wants)
        if charge > 0 and (self._waiters or self._charged + charge > self.max_bytes):
            return None
        return self._take(wants)

    async def acquire(self, wants: Sequence[Want], timeout_s: float) -> List[SlotLease]:
        """Leases of all wants in one step, in the order of asking. ArenaFull when that takes over `timeout_s`."""
        leases = self.try_acquire(wants)
        if leases is not None:
            return leases
        if len(self._waiters) >= _MAX_WAITING:
            self.refused += 1
            raise ArenaFull("%d requests wait for tensor memory already" % _MAX_WAITING)
        loop = asyncio.get_running_loop()
        waiter = _Waiter(wants, loop.create_future())
        self._waiters.append(waiter)
        timer = loop.call_later(timeout_s, self._give_up, waiter, timeout_s)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            self._leave(waiter)
            raise
        finally:
            timer.cancel()

    def trim(self, older_than_s: float) -> int:
        """Gives the pages of slots that have been free for so long back to the system; answers how many bytes."""
        limit = self._clock.monotonic() - older_than_s
        before = self._resident
        for segment in self._segments.values():
            since, index = segment.oldest()
            while since <= limit:
                self._resident -= segment.cool(index)
                since, index = segment.oldest()
        return before - self._resident

    def close(self) -> None:
        """Closes every segment, whatever is leased; for the end of the agent."""
        for segment in list(self._segments.values()):
            self._fail_waiters(segment)
            self._close(segment)

    def status(self) -> Dict[str, Any]:
        """Bytes by kind, slots in use, who waits."""
        segments = list(self._segments.values())
        return {
            "bytes_max": self.max_bytes,
            "bytes_used": sum(one.used_bytes for one in segments),
            "bytes_reserved": sum(one.reserve_bytes for one in segments),
            "bytes_free_with_pages": sum(one.warm_bytes for one in segments),
            "slots": sum(one.leases for one in segments),
            "segments": len(segments),
            "waiting": len(self._waiters),
            "refused": self.refused,
            "abandoned_bytes": sum(one.used_bytes for one in segments if one.abandoned),
        }

    def _class_of(self, nbytes: int) -> int:
        if nbytes > self.max_bytes:
            raise PayloadTooLarge("%d bytes are more than the tensor memory of %d" % (nbytes, self.max_bytes))
        return bisect_left(self._sizes, nbytes)

    def _charge(self, wants: Sequence[Want]) -> int:
        """What the wants would take of the budget beyond the reserves of their segments."""
        added: Dict[Segment, int] = {}
        for segment, nbytes in wants:
            if segment.retired or segment.abandoned or segment.closed:
                raise ChildGone("the memory of %s is given up" % segment.name)
            added[segment] = added.get(segment, 0) + self._sizes[self._class_of(nbytes)]
        charge = total = 0
        room = self.max_bytes - self._withheld
        for segment, size in added.items():
            charge += max(segment.used_bytes + size, segment.reserve_bytes) - segment.charged_bytes
            room += segment.reserve_bytes
            total += size
        if total > room:
            raise PayloadTooLarge("%d bytes at once are more than tensor memory has: %d" % (total, room))
        return charge

    def _take(self, wants: Sequence[Want]) -> List[SlotLease]:
        leases = []
        for segment, nbytes in wants:
            kind = segment.classes[self._class_of(nbytes)]
            offset, warm = kind.take()
            before = segment.charged_bytes
            segment.used_bytes += kind.size
            segment.leases += 1
            self._charged += segment.charged_bytes - before
            if warm:
                segment.warm_bytes -= kind.size
            else:
                self._resident += kind.size
            leases.append(SlotLease(self._free, segment, kind, offset, nbytes))
        while self._resident > self.max_bytes:
            self._cool_oldest()
        return leases

    def _cool_oldest(self) -> None:
        """Takes the pages of the slot that has been free for longest, in whatever segment."""
        (_, index), segment = min(((one.oldest(), one) for one in self._segments.values()), key=lambda pair: pair[0])
        self._resident -= segment.cool(index)

    def _free(self, segment: Segment, kind: SizeClass, offset: int) -> None:
        segment.leases -= 1
        if segment.closed or segment.abandoned:
            return
        before = segment.charged_bytes
        segment.used_bytes -= kind.size
        segment.warm_bytes += kind.size
        self._charged += segment.charged_bytes - before
        kind.put(offset, self._clock.monotonic())
        if segment.retired and segment.leases == 0:
            self._close(segment)
        if self._waiters:
            self._serve()

    def _close(self, segment: Segment) -> None:
        self._charged -= segment.charged_bytes
        self._resident -= segment.used_bytes + segment.warm_bytes
        del self._segments[segment.number]
        segment.close()

    def _drop_reserve(self, segment: Segment) -> None:
        before = segment.charged_bytes
        self._withheld -= segment.reserve_bytes
        segment.reserve_bytes = 0
        self._charged += segment.charged_bytes - before

    def _serve(self) -> None:
        """Gives the first in the queue what they wait for, as far as the budget reaches."""
        while self._waiters:
            waiter = self._waiters[0]
            if not waiter.granted.done() and not self._grant(waiter):
                return
            self._waiters.popleft()

    def _grant(self, waiter: _Waiter) -> bool:
        """Gives the wants, or the reason why they can never be had any more; False when they must wait on."""
        try:
            if self._charged + self._charge(waiter.wants) > self.max_bytes:
                return False
        except EdgeAgentError as error:  # a reserve or an abandoned segment has taken what was still possible when it asked
            waiter.granted.set_exception(error)
        else:
            waiter.granted.set_result(self._take(waiter.wants))
        return True

    def _give_up(self, waiter: _Waiter, timeout_s: float) -> None:
        if waiter.granted.done():
            return
        self.refused += 1
        waiter.granted.set_exception(ArenaFull("no tensor memory became free within %g s" % timeout_s))
        self._waiters.remove(waiter)
        self._serve()

    def _leave(self, waiter: _Waiter) -> None:
        """The caller was cancelled: what had been granted goes back, else its place in the queue."""
        if waiter.granted.cancelled() or waiter.granted.exception() is not None:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            self._serve()
            return
        for lease in waiter.granted.result():
            lease.release()

    def _fail_waiters(self, segment: Segment) -> None:
        kept: Deque[_Waiter] = deque()
        for waiter in self._waiters:
            if any(one is segment for one, _ in waiter.wants):
                if not waiter.granted.done():
                    waiter.granted.set_exception(ChildGone("the memory of %s is given up" % segment.name))
            else:
                kept.append(waiter)
        self._waiters = kept
