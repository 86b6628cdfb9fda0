"""The whole configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from pydantic import Field, PrivateAttr, model_validator
from typing_extensions import Literal

from edge_agent.config.agent import AgentSection
from edge_agent.config.arena import ArenaSection
from edge_agent.config.cameras import CameraSection
from edge_agent.config.device import DeviceSection
from edge_agent.config.hosts import HostSection
from edge_agent.config.http import HttpSection
from edge_agent.config.metrics import MetricsSection
from edge_agent.config.models import ModelsSection
from edge_agent.config.mqtt import MqttSection
from edge_agent.config.response_cache import ResponseCacheSection
from edge_agent.config.section import Name, Section
from edge_agent.config.store import StoreSection
from edge_agent.config.vision import VisionSection


class AgentConfig(Section):
    """Every section, checked; a room is given its own."""

    config_version: Literal[1] = Field(1, description="version of this file's form")
    agent: AgentSection = Field(default_factory=AgentSection, description="who this agent is")
    http: HttpSection = Field(default_factory=HttpSection, description="the port for clients and the page")
    metrics: MetricsSection = Field(default_factory=MetricsSection, description="the port that Prometheus reads")
    models: ModelsSection = Field(default_factory=ModelsSection, description="the model repository")
    hosts: Dict[Name, HostSection] = Field(
        default_factory=dict, description="settings of engine hosts by name; models name their host"
    )
    vision: VisionSection = Field(default_factory=VisionSection, description="camera and image processes")
    arena: ArenaSection = Field(default_factory=ArenaSection, description="shared memory for tensors")
    store: StoreSection = Field(default_factory=StoreSection, description="the database")
    response_cache: ResponseCacheSection = Field(
        default_factory=ResponseCacheSection, description="answers kept for equal requests, of models that ask for it"
    )
    cameras: Tuple[CameraSection, ...] = Field((), max_length=64, description="cameras; none without the section")
    mqtt: Optional[MqttSection] = Field(None, description="the broker; no MQTT without the section")
    device: DeviceSection = Field(default_factory=DeviceSection, description="the board")

    #: the file and conf.d as they were read, before the environment: what the last good copy is made of
    _settings: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    _path: Path = PrivateAttr(default=Path())
    _notes: Tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _cameras_differ(self) -> Any:
        names = [camera.name for camera in self.cameras]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError("two cameras have the name %s: give each its own" % ", ".join(twice))
        return self

    def host(self, name: str) -> HostSection:
        """The settings of an engine host; the defaults where the file does not speak of it."""
        return self.hosts.get(name) or HostSection()

    @property
    def notes(self) -> Tuple[str, ...]:
        """Keys that are accepted though this version does nothing with them, each with a word on it."""
        return self._notes

    @property
    def path(self) -> Path:
        """The file that this was read from."""
        return self._path

    @property
    def settings(self) -> Mapping[str, Any]:
        """The file and conf.d as read, before the environment."""
        return self._settings
