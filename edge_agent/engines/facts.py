"""Asks an engine host what it has: TensorRT, a GPU, and of which kind."""

from __future__ import annotations

import logging

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.gpu import GpuFacts
from edge_agent.processes.supervisor import Supervisor

_log = logging.getLogger(__name__)

_TRIES = 2
_KEY = "facts"


async def ask_facts(supervisor: Supervisor, clock: Clock, timeout_s: float) -> GpuFacts:
    """What the host says. A host that ends or hangs of the question twice has nothing that could be used."""
    reason = ""
    for _ in range(_TRIES):
        try:
            child = await supervisor.wait_up(timeout_s)
            supervisor.busy(clock.monotonic() + timeout_s, _KEY)
            return GpuFacts.from_reply(await child.call("facts", timeout_s=timeout_s))
        except errors.ChildTimeout as error:
            reason = str(error)
            supervisor.restart("engine_host.hung", "looking for TensorRT took more than %g s" % timeout_s)
        except errors.ChildError as error:
            reason = str(error)
        finally:
            supervisor.idle(_KEY)
    text = "the engine host ended or hung while it looked for TensorRT: %s" % reason
    _log.warning("%s", text, extra={"code": "engine.broken"})
    return GpuFacts(code="engine.broken", text=text)
