"""One sealed shared-memory segment, cut into slots of fixed classes of size."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections import deque
from typing import Deque, List, Tuple

PAGE = mmap.PAGESIZE
_GROWTH = 4 / 3  # a slot wastes at most a quarter of its bytes, and a segment of 64 MiB has 36 classes

# <linux/fcntl.h>; Python 3.8's fcntl may lack them
_F_ADD_SEALS = 1033
_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW = 1, 2, 4


def size_classes(max_bytes: int) -> Tuple[int, ...]:
    """Sizes of slots, ascending whole pages: the first is one page, the last `max_bytes` (itself whole pages)."""
    sizes: List[int] = [PAGE]
    while sizes[-1] < max_bytes:
        grown = -int(-sizes[-1] * _GROWTH // PAGE) * PAGE
        sizes.append(min(grown, max_bytes))
    return tuple(sizes)


class SizeClass:
    """Slots of one size in a region of their own, so that no class fragments another.

    Free slots are reused last in, first out: the newest is still in the cache, the others keep no pages.
    """

    __slots__ = ("size", "_start", "_fresh", "_warm", "_cold")

    def __init__(self, size: int, start: int) -> None:
        self.size = size
        self._start = start
        self._fresh = 0  # slots ever handed out: the region beyond them was never touched
        self._warm: Deque[Tuple[int, float]] = deque()  # (offset, free since): free with pages, oldest first
        self._cold: List[int] = []  # free without pages

    def take(self) -> Tuple[int, bool]:
        """(offset of a free slot, whether it has pages). The budget of the arena sees to it that there is one."""
        if self._warm:
            return self._warm.pop()[0], True
        if self._cold:
            return self._cold.pop(), False
        offset = self._start + self._fresh * self.size
        self._fresh += 1
        return offset, False

    def put(self, offset: int, now: float) -> None:
        """The slot is free again and keeps its pages for now."""
        self._warm.append((offset, now))

    def oldest(self) -> float:
        """Since when the slot has been free that has been free for longest with its pages; inf when there is none."""
        return self._warm[0][1] if self._warm else float("inf")

    def cool(self) -> int:
        """Offset of that slot, which from now on counts as being without pages."""
        offset = self._warm.popleft()[0]
        self._cold.append(offset)
        return offset


class Segment:
    """A memfd that can neither shrink nor grow (a mapped reader can get no SIGBUS), and what is free in it.

    It is sparse: as long as `max_bytes` for each class of size, with pages only where somebody wrote.
    """

    def __init__(self, number: int, name: str, sizes: Tuple[int, ...], reserve_bytes: int = 0) -> None:
        self.number = number
        self.name = name
        self.reserve_bytes = reserve_bytes
        self.used_bytes = 0
        self.warm_bytes = 0  #: in free slots that keep their pages
        self.leases = 0
        self.retired = False
        self.abandoned = False
        self.closed = False
        region = sizes[-1]
        self.size = region * len(sizes)
        self.classes = tuple(SizeClass(size, number * region) for number, size in enumerate(sizes))
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, self.size)
            fcntl.fcntl(self.fd, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW | _F_SEAL_SEAL)
            self._map = mmap.mmap(self.fd, self.size)
        except BaseException:
            os.close(self.fd)
            raise
        self._view = memoryview(self._map)

    @property
    def charged_bytes(self) -> int:
        """What the segment takes of the arena's budget: its reserve, or more when it uses more."""
        return max(self.used_bytes, self.reserve_bytes)

    def view(self, offset: int, nbytes: int) -> memoryview:
        """Bytes [offset, offset + nbytes), writable."""
        return self._view[offset : offset + nbytes]

    def oldest(self) -> Tuple[float, int]:
        """(since when the longest free slot with pages has been free, its class)."""
        return min((kind.oldest(), index) for index, kind in enumerate(self.classes))

    def cool(self, index: int) -> int:
        """Gives the pages of class `index`'s longest free slot back to the system; answers how many bytes."""
        kind = self.classes[index]
        self._map.madvise(mmap.MADV_REMOVE, kind.cool(), kind.size)
        self.warm_bytes -= kind.size
        return kind.size

    def close(self) -> None:
        """Gives the descriptor and the mapping back; views that still exist keep the mapping until they go."""
        if self.closed:
            return
        self.closed = True
        os.close(self.fd)
        self._view.release()
        try:
            self._map.close()
        except BufferError:
            del self._map
