"""Brings versions into their hosts, and says how that went."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from typing import Callable, Dict, List, Mapping, Optional

from edge_agent import errors
from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.config.hosts import HostSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import State
from edge_agent.engines.batch import Ran
from edge_agent.engines.calls import CallDesk
from edge_agent.engines.host import EngineHost
from edge_agent.engines.hosted import HostedModel, HostOptions
from edge_agent.engines.load import LoadOrder
from edge_agent.processes.arena import Arena
from edge_agent.serving.repository import digest
from edge_agent.serving.servable import Servable
from edge_agent.serving.statistics import VersionStatistics
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)

_SERVED_PLATFORMS = ("onnxruntime_onnx", "python")


class Loader:
    """Owns the engine hosts; one appears with the first model that names it."""

    def __init__(
        self,
        arena: Arena,
        clock: Clock,
        metrics: Metrics,
        sections: Mapping[str, HostSection],
        on_event: Callable[[str, str, str], None],
        calls: Optional[CallDesk] = None,
    ) -> None:
        self.hosts: Dict[str, EngineHost] = {}
        self._arena = arena
        self._clock = clock
        self._metrics = metrics
        self._sections = sections
        self._on_event = on_event
        self._calls = calls
        self._starting: Optional[asyncio.Lock] = None
        self.on_change: Callable[[HostedModel], None] = lambda hosted: None

    async def start(self) -> None:
        """Nothing runs yet; hosts come with their models."""
        self._starting = asyncio.Lock()

    async def stop(self) -> None:
        """Ends every host."""
        hosts: List[EngineHost] = list(self.hosts.values())
        await asyncio.gather(*(host.stop() for host in hosts))
        self.hosts.clear()

    async def load(self, version: Servable) -> None:
        """Loads a version and sets its state. Raises nothing: a failure is a state."""
        if not isinstance(version, ServedVersion):
            return  # an ensemble has nothing of its own that could be loaded
        try:
            if version.platform not in _SERVED_PLATFORMS:
                raise errors.EngineLoadError("%s is not served by this version of the agent" % version.platform)
            version.sha256 = await asyncio.get_running_loop().run_in_executor(None, digest, version.entry.path)
            await self._load(version)
            return
        except errors.ConfigError as error:
            version.become(State.FAILED, "model.config_rejected", text=str(error))
        except (errors.EdgeAgentError, OSError) as error:
            version.become(State.FAILED, "model.load_failed", text=str(error))
        await self.end_idle_hosts()  # one that came for this version alone has nothing to do

    async def _load(self, version: ServedVersion) -> None:
        name = version.config.host_name(version.platform)
        host = await self._host(name, version.aside)
        hosted = await host.load(self._order(version, name))
        assert hosted.report is not None
        ignored = ["not used by this version: %s" % key for key in version.config.ignored]
        for warning in [*hosted.report.warnings, *ignored]:
            _log.warning("model %s: %s", version.label, warning, extra={"code": "model.warning"})
        version.max_batch_size = hosted.report.max_batch_size
        try:
            version.loaded(host, hosted, self._batcher(version, host, hosted))
        except errors.ConfigError:
            host.drop(hosted)
            raise
        if not version.aside:
            self._metrics.model_loaded(version.name, version.version, hosted.report.load_ms / 1e3)
        version.become(State.OK)

    async def end_idle_hosts(self) -> None:
        """A host ends with its last model: then its memory is returned for certain."""
        assert self._starting is not None
        async with self._starting:
            for name, host in list(self.hosts.items()):
                if not host.models and not host.loading:
                    await host.stop()
                    self.hosts.pop(name, None)  # last, so that `stop` finds it even if this is cancelled

    def _batcher(self, version: ServedVersion, host: EngineHost, hosted: HostedModel) -> DynamicBatcher:
        name, number, metrics = version.name, version.version, self._metrics
        assert hosted.report is not None
        counted = {} if version.aside else {"on_batch": lambda rows, reason: metrics.batch_done(name, number, rows, reason)}
        return DynamicBatcher(
            name,
            number,
            version.policy(hosted.report.max_requests),
            self._clock,
            on_lone_death=lambda: host.lone_death(hosted),
            on_ran=_counter(version.statistics),
            **counted,
        )

    def _order(self, version: ServedVersion, host_name: str) -> LoadOrder:
        config = version.config
        python = version.platform == "python"
        # No file tells whether a Python model batches: silence means that it does not, as in Triton.
        max_batch_size = config.max_batch_size or 0 if python else config.max_batch_size
        batched = max_batch_size != 0
        inputs = tuple(spec.spec(batched) for spec in config.input)
        outputs = tuple(spec.spec(batched) for spec in config.output)
        described = config.triton_json(version.name, "python", max_batch_size or 0, inputs, outputs) if python else None
        return LoadOrder(
            model=version.name,
            version=version.version,
            platform=version.platform,
            path=str(version.entry.path),
            directory=str(version.entry.path.parent.parent),
            threads=self._threads(host_name),
            max_batch_size=max_batch_size,
            inputs=inputs,
            outputs=outputs,
            decode=config.decode_json(),
            instances=config.instances,
            config_json=json.dumps(described) if described else "",
            warmup_sizes=config.dynamic_batching.preferred_batch_size if config.dynamic_batching else (),
        )

    def _threads(self, host_name: str) -> int:
        """As configured; auto leaves a core to the agent."""
        section = self._sections.get(host_name) or HostSection()
        return max(1, (os.cpu_count() or 1) - 1) if section.threads == "auto" else int(section.threads)

    async def _host(self, like: str, aside: str = "") -> EngineHost:
        """The host of that name, or one like it beside it."""
        assert self._starting is not None
        name = like + aside
        async with self._starting:
            if name not in self.hosts:
                section = self._sections.get(like) or HostSection()
                options = HostOptions(name, section.python, section.batch_timeout_s, section.load_timeout_s)
                host = EngineHost(options, self._arena, self._clock, self._on_host_event, self._calls)
                host.on_change = self._on_hosted_change
                self.hosts[name] = host  # first, so that `stop` finds it even if this is cancelled
                await host.start()
            return self.hosts[name]

    def _on_hosted_change(self, hosted: HostedModel) -> None:
        self.on_change(hosted)

    def _on_host_event(self, kind: str, name: str, text: str) -> None:
        if kind == "engine_host.down":
            self._metrics.child_restarted("host:" + name)
        self._on_event(kind, name, text)


def _counter(statistics: VersionStatistics) -> Callable[[int, Ran], None]:
    def ran(rows: int, times: Ran) -> None:
        statistics.ran(rows, int(times.input_s * 1e6), int(times.infer_s * 1e6), int(times.output_s * 1e6))

    return ran
