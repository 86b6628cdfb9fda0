"""The segments that one engine host maps: its own, and those of others that it reads or writes for them."""

from __future__ import annotations

from typing import Dict, List, Set

from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.child import Child


class HostSegments:
    """Outlive the host's processes: what one mapped the next one maps too."""

    def __init__(self, arena: Arena, name: str) -> None:
        self._arena = arena
        self._name = name
        self.own = arena.segment(name)
        self._shared: Dict[int, Segment] = {}
        self._written: Set[int] = set()  #: of the shared ones, those that the host writes too
        self._abandoned: Dict[int, List[Segment]] = {}  #: by the pid that may still write there

    def has(self, segment: Segment) -> bool:
        """Whether the host maps it."""
        return segment is self.own or self._shared.get(segment.number) is segment

    async def share(self, child: Child, segment: Segment, writable: bool) -> None:
        """Maps one more, now and in each process to come, and lets go of those that are no more. ChildError."""
        for number, one in list(self._shared.items()):
            if one.closed:
                self._forget(number)
                await child.detach(one)
        await child.attach(segment, writable=writable)
        self._shared[segment.number] = segment
        if writable:
            self._written.add(segment.number)

    async def attach_all(self, child: Child) -> None:
        """A new process maps all of them. ChildError."""
        await child.attach(self.own)
        for number, segment in list(self._shared.items()):
            if segment.closed or segment.abandoned:  # a process that could not be ended has taken it along
                self._forget(number)
            else:
                await child.attach(segment, writable=number in self._written)

    def _forget(self, number: int) -> None:
        self._shared.pop(number, None)
        self._written.discard(number)

    def abandon(self, pid: int) -> None:
        """The process is killed but not gone: what it may still write to is used no more. Elsewhere it only reads."""
        written = [self.own, *(self._shared[number] for number in self._written)]
        for segment in written:
            self._arena.abandon(segment)
            self._forget(segment.number)
        self._abandoned.setdefault(pid, []).extend(written)
        self.own = self._arena.segment(self._name)

    def reaped(self, pid: int) -> None:
        """It went after all."""
        for segment in self._abandoned.pop(pid, ()):
            self._arena.retire(segment)

    def retire(self) -> None:
        """The host ends for good."""
        self._arena.retire(self.own)
