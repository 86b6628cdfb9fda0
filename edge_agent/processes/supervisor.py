"""Keeps one child alive: starts it, notices its death or its silence, reaps it, and starts it again with backoff."""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from typing import Any, Awaitable, Callable, Dict, Optional, Set, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.errors import ChildCannotStart, ChildError, ChildGone, ChildTimeout, EdgeAgentError
from edge_agent.processes.backoff import Backoff
from edge_agent.processes.child import Child, ChildSpec
from edge_agent.processes.false_starts import FalseStarts
from edge_agent.processes.heartbeat import Heartbeat

_log = logging.getLogger(__name__)

_STEADY_S = 10.0  # up for so long, a child's next death is a new story
_OWN_END_S = 0.5  # what a process has to end by itself after its channel closed
_LATE_ROUND_S = 60.0
_MAX_LINGERING = 4  # processes that even SIGKILL does not end, before no more are started
_TOO_MANY = "%d processes of %s cannot be ended; the machine needs a restart"


class SupervisorState(enum.Enum):
    """STARTING until `on_up` has returned; BACKOFF from a child's end to the next start."""

    STARTING = "starting"
    UP = "up"
    BACKOFF = "backoff"
    STOPPED = "stopped"


def _no_event(name: str, fields: Dict[str, Any]) -> None:
    """Events of a child that nobody listens to."""


def _no_late_end(pid: int) -> None:
    """A late end that nobody waits for."""


