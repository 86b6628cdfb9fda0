"""Every part of one agent, built from the configuration; nothing is started here."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol

from edge_agent import __version__
from edge_agent.access.gate import Gate
from edge_agent.access.last_used import LastUsed
from edge_agent.access.tokens import TokenFile
from edge_agent.api.server import ApiServer
from edge_agent.api.services import Services
from edge_agent.app import brokerage
from edge_agent.app.access import Admission
from edge_agent.cameras.bodies import BodyChild
from edge_agent.cameras.camera import Camera
from edge_agent.cameras.images import ImageChild
from edge_agent.cameras.options import CameraOptions
from edge_agent.config.cameras import CameraSection
from edge_agent.config.root import AgentConfig
from edge_agent.config.secret import read_secret
from edge_agent.device import board
from edge_agent.device.sampler import DeviceSampler
from edge_agent.device.sysfs import DeviceReader
from edge_agent.domain.clock import Clock
from edge_agent.domain.results import Result
from edge_agent.domain.status import PartStatus, State
from edge_agent.pipelines.camera import CameraPipeline
from edge_agent.pipelines.mqtt import MqttPipeline
from edge_agent.processes.arena import Arena
from edge_agent.serving.detect import Detector
from edge_agent.serving.healing.surroundings import Surroundings
from edge_agent.serving.promotion.board import Board
from edge_agent.serving.serving import Serving
from edge_agent.store.store import Store, StoreOptions
from edge_agent.telemetry.loop_lag import LoopLag
from edge_agent.telemetry.metrics import Metrics
from edge_agent.telemetry.notify import ServiceManager
from edge_agent.telemetry.watchdog import Watchdog

_log = logging.getLogger(__name__)

_CAMERA_RESERVE_BYTES = 16 * 1024 * 1024


class Service(Protocol):
    """A part with a life."""

    async def start(self) -> None:
        """Works or raises."""

    async def stop(self) -> None:
        """Ends it; may be called twice and after half a start."""


class Parts:
    """The agent's parts. Cameras and MQTT are what the configuration has of them."""

    def __init__(
        self,
        config: AgentConfig,
        environ: Mapping[str, str],
        clock: Clock,
        manager: ServiceManager,
        admission: Admission,
        tokens: TokenFile,
        status: Callable[[], Dict[str, object]],
        draining: Callable[[], bool],
    ) -> None:
        self.config = config
        self.clock = clock
        root = board.root_of(environ)
        state_dir = config.agent.state_dir
        reader = DeviceReader(root, state_dir)
        self.agent_id = board.agent_id(root) if config.agent.id == "auto" else config.agent.id
        self.lag = LoopLag()
        self.metrics = Metrics(self.lag)
        self.arena = Arena(config.arena.max_bytes)
        self.store = Store(self._store_options(reader.serial), clock, self._publish_event)
        self.device = DeviceSampler(reader)
        self.images = ImageChild(self.arena, clock, config.vision.python)
        self.bodies = BodyChild(self.arena, clock, config.vision.python)
        self.serving = self._serving(root, manager)
        self.metrics.plans.status = self.serving.status
        self.detector = Detector(self.serving, self.images, self.store, clock)
        self.mqtt: Optional[MqttPipeline] = None
        if config.mqtt is not None:
            agent = brokerage.info(self.agent_id, config.agent.title)
            self.mqtt = brokerage.make(config.mqtt, agent, self.serving, self.detector, self.bodies, self.store, clock)
        self.cameras: Dict[str, CameraPipeline] = {section.name: self._camera(section) for section in config.cameras}
        self.last_used = LastUsed(tokens)
        self.watchdog = Watchdog(manager, self.store.progress)
        self.api = ApiServer(
            Services(
                http=admission.http,
                metrics_port=config.metrics.port,
                control_path=control_path(environ, state_dir),
                serving=self.serving,
                detector=self.detector,
                bodies=self.bodies,
                gate=Gate(tokens, admission.http.allow_anonymous, loopback=admission.open_to_loopback),
                store=self.store,
                cameras=self.cameras,
                status=status,
                registry=self.metrics.registry,
                version=__version__,
                clock=clock,
                draining=draining,
            )
        )

    def in_start_order(self) -> List[Service]:
        """The one list; stopped backwards. The API listens before models are loaded, so that it can say so."""
        parts: List[Optional[Service]] = [
            self.store,
            self.lag,
            self.device if self.config.device.stats != "off" else None,
            self.last_used,
            self.bodies,
            self.api,
            self.detector,
            self.serving,
            self.mqtt,
            *self.cameras.values(),
            self.watchdog,
        ]
        return [part for part in parts if part is not None]

    def _serving(self, root: Path, manager: ServiceManager) -> Serving:
        return Serving(
            self.config.models,
            self.config.hosts,
            self.arena,
            self.clock,
            self.metrics,
            self.store,
            self.config.agent.state_dir,
            self.config.response_cache,
            self.store.answers,
            Board(self._hottest_c),
            Surroundings(root, lambda seconds: manager.extend_timeout(int(seconds * 1e6))),
        )

    def _store_options(self, serial: str) -> StoreOptions:
        section = self.config.store
        return StoreOptions(
            path=self.config.agent.state_dir / section.path,
            agent_id=self.agent_id,
            board_serial=serial,
            commit_interval_ms=section.commit_interval_ms,
            request_log=section.request_log,
            request_log_per_s=section.request_log_per_s,
            log_max_rows=section.log_max_rows,
            response_cache_max_bytes=self.config.response_cache.disk_max_bytes,
        )

    def _hottest_c(self) -> Optional[float]:
        """Of the board as it was read last; None where it does not tell."""
        zones: Mapping[str, float] = self.device.values.get("temperatures_c") or {}
        return max(zones.values(), default=None)

    # -- cameras ----------------------------------------------------------------------------------------------------

    def _camera(self, section: CameraSection) -> CameraPipeline:
        password_file = section.password_file
        camera = Camera(
            self._camera_options(section),
            self.arena,
            self.clock,
            on_change=lambda status: self._camera_changed(section.name, status),
            read_password=lambda: "" if password_file is None else read_secret(password_file),
        )
        return CameraPipeline(
            section, camera, self.serving, self.arena, self.store, self.metrics, self.clock, self._publish_result
        )

    def _camera_options(self, section: CameraSection) -> CameraOptions:
        share = self.config.arena.max_bytes // (4 * len(self.config.cameras))
        return CameraOptions(
            name=section.name,
            source=section.source,
            username=section.username,
            transport=section.transport,
            loop=section.loop,
            stale_after_s=section.stale_after_s,
            frozen_after_s=section.frozen_after_s,
            python=self.config.vision.python,
            reserve_bytes=min(_CAMERA_RESERVE_BYTES, share),
        )

    def _publish_event(self, event: Mapping[str, Any]) -> None:
        self.metrics.plans.event(event["kind"], event["subject"], event["args"])
        if self.mqtt is not None:
            brokerage.tell_event(self.mqtt, event)

    def _publish_result(self, camera: str, result: Result, kept: bool) -> None:
        if self.mqtt is not None:
            brokerage.tell_result(self.mqtt, camera, result, kept)

    def _camera_changed(self, name: str, status: PartStatus) -> None:
        kind = {State.OK: "camera.up", State.FAILED: "camera.down"}.get(status.state)
        if status.state is State.FAILED:
            reason = status.as_json()["reason"]
            _log.warning("camera %s: %s %s", name, reason, status.args.get("text", ""), extra={"code": status.code})
        if kind is not None:
            self.store.event(kind, name, code=status.code, args=status.args, text=str(status.as_json()["reason"]))
        if self.mqtt is not None:
            self.mqtt.publish_camera_status(name, status.as_json())


def control_path(environ: Mapping[str, str], state_dir: Path) -> Path:
    """The control socket: systemd's runtime directory, else the state directory."""
    runtime = environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    return (Path(runtime) if runtime else state_dir) / "control.sock"
