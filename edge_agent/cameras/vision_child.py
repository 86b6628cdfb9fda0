"""A vision child with the segment it works on: slots stay held until the child has answered or been reaped."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Awaitable, Callable, Coroutine, Dict, Mapping, Optional, Sequence, Set

from edge_agent.domain.clock import Clock
from edge_agent.domain.tensors import Lease
from edge_agent.errors import ChildGone, ChildTimeout, DeadlineExceeded
from edge_agent.processes.arena import Arena, Segment
from edge_agent.processes.child import Child, ChildSpec
from edge_agent.processes.supervisor import Supervisor

_log = logging.getLogger(__name__)

Reply = Dict[str, Any]

_NEVER_S = 86_400.0  # the time is kept by who asked


class VisionChild:
    """Supervised; `on_up` runs with the segment attached, `on_down` once a life with the reason."""

    def __init__(
        self,
        spec: ChildSpec,
        arena: Arena,
        clock: Clock,
        on_up: Callable[[], Awaitable[None]],
        on_down: Callable[[str], None],
        on_event: Callable[[str, Dict[str, Any]], None],
        reserve_bytes: int = 0,
    ) -> None:
        self._spec = spec
        self._arena = arena
        self._on_up = on_up
        self._on_down = on_down
        self._reserve_bytes = reserve_bytes
        self._supervisor = Supervisor(spec, self._up, self._down, on_event, on_late_end=self._late_end, clock=clock)
        self._child: Child
        self._gone: asyncio.Event
        self._calls: Set[asyncio.Task[Reply]] = set()
        self._started = False
        self._abandoned: Dict[int, Segment] = {}  # by the pid that may still write there
        self.segment: Segment

    async def start(self) -> None:
        """Makes the segment and starts the child; how that goes is told by `on_up` and `on_down`."""
        self.segment = self._arena.segment(self._spec.name, self._reserve_bytes)
        self._gone = asyncio.Event()
        self._gone.set()
        self._started = True
        await self._supervisor.start()

    async def stop(self) -> None:
        """Ends the child, waits for what was asked of it, gives the segment back."""
        if not self._started:
            return
        self._started = False
        await self._supervisor.stop()
        self._gone.set()
        if self._calls:
            await asyncio.wait(set(self._calls))
        self._arena.retire(self.segment)

    @property
    def up(self) -> bool:
        """Whether there is a child to ask."""
        return self._started and not self._gone.is_set()

    @property
    def restarts(self) -> int:
        """Lives after the first."""
        return self._supervisor.restarts

    @property
    def pid(self) -> int:
        """The process, 0 when there is none."""
        return self._child.pid if self.up else 0

    async def wait_up(self, timeout_s: float) -> None:
        """Waits for a child to ask; ChildGone when none comes in time."""
        await self._supervisor.wait_up(timeout_s)

    def kill(self, code: str, text: str) -> None:
        """Ends this life of the child and starts another."""
        self._supervisor.restart(code, text)

    def works(self) -> None:
        """The child did what it is for: its next end is restarted from quickly."""
        self._supervisor.reset_backoff()

    async def call(
        self, op: str, fields: Mapping[str, Any], leases: Sequence[Lease], timeout_s: float, wait_s: Optional[float] = None
    ) -> Reply:
        """Asks the child; it is killed when it does not answer within `timeout_s`. ChildGone, ChildTimeout, ChildRefused.

        The caller leaves after `wait_s` (DeadlineExceeded) or when cancelled; the slots are the child's until it has
        answered or its process is gone.
        """
        task = self.ask(op, fields, leases, timeout_s)
        await asyncio.wait({task}, timeout=wait_s)
        if not task.done():
            raise DeadlineExceeded("%s did not answer in time" % self._spec.name)
        return task.result()

    def ask(
        self, op: str, fields: Mapping[str, Any], leases: Sequence[Lease], timeout_s: float, in_turn: bool = False
    ) -> asyncio.Task[Reply]:
        """The same as a task, to be waited for and not to be cancelled: it is done when the child is done with the slots.

        `in_turn`: the child works on one call after another, so that the time runs from the end of those before.
        """
        if not self.up:
            raise ChildGone("%s is not there" % self._spec.name)
        if any(lease.segment != self.segment.number for lease in leases):
            raise ChildGone("the memory of %s was given up" % self._spec.name)
        for lease in leases:
            lease.retain()
        if in_turn:
            answer = _in_turn(self._child, op, fields, timeout_s, set(self._calls))
        else:
            answer = self._child.call(op, fields, timeout_s=timeout_s)
        task = asyncio.get_running_loop().create_task(self._ask(answer, self._gone, leases))
        self._calls.add(task)
        task.add_done_callback(self._answered)
        return task

    async def _ask(self, answer: Coroutine[Any, Any, Reply], gone: asyncio.Event, leases: Sequence[Lease]) -> Reply:
        try:
            return await answer
        except ChildTimeout as error:
            if not gone.is_set():
                self.kill("child.silent", str(error))
            await gone.wait()
            raise
        except ChildGone:
            await gone.wait()
            raise
        finally:
            for lease in leases:
                lease.release()

    def _answered(self, task: asyncio.Task[Reply]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have left; nobody else wants to know

    async def _up(self, child: Child) -> None:
        await child.attach(self.segment)
        self._child = child
        self._gone = asyncio.Event()
        await self._on_up()

    def _down(self, reason: str, reaped: bool) -> None:
        if not reaped:
            _log.warning("%s cannot be ended (%s): its memory is given up", self._spec.name, reason)
            self._arena.abandon(self.segment)
            self._abandoned[self._supervisor.pid or 0] = self.segment
            self.segment = self._arena.segment(self._spec.name, self._reserve_bytes)
        self._gone.set()
        self._on_down(reason)

    def _late_end(self, pid: int) -> None:
        segment = self._abandoned.pop(pid, None)
        if segment is not None:
            self._arena.retire(segment)


async def _in_turn(
    child: Child, op: str, fields: Mapping[str, Any], timeout_s: float, before: Set[asyncio.Task[Reply]]
) -> Reply:
    """Asks at once, so that the child has it when it is free, and counts the time from then on."""
    answer = asyncio.ensure_future(child.call(op, fields, timeout_s=_NEVER_S))
    try:
        for one in before:
            await asyncio.wait({one, answer}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({answer}, timeout=timeout_s)
        if not answer.done():
            raise ChildTimeout("%s did not finish %s within %g s" % (child.spec.name, op, timeout_s))
        return answer.result()
    finally:
        answer.cancel()
