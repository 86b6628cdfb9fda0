"""Brings versions into their hosts, and says how that went."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, List, Mapping, Optional
from typing import Counter as Counts
from weakref import WeakKeyDictionary

from edge_agent import errors
from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.config.hosts import HostSection
from edge_agent.config.model_config import ModelConfig
from edge_agent.config.optimization import BuildConfig
from edge_agent.domain.clock import Clock
from edge_agent.domain.codes import CODES
from edge_agent.domain.gpu import GpuFacts
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
from edge_agent.serving.version import ServedVersion, deaths_of
from edge_agent.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)

#: nothing is known to be wrong with the model: a read failed, and may go well the next time
UNREADABLE = "model.unreadable"

#: by what an engine is called, what its host is told
_PLATFORMS = {"onnxruntime": "onnxruntime_onnx", "tensorrt": "tensorrt_plan", "python": "python"}

_NICE_ASIDE = 10  #: of hosts whose models answer nobody
#: loads a version that TensorRT should serve, one way or another
Heal = Callable[[ServedVersion], Awaitable[None]]


class Loader:
    """Owns the engine hosts; one appears with the first model that names it. TensorRT's versions go to `heal`."""

    def __init__(
        self,
        arena: Arena,
        clock: Clock,
        metrics: Metrics,
        sections: Mapping[str, HostSection],
        on_event: Callable[[str, str, str, str], None],
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
        self._batchers: WeakKeyDictionary[HostedModel, DynamicBatcher] = WeakKeyDictionary()
        self._used: Counts[str] = Counter()  #: hosts that somebody asks something, models or not
        self.heal: Heal = self.serve_file
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
            version.sha256 = await asyncio.get_running_loop().run_in_executor(None, digest, version.entry.truth)
            await (self.heal if version.platform == "tensorrt_plan" else self.serve_file)(version)
            return
        except errors.ConfigError as error:
            version.become(State.FAILED, "model.config_rejected", text=str(error))
        except (errors.EdgeAgentError, OSError) as error:
            version.deaths = deaths_of(error)
            version.become(State.FAILED, load_code(error), text=str(error))
        await self.end_idle_hosts()  # one that came for this version alone has nothing to do

    async def serve_file(self, version: ServedVersion) -> None:
        """Serves the version's own file with the engine that its platform names. EngineLoadError, ConfigError."""
        await self.bring(version, version.engine, version.entry.path, version.config.host_name(version.platform))
        version.rest(State.OK)

    async def bring(
        self, version: ServedVersion, engine: str, path: Path, like: str, once: bool = False, sha256: str = ""
    ) -> None:
        """Loads a file into the host of that name with that engine; what the version is then is the caller's to say.

        `once`: one instance, whatever the configuration says. `sha256`: of the plan that is meant, whenever its host starts.
        EngineLoadError, ChildError, ConfigError.
        """
        host = await self._host(like, version.aside)
        order = self._order(version, engine, path, like)
        if sha256:
            order = replace(order, tensorrt={**order.tensorrt, "sha256": sha256})
        hosted = await host.load(replace(order, instances=1) if once else order)
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
        version.engine = engine
        if not version.aside:
            self._metrics.model_loaded(version.name, version.version, hosted.report.load_ms / 1e3)

    async def facts(self, like: str) -> GpuFacts:
        """What the host of that name has of TensorRT; it is started for it where no model has done so.

        A process that found no GPU never finds one: where nothing runs in it, a new one is asked.
        """
        before = self.hosts.get(like)
        facts = await self._ask(like)
        if facts.usable or facts.code == "engine.broken" or before is None or self.hosts.get(like) is not before:
            return facts
        await self.end_idle_hosts()
        return facts if self.hosts.get(like) is before else await self._ask(like)

    async def _ask(self, like: str) -> GpuFacts:
        async with self._using(like) as host:
            return await host.facts()

    @contextlib.asynccontextmanager
    async def _using(self, like: str) -> AsyncIterator[EngineHost]:
        """The host does not end meanwhile for lack of models."""
        self._used[like] += 1
        try:
            yield await self._host(like)
        finally:
            self._used[like] -= 1

    def is_empty(self, like: str) -> bool:
        """Whether no model is in the host of that name."""
        return like not in self.hosts or not self.hosts[like].models

    def python(self, like: str) -> str:
        """The interpreter of a host; empty: the agent's own."""
        return (self._sections.get(like) or HostSection()).python

    async def end_idle_hosts(self) -> None:
        """A host ends with its last model: then its memory is returned for certain."""
        assert self._starting is not None
        async with self._starting:
            for name, host in list(self.hosts.items()):
                if not host.models and not host.loading and not self._used[name]:
                    await host.stop()
                    self.hosts.pop(name, None)  # last, so that `stop` finds it even if this is cancelled

    def _batcher(self, version: ServedVersion, host: EngineHost, hosted: HostedModel) -> DynamicBatcher:
        name, number, metrics = version.name, version.version, self._metrics
        assert hosted.report is not None
        counted = {} if version.aside else {"on_batch": lambda rows, reason: metrics.batch_done(name, number, rows, reason)}
        batcher = self._batchers[hosted] = DynamicBatcher(
            name,
            number,
            version.policy(hosted.report.max_requests),
            self._clock,
            on_lone_death=lambda: host.lone_death(hosted),
            on_ran=_counter(version.statistics),
            **counted,
        )
        return batcher

    def _order(self, version: ServedVersion, engine: str, path: Path, host_name: str) -> LoadOrder:
        config = version.config
        python = engine == "python"
        # No file tells whether a Python model batches: silence means that it does not, as in Triton.
        max_batch_size = config.max_batch_size or 0 if python else config.max_batch_size
        batched = max_batch_size != 0
        inputs = tuple(spec.spec(batched) for spec in config.input)
        outputs = tuple(spec.spec(batched) for spec in config.output)
        described = config.triton_json(version.name, "python", max_batch_size or 0, inputs, outputs) if python else None
        return LoadOrder(
            model=version.name,
            version=version.version,
            platform=_PLATFORMS[engine],
            path=str(path),
            directory=str(version.entry.path.parent.parent),
            threads=self._threads(host_name),
            max_batch_size=max_batch_size,
            inputs=inputs,
            outputs=outputs,
            decode=config.decode_json(),
            instances=1 if version.aside else config.instances,
            config_json=json.dumps(described) if described else "",
            warmup_sizes=config.dynamic_batching.preferred_batch_size if config.dynamic_batching else (),
            tensorrt=_tensorrt(config) if engine == "tensorrt" else {},
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
                limits = (section.batch_timeout_s, section.load_timeout_s, section.memory_max_bytes)
                options = HostOptions(name, section.python, *limits, nice=_NICE_ASIDE if aside else 0)
                host = EngineHost(options, self._arena, self._clock, self._on_host_event, self._calls)
                host.on_change = self._on_hosted_change
                self.hosts[name] = host  # first, so that `stop` finds it even if this is cancelled
                await host.start()
            return self.hosts[name]

    def _on_hosted_change(self, hosted: HostedModel) -> None:
        """What waits for a model that was given up ends, also where no catalogue has it."""
        if hosted.error is not None and hosted in self._batchers:
            self._batchers[hosted].close(errors.ModelNotReady(str(hosted.error)))
        self.on_change(hosted)

    def _on_host_event(self, kind: str, name: str, text: str) -> None:
        code = kind
        if kind == "engine_host.down":
            code = self.hosts[name].end_code
            self._metrics.child_restarted("host:" + name)
        self._on_event(kind, name, text, code)


def load_code(error: Exception) -> str:
    """Why something could not be loaded, of the table of codes."""
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return UNREADABLE
    said = error.args_by_name.get("code") if isinstance(error, errors.EdgeAgentError) else None
    return str(said) if said in CODES else "model.load_failed"


def _tensorrt(config: ModelConfig) -> Dict[str, Any]:
    """How a plan is run; how it is built has no part in it."""
    build = config.build_values or BuildConfig()
    cuda = config.optimization.cuda if config.optimization is not None else None
    named = [number for group in config.instance_group for number in group.profile]
    for number in named:
        if not (number.isascii() and number.isdigit()):
            wrong = ("instance_group.profile", "%r is no number" % number, "a plan's profiles are 0, 1 and so on")
            raise errors.ConfigError([wrong])
    profiles = sorted({int(number) for number in named})
    return {
        "dla_core": build.dla_core,
        "cuda_graphs": build.cuda_graphs,
        "profiles": profiles,
        "spin": cuda is not None and cuda.busy_wait_events,
    }


def _counter(statistics: VersionStatistics) -> Callable[[int, Ran], None]:
    def ran(rows: int, times: Ran) -> None:
        statistics.ran(rows, int(times.input_s * 1e6), int(times.infer_s * 1e6), int(times.output_s * 1e6))

    return ran
