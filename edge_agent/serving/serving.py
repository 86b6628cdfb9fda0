"""The one door to every model: infer(request) -> response."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from edge_agent.config.models import ModelsSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.domain.status import PartStatus, State
from edge_agent.domain.tensors import Lease
from edge_agent.engines.hosted import HostedModel
from edge_agent.processes.arena import Arena, Segment
from edge_agent.serving.journal import Journal, record
from edge_agent.serving.loading import Loader
from edge_agent.serving.repository import ModelEntry, scan
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.metrics import Metrics
from edge_agent.telemetry.tasks import Tasks


class Serving:
    """Loads the repository and answers requests. Listening and loading go on side by side: live first, ready later."""

    def __init__(
        self,
        section: ModelsSection,
        hosts: Mapping[str, HostSection],
        arena: Arena,
        clock: Clock,
        metrics: Metrics,
        journal: Journal,
    ) -> None:
        self._section = section
        self._arena = arena
        self._clock = clock
        self._metrics = metrics
        self._journal = journal
        self._models: Dict[str, Dict[str, ServedVersion]] = {}
        self._faults: Dict[str, PartStatus] = {}
        self._loader = Loader(arena, clock, metrics, hosts, self._on_host_event)
        self._loader.on_change = self._on_hosted_change
        self._tasks = Tasks()
        self._scanned = False
        self._loads: List[asyncio.Task[None]] = []
        self._draining = False
        self._in_flight = 0
        self._idle: Optional[asyncio.Event] = None  #: set when the last request ends after drain()

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reads the repository and begins to load; ConfigError when it cannot be read."""
        await self._loader.start()
        repositories: Sequence[Path] = self._section.repository
        entries = await asyncio.get_running_loop().run_in_executor(None, scan, repositories)
        for entry in entries:
            self._add(entry)
        self._metrics.watch_pending(self._pending)
        self._loads = [self._tasks.spawn(self._load(version), "load:" + version.label) for version in self._all()]
        self._scanned = True

    def _add(self, entry: ModelEntry) -> None:
        if not self._section.wants(entry.name):
            return
        if entry.fault:
            self._faults[entry.name] = PartStatus(
                State.FAILED, self._clock.now(), "model.config_rejected", {"model": entry.name, "text": entry.fault}
            )
            self._journal.event("model.failed", entry.name, code="model.config_rejected", text=entry.fault)
            return
        self._models[entry.name] = {
            str(version.number): ServedVersion(entry.name, version, entry.config, self._clock) for version in entry.versions
        }

    async def _load(self, version: ServedVersion) -> None:
        sha256 = await self._loader.load(version)
        text = str(version.part.args.get("text", ""))
        load_ms = version.hosted.report.load_ms if version.hosted is not None and version.hosted.report is not None else 0
        state = "ready" if version.part.state is State.OK else "failed"
        self._journal.model_version(version.name, version.version, version.platform, sha256, state, load_ms, text)
        kind = "model.loaded" if state == "ready" else "model.failed"
        self._journal.event(kind, version.label, code=version.part.code, args=version.part.args, text=text)

    async def settled(self) -> None:
        """Returns once every model asked for at start is loaded or has failed."""
        if self._loads:
            await asyncio.wait(self._loads)

    def drain(self) -> None:
        """New requests are refused from now on; those in flight end."""
        self._draining = True

    async def drained(self, timeout_s: float) -> bool:
        """Waits until no request is in flight; False when the time was over first."""
        self._idle = asyncio.Event()
        if self._in_flight:
            try:
                await asyncio.wait_for(self._idle.wait(), timeout_s)
            except asyncio.TimeoutError:
                return False
        return not self._in_flight

    async def stop(self) -> None:
        """Ends what waits with an error, then the hosts."""
        self._draining = True
        await self._tasks.stop()
        for version in self._all():
            if version.batcher is not None:
                version.batcher.close(errors.Draining("Server exiting"))
        await self._loader.stop()

    # -- what is there ----------------------------------------------------------------------------------------------

    def _all(self) -> List[ServedVersion]:
        return [version for versions in self._models.values() for version in versions.values()]

    def names(self) -> List[str]:
        """Models that were asked for, failed ones included."""
        return sorted({*self._models, *self._faults})

    def versions(self, name: str) -> List[str]:
        """Versions of a model, lowest first; ModelNotFound when there is no such model."""
        if name in self._faults:
            return []
        if name not in self._models:
            raise errors.ModelNotFound("Request for unknown model: '%s' is not found" % name)
        return sorted(self._models[name], key=int)

    def lookup(self, name: str, version: Optional[str] = None) -> ServedVersion:
        """The version that answers now: the one named, or the newest ready one. ModelNotFound, ModelNotReady."""
        if name in self._faults:
            raise errors.ModelNotReady("model '%s' is not ready: %s" % (name, self._faults[name].args["text"]))
        numbers = self.versions(name)
        if version is not None:
            if version not in self._models[name]:
                raise errors.ModelNotFound("Request for unknown model: '%s' version %s is not found" % (name, version))
            numbers = [version]
        for number in reversed(numbers):
            if self._models[name][number].ready:
                return self._models[name][number]
        newest = self._models[name][numbers[-1]]
        raise errors.ModelNotReady(
            "Request for model '%s' version %s is not at ready state: %s"
            % (name, newest.version, newest.part.as_json()["reason"] or "its engine host is starting again")
        )

    def is_ready(self, name: str, version: Optional[str] = None) -> bool:
        """Whether a model (or one version) takes requests; ModelNotFound when there is no such thing."""
        try:
            self.lookup(name, version)
        except errors.ModelNotReady:
            return False
        return True

    def ready(self) -> bool:
        """Whether every model asked for is loaded or has failed with a reason, and the agent is not stopping.

        With strict_readiness every model must be ready.
        """
        if not self._scanned or self._draining:
            return False
        if self._section.strict_readiness:
            return not self._faults and all(version.ready for version in self._all())
        return all(version.settled for version in self._all())

    # -- requests ---------------------------------------------------------------------------------------------------

    async def reserve(
        self, name: str, version: Optional[str], input_bytes: int, timeout_s: float = 1.0
    ) -> Tuple[Lease, Optional[Lease]]:
        """Slots for a request's tensors and for its outputs, taken in one step. The caller releases both after `infer`."""
        if self._draining:
            raise errors.Draining("Server exiting")
        served = self.lookup(name, version)
        assert served.host is not None
        segment = served.host.segment
        room = served.room_for(input_bytes)
        wants: List[Tuple[Segment, int]] = [(segment, max(1, input_bytes)), (segment, room)]
        try:
            leases = await self._arena.acquire(wants if room else wants[:1], timeout_s)
        except errors.PayloadTooLarge:
            if served.room_is_known:
                raise
            leases = await self._arena.acquire(wants[:1], timeout_s)  # the host will ask for what it needs
        except errors.ChildGone as error:
            raise errors.ModelNotReady("model '%s' is not ready: %s" % (name, error)) from error
        return leases[0], leases[1] if len(leases) > 1 else None

    async def share(self, name: str, version: Optional[str], segment: Segment) -> None:
        """Lets the model's host read tensors that lie in `segment`."""
        host = self.lookup(name, version).host
        assert host is not None
        await host.share(segment)

    async def infer(self, request: InferRequest) -> InferResponse:
        """Runs one request. Cancelling it means that its caller left."""
        received_at = self._clock.now()
        started = self._clock.monotonic()
        number = request.version or ""
        self._in_flight += 1
        try:
            if self._draining:
                raise errors.Draining("Server exiting")
            served = self.lookup(request.model, request.version)
            number = served.version
            response = await served.infer(request)
        except asyncio.CancelledError:
            self._failed(request, number, received_at, started, "CANCELED", "request.cancelled", "the caller left")
            raise
        except errors.EdgeAgentError as error:
            self._failed(request, number, received_at, started, _reason(error), error.code, str(error))
            raise
        finally:
            self._left()
        rows = request.inputs[0].shape[0] if served.max_batch_size and request.inputs else 1
        self._metrics.request_done(request.model, number, True, "", response.timing, rows)
        sampled = request.source.startswith("camera/")
        self._journal.request_done(record(request, number, received_at, response.timing, response.batch_size), sampled)
        return response

    def _left(self) -> None:
        self._in_flight -= 1
        if not self._in_flight and self._idle is not None:
            self._idle.set()

    def _failed(
        self, request: InferRequest, number: str, received_at: str, started: float, reason: str, code: str, text: str
    ) -> None:
        total_us = int((self._clock.monotonic() - started) * 1e6)
        if number:
            self._metrics.request_done(request.model, number, False, reason)
        self._journal.request_done(record(request, number, received_at, Timing(total_us=total_us), 0, code, text))

    # -- changes ----------------------------------------------------------------------------------------------------

    def _on_hosted_change(self, hosted: HostedModel) -> None:
        """A host died, came back, or gave a model up."""
        for version in self._all():
            if version.hosted is hosted:
                self._refresh(version, hosted)

    def _refresh(self, version: ServedVersion, hosted: HostedModel) -> None:
        if hosted.error is not None:
            changed = version.become(State.FAILED, "model.stopped", text=str(hosted.error))
            assert version.batcher is not None
            version.batcher.close(errors.ModelNotReady(str(hosted.error)))
            if changed:
                self._journal.event("model.failed", version.label, code="model.stopped", text=str(hosted.error))
        elif hosted.ready:
            version.become(State.OK)
        else:
            assert version.host is not None
            version.become(State.FAILED, "model.host_down", host=version.host.options.name)

    def _on_host_event(self, kind: str, name: str, text: str) -> None:
        code = "engine_host.died" if kind == "engine_host.down" else "engine_host.up"
        self._journal.event(kind, name, code=code, args={"host": name, "reason": text}, text=text)

    def _pending(self) -> Mapping[Tuple[str, str], int]:
        return {(v.name, v.version): v.batcher.pending for v in self._all() if v.batcher is not None}

    # -- status -----------------------------------------------------------------------------------------------------

    def status(self) -> List[Dict[str, Any]]:
        """`models` of `/api/status`."""
        listed = [{"name": name, **part.as_json(), "versions": []} for name, part in sorted(self._faults.items())]
        for name, versions in sorted(self._models.items()):
            newest_first = sorted(versions.values(), key=lambda version: int(version.version), reverse=True)
            shown = next((version for version in newest_first if version.ready), newest_first[0])
            listed.append({"name": name, **shown.part.as_json(), "versions": [v.as_json() for v in newest_first]})
        return listed

    def host_status(self) -> List[Dict[str, Any]]:
        """`engine_hosts` of `/api/status`."""
        return [host.status() for _, host in sorted(self._loader.hosts.items())]


def _reason(error: errors.EdgeAgentError) -> str:
    """Triton's reason of a failed request."""
    if isinstance(error, errors.UnavailableError):
        return "REJECTED"
    return "BACKEND" if isinstance(error, errors.EngineError) else "OTHER"
