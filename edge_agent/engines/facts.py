"""Asks an engine host what it has: TensorRT, a GPU, and of which kind."""

from __future__ import annotations

import asyncio
import logging
from typing import Optional, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.gpu import GpuFacts
from edge_agent.engines.hosted import CANNOT_START
from edge_agent.processes.child import Child
from edge_agent.processes.supervisor import Supervisor

_log = logging.getLogger(__name__)

_TRIES = 2
_START_S = 30.0  #: for the process alone: it imports nothing yet
_KEY = "facts"


class _Hung(errors.ChildTimeout):
    """Of the question, not of its start."""


class HostFacts:
    """Remembers what a process said: the libraries that it has loaded stay what they are."""

    def __init__(self, supervisor: Supervisor, clock: Clock) -> None:
        self._supervisor = supervisor
        self._clock = clock
        self._known: Optional[Tuple[Child, GpuFacts]] = None
        self._shares = False

    @property
    def shares_memory(self) -> bool:
        """Whether its GPU takes the machine's own memory, as far as it was asked."""
        return self._shares

    async def ask(self, loading: asyncio.Lock, timeout_s: float) -> GpuFacts:
        """What the host says. One that ends of the question twice, hangs or cannot start has nothing that could be used.

        With the lock of loading, since the host answers in turn, and a model may take long.
        """
        reason = ""
        for _ in range(_TRIES):
            try:
                child = await self._supervisor.wait_up(min(timeout_s, _START_S))
                if self._known is not None and self._known[0] is child:
                    return self._known[1]
                async with loading:
                    return await self._call(child, timeout_s)
            except _Hung as error:
                reason = str(error)
                break  # another one would take as long
            except errors.ChildCannotStart as error:
                return _cannot_start(str(error))
            except errors.ChildError as error:
                reason = str(error)
        text = "the engine host ended or hung while it looked for TensorRT: %s" % reason
        _log.warning("%s", text, extra={"code": "engine.broken"})
        return GpuFacts(code="engine.broken", text=text)

    async def _call(self, child: Child, timeout_s: float) -> GpuFacts:
        self._supervisor.busy(self._clock.monotonic() + timeout_s, _KEY)
        try:
            facts = GpuFacts.from_reply(await child.call("facts", timeout_s=timeout_s))
        except errors.ChildTimeout as error:
            self._supervisor.restart("engine_host.hung", "looking for TensorRT took more than %g s" % timeout_s)
            raise _Hung(str(error)) from error
        finally:
            self._supervisor.idle(_KEY)
        if facts.usable:
            self._known, self._shares = (child, facts), facts.integrated
        return facts


def _cannot_start(reason: str) -> GpuFacts:
    _log.warning("TensorRT cannot be looked for: %s", reason, extra={"code": CANNOT_START})
    return GpuFacts(code=CANNOT_START, text=reason)
