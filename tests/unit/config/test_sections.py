"""The defaults are part of the public interface: they are written down here a second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Type

import pytest
from pydantic import ValidationError

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
from edge_agent.config.section import MODEL_NAME_PATTERN, NAME_PATTERN, Section
from edge_agent.config.store import StoreSection
from edge_agent.config.vision import VisionSection

DEFAULTS: Dict[Type[Section], Dict[str, Any]] = {
    AgentSection: {
        "id": "auto",
        "title": "",
        "state_dir": Path("/var/lib/edge-agent"),
        "stop_timeout_s": 30,
        "log_level": "info",
        "log_format": "text",
    },
    HttpSection: {
        "host": "127.0.0.1",
        "port": 8000,
        "allow_anonymous": "none",
        "max_body_bytes": 67108864,
        "tls_cert_file": None,
        "tls_key_file": None,
        "uds_path": None,
        "allowed_hosts": (),
    },
    MetricsSection: {"port": 8002},
    ModelsSection: {
        "repository": (Path("/var/lib/edge-agent/models"),),
        "control_mode": "poll",
        "load": ("*",),
        "poll_interval_s": 5,
        "strict_readiness": False,
        "trust_plans": "alone",
        "plans_max_bytes": 4294967296,
    },
    HostSection: {"python": "", "threads": "auto", "batch_timeout_s": 10, "load_timeout_s": 300, "memory_max_bytes": 0},
    VisionSection: {"python": ""},
    ArenaSection: {"max_bytes": 268435456},
    StoreSection: {
        "path": "edge-agent.db",
        "commit_interval_ms": 50,
        "request_log": "all",
        "request_log_per_s": 1.0,
        "log_max_rows": 20000,
    },
    ResponseCacheSection: {"memory_max_bytes": 33554432, "disk_max_bytes": 67108864},
    MqttSection: {
        "host": "127.0.0.1",
        "port": 1883,
        "prefix": "edge/{id}",
        "client_id": "{id}",
        "username": "",
        "password_file": None,
        "tls": False,
        "ca_file": None,
        "cert_file": None,
        "key_file": None,
        "version": "auto",
        "keepalive_s": 30,
        "receive_maximum": 20,
        "max_payload_bytes": 16777216,
        "dedupe_s": 3600,
        "live_max_age_s": 60,
        "heartbeat_s": 0,
    },
    DeviceSection: {"stats": "auto"},
}


@pytest.mark.parametrize("section", list(DEFAULTS), ids=lambda section: section.__name__)
def test_a_silent_section_has_its_defaults(section: Type[Section]) -> None:
    assert section().model_dump() == DEFAULTS[section]


def test_a_camera_with_what_it_needs_has_its_defaults() -> None:
    camera = CameraSection(name="dock", source="/dev/video0", model="face")
    assert camera.model_dump(exclude={"name", "source", "model"}) == {
        "title": "",
        "username": "",
        "password_file": None,
        "max_fps": 10,
        "transport": "tcp",
        "loop": True,
        "stale_after_s": 5,
        "frozen_after_s": 60,
        "keep": "all",
        "min_score": 0.4,
        "labels": (),
    }


@pytest.mark.parametrize("section", list(DEFAULTS), ids=lambda section: section.__name__)
def test_no_section_takes_an_unknown_key_or_changes(section: Type[Section]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        section.model_validate({"unknown": 1})
    made = section()
    with pytest.raises(ValidationError, match="frozen"):
        setattr(made, next(iter(section.model_fields)), 1)


@pytest.mark.parametrize(
    ("name", "of_thing", "of_model"),
    [
        ("a", True, True),
        ("Dock-5_b", True, True),
        ("yolo.v8", False, True),
        ("a" * 64, True, True),
        ("a" * 65, False, True),
        ("a" * 129, False, False),
        ("", False, False),
        ("-a", False, False),
        (".a", False, False),
        ("a/b", False, False),
        ("a\n", False, False),
        ("\u00e9", False, False),
    ],
)
def test_names_are_plain(name: str, of_thing: bool, of_model: bool) -> None:
    assert bool(NAME_PATTERN.match(name)) is of_thing
    assert bool(MODEL_NAME_PATTERN.match(name)) is of_model


def test_the_agents_id_is_filled_in() -> None:
    section = MqttSection(prefix="plant/{id}/x")
    assert section.expand(section.prefix, "0a1b") == "plant/0a1b/x"