async def _first_of(timeout_s: Optional[float], *futures: asyncio.Future[Any]) -> bool:
    """Waits until one is done; False when none is after `timeout_s`. Cancels none."""
    done, _ = await asyncio.wait(set(futures), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


class Supervisor:
    """One child, life after life.

    `on_up(child)` runs before the state is UP and may call the child; when it raises, that life ends.
    `on_down(reason, reaped)` is called once a life. reaped=True: the process is gone for certain; False: SIGKILL has not
    ended it (a driver holds it), it may still write to its segments; `on_late_end(pid)` follows if it goes after all.
    """

    def __init__(
        self,
        spec: ChildSpec,
        on_up: Callable[[Child], Awaitable[None]],
        on_down: Callable[[str, bool], None],
        on_event: Callable[[str, Dict[str, Any]], None] = _no_event,
        on_late_end: Callable[[int], None] = _no_late_end,
        clock: Optional[Clock] = None,
        rng: Optional[random.Random] = None,
    ) -> None:
        self.spec = spec
        self.child: Optional[Child] = None  #: set while the state is UP
        self.pid: Optional[int] = None  #: of the present life
        self.state = SupervisorState.STOPPED
        self.since = ""  #: RFC 3339 UTC of the last change of state
        self.restarts = 0
        self.reason = ""  #: of the last end
        self.code = ""  #: of the last end: child.died, .silent, .cannot_start, or what `restart` was told; empty after `stop`
        self._on_up = on_up
        self._on_down = on_down
        self._on_event = on_event
        self._on_late_end = on_late_end
        self._clock = clock or Clock()
        self._backoff = Backoff(spec.backoff_first_s, spec.backoff_cap_s, rng or random.Random())
        self._heartbeat = Heartbeat(spec.ping_interval_s, spec.silence_s)
        self._false_starts = FalseStarts(spec.name)
        self._life: Optional[Child] = None
        self._end_code = ""
        self._lingering: Set[asyncio.Task[None]] = set()
        self._task: Optional[asyncio.Task[None]] = None
        self._stop_timeout_s = 0.0
        self._stopping: asyncio.Future[None]
        self._up: asyncio.Future[Child]

    async def start(self) -> None:
        """Begins the first life and returns; `wait_up` and `state` tell how it goes."""
        if self._task is not None:
            return
        loop = asyncio.get_running_loop()
        self._stopping = loop.create_future()
        self._up = loop.create_future()
        self._false_starts.begin()
        self._enter(SupervisorState.STARTING)
        self._task = loop.create_task(self._run())
        await asyncio.sleep(0)

    async def stop(self, timeout_s: float = 5.0) -> None:
        """Asks the child to end, then SIGTERM, after `timeout_s` SIGKILL; returns when it is reaped or given up. Idempotent."""
        if self._task is None:
            return
        self._stop_timeout_s = timeout_s
        if not self._stopping.done():
            self._stopping.set_result(None)
        await asyncio.wait({self._task})
        self._task = None
        for task in list(self._lingering):
            task.cancel()
        if self._lingering:
            await asyncio.wait(self._lingering)

    @property
    def killed_from_outside(self) -> bool:
        """Whether SIGKILL ended the last life, and not by the agent: the kernel does so for want of memory."""
        return self._life is not None and self._life.killed_from_outside

    async def wait_up(self, timeout_s: float) -> Child:
        """The child, once it is up. ChildTimeout says why it is not; ChildGone when the supervisor stops.

        ChildCannotStart as soon as it is known that it ends before its first word; it is tried again all the same.
        """
        if self.child is not None:
            return self.child
        if self._task is None:
            raise ChildGone("%s is stopped" % self.spec.name)
        up, told = self._up, self._false_starts.told
        assert told is not None
        await _first_of(timeout_s, up, told, self._stopping)
        if up.done():
            return up.result()
        if self._stopping.done():
            raise ChildGone("%s is stopped" % self.spec.name)
        if told.done():
            raise ChildCannotStart(self._false_starts.text)
        raise ChildTimeout("%s is not up after %g s; its last end: %s" % (self.spec.name, timeout_s, self.reason or "none"))

    def restart(self, code: str, text: str) -> None:
        """Ends the present life now, as a hang judged by an operation's budget asks for; the next one follows by itself."""
        if self._life is not None and not self._life.gone:
            self._end_code = code
            self._life.kill(text)

    def busy(self, until: float, key: str = "") -> None:
        """An operation with a budget runs until monotonic `until` at most: silence does not count meanwhile."""
        self._heartbeat.busy(until, key)

    def idle(self, key: str = "") -> None:
        """That operation ended."""
        self._heartbeat.idle(key)

    def reset_backoff(self) -> None:
        """The child does its work: its next death is answered at once."""
        self._backoff.reset()

    async def _run(self) -> None:
        while not self._stopping.done():
            reason, reaped = await self._live()
            self._close_life(reason, reaped)
            self._enter(SupervisorState.BACKOFF)
            if not await _first_of(self._backoff.next_s(), self._stopping):
                self.restarts += 1
                self._false_starts.begin()
                self._enter(SupervisorState.STARTING)
        self._enter(SupervisorState.STOPPED)

    def _enter(self, state: SupervisorState) -> None:
        self.state = state
        self.since = self._clock.now()

    async def _live(self) -> Tuple[str, bool]:
        """One life, from the spawn until it was reaped or given up: why it ended, and which of the two."""
        if len(self._lingering) >= _MAX_LINGERING:
            return _TOO_MANY % (_MAX_LINGERING, self.spec.name), True  # that may pass: whoever waits goes on waiting
        child = Child(self.spec, self._clock, self._on_event)
        try:
            child.start()
        except ChildGone as error:
            return self._false_starts.refused(error), True
        self._life, self.pid = child, child.pid
        self._heartbeat.start(self._clock.monotonic())
        if await self._bring_up(child):
            self._rise(child)
            await self._watch(child)
        by_itself = not child.killed
        reason, reaped = await self._end(child)
        if by_itself and not child.killed_from_outside and not self._stopping.done():
            self._false_starts.ended(reason)
        return reason, reaped

    def _rise(self, child: Child) -> None:
        self.child = child
        self._up.set_result(child)
        self._enter(SupervisorState.UP)
        child.on_end = self._fall
        _log.info("child %s is up, pid %d", self.spec.name, child.pid)

    def _fall(self) -> None:
        """Runs before anybody who waits for the child hears of its end: who asks then gets the next one."""
        self.child = None
        self._up = asyncio.get_running_loop().create_future()
        self._enter(SupervisorState.BACKOFF)

    async def _bring_up(self, child: Child) -> bool:
        """First answer and `on_up`, unless the child ends or `stop` comes first."""
        work = asyncio.ensure_future(self._introduce(child))
        while not await _first_of(self.spec.ping_interval_s, work, child.ended, self._stopping):
            child.look()
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
        return not work.cancelled() and work.result() and not child.gone and not self._stopping.done()

    async def _introduce(self, child: Child) -> bool:
        try:
            await child.call("ping", timeout_s=self.spec.start_timeout_s)
            self._false_starts.spoke()
            await self._on_up(child)
        except ChildError as error:
            if not child.gone:
                child.kill(str(error))
            return False
        except EdgeAgentError as error:
            child.kill("could not be set up: %s" % error)
            return False
        except Exception as error:  # noqa: BLE001 (the supervisor is where a part's failure ends)
            _log.exception("setting up child %s failed", self.spec.name)
            child.kill("could not be set up: %s: %s" % (type(error).__name__, error))
            return False
        return True

    async def _watch(self, child: Child) -> None:
        """Pings until the child ends, is killed for its silence, or `stop` is asked."""
        up_at = self._clock.monotonic()
        pongs = child.pongs
        while True:
            if await _first_of(self.spec.ping_interval_s, child.ended, self._stopping):
                return
            now = self._clock.monotonic()
            if now - up_at >= _STEADY_S:
                self._backoff.reset()
            if child.pongs != pongs:
                pongs = child.pongs
                self._heartbeat.heard()
            child.look()
            if not child.gone:
                self._beat(child, now)

    def _beat(self, child: Child, now: float) -> None:
        if self._heartbeat.tick(now):
            try:
                child.ping()
            except ChildGone as error:
                child.kill(str(error))
        elif self._heartbeat.hangs:
            self._end_code = "child.silent"
            child.kill("gave no sign of life for %g s" % self.spec.silence_s)

    async def _end(self, child: Child) -> Tuple[str, bool]:
        if self._stopping.done():
            await child.terminate(self._stop_timeout_s)
        elif not child.killed and await child.reaped(_OWN_END_S):
            return child.reason(), True
        child.kill("closed its channel")
        reaped = await child.reaped(self.spec.kill_timeout_s)
        if not reaped:
            self._linger(child)
        return child.reason(), reaped

    def _close_life(self, reason: str, reaped: bool) -> None:
        self.reason = reason
        self.code = "" if self._stopping.done() else self._end_code or self._false_starts.code
        self._end_code = ""
        _log.info("child %s ended: %s%s", self.spec.name, reason, "" if reaped else " (it cannot be reaped)")
        try:
            self._on_down(reason, reaped)
        except Exception:  # noqa: BLE001 (an owner's fault must not end the supervision)
            _log.exception("on_down of child %s failed", self.spec.name)
        self._life = self.pid = None

    def _linger(self, child: Child) -> None:
        """Watches a process that SIGKILL has not ended, for as long as it takes."""
        task = asyncio.ensure_future(self._await_late_end(child))
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def _await_late_end(self, child: Child) -> None:
        while not await child.reaped(_LATE_ROUND_S):
            pass
        _log.info("process %d of child %s went after all", child.pid, self.spec.name)
        self._on_late_end(child.pid)
