"""The agent's life: start in the order of one list, serve, stop the same list backwards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from edge_agent import __version__, errors
from edge_agent.access.tokens import TokenFile
from edge_agent.app import access, status
from edge_agent.app.parts import Parts, Service
from edge_agent.app.stopping import OrderlyStop
from edge_agent.config.last_good import save_last_good
from edge_agent.config.root import AgentConfig
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.telemetry import logs
from edge_agent.telemetry.notify import ServiceManager
from edge_agent.telemetry.tasks import Tasks

_log = logging.getLogger(__name__)

_STOP_MARGIN_S = 5.0  #: what the service manager waits beyond the stop's own limit
_TRIM_EVERY_S = 30.0
_STARTED = {"crash": "agent.started_after_crash", "power": "agent.started_after_power_cut"}


class Agent:
    """One run of the service."""

    def __init__(self, config: AgentConfig, environ: Mapping[str, str], broken: Optional[errors.ConfigError] = None) -> None:
        self._config = config
        self._broken = broken  #: faults of the file that the last good copy stands in for
        self._clock = Clock()
        self._manager = ServiceManager(environ)
        self._started_at = self._clock.monotonic()
        self._since = self._clock.now()
        self._tokens = TokenFile(config.agent.state_dir / "tokens.json", self._clock)
        self._access = PartStatus(State.OK, self._since)
        self._environ = environ
        self._running: List[Service] = []
        self._draining = False
        self._tasks = Tasks()
        self._parts: Parts

    async def run(self) -> None:
        """Serves until a signal asks it to stop; ConfigError or StoreError when it cannot start."""
        stopping = asyncio.Event()
        log_setup: Optional[logs.LogSetup] = None
        with _signals(stopping.set):
            try:
                self._prepare()
                section = self._config.agent
                log_setup = logs.setup(section.log_level, section.log_format, self._parts.store.log_row)
                await self._start()
                await stopping.wait()
            finally:
                try:
                    await self._stop()
                finally:
                    if log_setup is not None:
                        log_setup.close()

    # -- start ------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        try:
            self._config.agent.state_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fault = (
                "agent.state_dir",
                "%s: %s" % (self._config.agent.state_dir, error.strerror),
                "name a folder the agent may write",
            )
            raise errors.ConfigError([fault]) from error
        admission = access.admit(self._config.http, self._tokens, self._config.agent.state_dir, self._since)
        self._access = admission.status
        self._parts = Parts(
            self._config,
            self._environ,
            self._clock,
            self._manager,
            admission,
            self._tokens,
            self.status,
            lambda: self._draining,
        )

    async def _start(self) -> None:
        for note in self._config.notes:
            _log.info("configuration: %s", note)
        for part in self._parts.in_start_order():
            self._running.append(part)
            await part.start()
        if self._broken is None:
            save_last_good(self._config)
        else:
            text = str(self._broken)
            _log.error("the configuration is broken, the last good one runs: %s", text, extra={"code": "config.safe_mode"})
            self._parts.store.event("config.rejected", code="config.rejected", args={"text": text}, text=text)
        self._tasks.spawn(self._announce(), "announce")
        self._tasks.spawn(self._trim_arena(), "arena-trim")

    async def _announce(self) -> None:
        """Tells the service manager and the log once models serve."""
        store, serving = self._parts.store, self._parts.serving
        last_end = store.last_end
        store.event(
            "agent.started",
            code=_STARTED.get(last_end, "agent.started"),
            args={"version": __version__},
            detail={"last_end": last_end},
        )
        await serving.settled()
        self._manager.ready("serving on %s" % self._parts.api.address)
        _log.info("ready: %s", self._parts.api.address)

    async def _trim_arena(self) -> None:
        """Pages of slots that nobody uses for a while go back to the machine."""
        while True:
            await asyncio.sleep(_TRIM_EVERY_S)
            self._parts.arena.trim(_TRIM_EVERY_S)

    # -- stop -------------------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Ready falls first; then all parts, within the time that the configuration allows."""
        self._draining = True
        self._manager.stopping()
        self._manager.extend_timeout(int((self._config.agent.stop_timeout_s + _STOP_MARGIN_S) * 1e6))
        await self._tasks.stop()
        running, self._running = self._running, []
        if running:
            await OrderlyStop(self._parts, self._config.agent.stop_timeout_s, self._clock).run(running)

    # -- status -----------------------------------------------------------------------------------------------------

    def status(self) -> Dict[str, Any]:
        """What `GET /api/status` answers."""
        return status.document(self._parts, self._own_state(), self._started_at, self._broken is not None, self._access)

    def _own_state(self) -> PartStatus:
        if self._draining:
            return PartStatus(State.DEGRADED, self._since, "agent.draining")
        if self._broken is not None:
            return PartStatus(State.DEGRADED, self._since, "config.safe_mode", {"text": str(self._broken)})
        return PartStatus(State.OK, self._since)


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first SIGTERM or SIGINT asks for an orderly stop, the second leaves at once (children go with the agent)."""
    loop = asyncio.get_running_loop()
    asked = False

    def on_signal(number: int) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        _log.info("stopping: %s; a second one leaves at once", signal.Signals(number).name)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
