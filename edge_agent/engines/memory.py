"""The bound of an engine host's memory: a library that grows for ever is started anew before the kernel ends it."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from pathlib import Path
from typing import Callable, FrozenSet, Iterable, Optional

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.engines.facts import HostFacts
from edge_agent.engines.hosted import HostedModel, HostOptions
from edge_agent.engines.shared_memory import kib_lines, shared_shortage
from edge_agent.engines.traffic import Traffic
from edge_agent.processes.child import Child
from edge_agent.processes.supervisor import Supervisor
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)

CODE = "engine_host.memory"
_UNLOAD_S = 6.0
_LEFT = "its models need more than memory_max_bytes: %s %s; it is left running"

Models = FrozenSet[str]


def process_bytes(pid: int, proc: Path = Path("/proc")) -> Optional[int]:
    """Memory of a process, swapped out or not, without the tensor arena: its share of it, or (kernel 4.9) all it maps.

    The kernel walks the page tables for it (12 ms for 2 GB), so call it off the loop. None when the process is gone.
    """
    fields = kib_lines(proc / str(pid) / "smaps_rollup")
    if "Pss" in fields:
        return (fields["Pss"] - fields.get("Pss_Shmem", 0) + fields.get("SwapPss", 0)) * 1024
    fields = kib_lines(proc / str(pid) / "status")
    if "VmRSS" in fields:
        return (fields["VmRSS"] - fields.get("RssShmem", 0) + fields.get("VmSwap", 0)) * 1024
    return None


class Verdict(enum.Enum):
    """What a look at the memory asks for."""

    FINE = "fine"
    END = "end"
    LEAVE = "leave"


class Judge:
    """Whether a host over its bound should be started anew: not if that did not help, and not often."""

    def __init__(self, max_bytes: int, pause_s: float) -> None:
        self._max_bytes = max_bytes
        self._pause_s = pause_s
        self._ended_at: Optional[float] = None
        self._too_much: Optional[Models] = None  #: these took more than the bound before they had run anything
        self.text = ""  #: of the last verdict that was not FINE

    def loaded(self, used: int, models: Models, short: str = "") -> None:
        """What a new process takes with its models, before it runs anything; `short`: and the machine has too little left."""
        self._too_much = models if short or used > self._max_bytes else None

    def look(self, used: int, models: Models, now: float, short: str = "") -> Verdict:
        """Judges what it takes now, and (`short`) that the machine has too little left because of it."""
        if used <= self._max_bytes and not short:
            return Verdict.FINE
        sizes = short if used <= self._max_bytes else "%d MB of %d MB" % (used >> 20, self._max_bytes >> 20)
        if models == self._too_much:
            self.text = _LEFT % (sizes, "right after loading")
            return Verdict.LEAVE
        if self._ended_at is not None and now - self._ended_at < self._pause_s:
            self.text = _LEFT % (sizes, "%.0f s after it was started anew" % (now - self._ended_at))
            return Verdict.LEAVE
        self._ended_at = now
        self.text = short if used <= self._max_bytes else "it took %s" % sizes
        return Verdict.END


class MemoryBound:
    """Looks at a host's memory now and then, and ends its process as planned: nothing that runs in it is lost."""

    def __init__(
        self,
        options: HostOptions,
        clock: Clock,
        supervisor: Supervisor,
        traffic: Traffic,
        models: Callable[[], Iterable[HostedModel]],
        on_event: Callable[[str, str, str], None],
        facts: HostFacts,
    ) -> None:
        self.over = ""  #: why it runs on although it is over its bound
        self.ending = False  #: it is being ended as planned: nobody's fault
        self._options = options
        self._clock = clock
        self._supervisor = supervisor
        self._traffic = traffic
        self._models = models
        self._on_event = on_event
        self._facts = facts
        self._judge = Judge(options.memory_max_bytes, options.memory_pause_s)
        self._tasks = Tasks()

    async def start(self, loading: asyncio.Lock) -> None:
        """Begins to look, where there is a bound. Nothing is loaded into a process that is being ended: `loading`."""
        if self._options.memory_max_bytes:
            self._tasks.spawn(self._run(loading), "memory:" + self._options.name)

    async def stop(self) -> None:
        """Looks no more."""
        await self._tasks.stop()

    async def loaded(self, child: Child) -> None:
        """A new process has its models and has run nothing yet."""
        if self._options.memory_max_bytes:
            used = await self._used(child.pid)
            if used is not None:
                self._judge.loaded(used, self._names(), await self._short(child.pid, used))

    def down(self) -> None:
        """The process ended, in whatever way."""
        self.over = ""
        self.ending = False

    async def _run(self, loading: asyncio.Lock) -> None:
        while True:
            await asyncio.sleep(self._options.memory_look_s)
            child = self._supervisor.child
            if child is not None and not self._traffic.loading:
                await self._look(child, loading)

    async def _look(self, child: Child, loading: asyncio.Lock) -> None:
        used = await self._used(child.pid)
        short = "" if used is None else await self._short(child.pid, used)
        if used is None or child.gone:
            return
        verdict = self._judge.look(used, self._names(), self._clock.monotonic(), short)
        if verdict is Verdict.END:
            await self._end(child, loading)
        elif verdict is Verdict.FINE:
            self.over = ""
        elif not self.over:
            self.over = self._judge.text
            _log.warning("engine host %s: %s", self._options.name, self.over, extra={"code": CODE})
            self._on_event(CODE, self._options.name, self.over)

    async def _end(self, child: Child, loading: asyncio.Lock) -> None:
        """No new batches; those inside end, or have had their time; then the process goes, and comes back by itself."""
        async with loading:
            if child.gone:
                return
            empty = asyncio.Event()
            self._traffic.close(empty.set)
            self.ending = True
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(empty.wait(), self._options.batch_timeout_s)
            await self._unload(child)
            if not child.gone:
                self._supervisor.restart(CODE, self._judge.text)

    async def _unload(self, child: Child) -> None:
        """Python models have an end of their own to run."""
        for model in self._models():
            if model.order.platform == "python":
                for instance in model.instances:
                    with contextlib.suppress(errors.ChildError):
                        await child.call("unload", {"instance": instance.number}, timeout_s=_UNLOAD_S)

    async def _used(self, pid: int) -> Optional[int]:
        return await asyncio.get_running_loop().run_in_executor(None, process_bytes, pid)

    async def _short(self, pid: int, used: int) -> str:
        """Says so where GPU and CPU share memory, the machine has little left, and this host is to blame."""
        if not self._facts.shares_memory:
            return ""
        root, most = self._options.memory_root, self._options.memory_max_bytes
        return await asyncio.get_running_loop().run_in_executor(None, shared_shortage, root, most, pid, used)

    def _names(self) -> Models:
        return frozenset("%s#%d" % (model.order.label, model.instances[0].number) for model in self._models())
