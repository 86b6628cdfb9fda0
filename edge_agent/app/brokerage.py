"""MQTT as the configuration asks for it: connection, pipeline, and what cameras tell there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from edge_agent import __version__
from edge_agent.cameras.bodies import BodyChild
from edge_agent.config.mqtt import MqttSection
from edge_agent.config.secret import read_secret
from edge_agent.domain import codes
from edge_agent.domain.clock import Clock
from edge_agent.domain.results import Result
from edge_agent.mqtt.connection import BrokerConnection
from edge_agent.mqtt.options import BrokerOptions
from edge_agent.pipelines.mqtt import AgentInfo, MqttPipeline, offline_will
from edge_agent.serving.detect import Detector
from edge_agent.serving.serving import Serving
from edge_agent.store.store import Store

_LEAST_INBOX = 1000  #: messages; what the broker may send before the first acknowledgement fits in any case


def make(
    section: MqttSection,
    agent: AgentInfo,
    serving: Serving,
    detector: Detector,
    bodies: BodyChild,
    store: Store,
    clock: Clock,
) -> MqttPipeline:
    """The pipeline with its connection; ConfigError when the password cannot be read."""
    prefix = section.expand(section.prefix, agent.id)
    connection = BrokerConnection(_options(section, prefix, agent), clock)
    return MqttPipeline(
        connection,
        prefix,
        agent,
        serving,
        detector,
        bodies,
        store,
        section.max_payload_bytes,
        clock,
        receive_maximum=section.receive_maximum,
        dedupe_s=section.dedupe_s,
        live_max_age_s=section.live_max_age_s,
        heartbeat_s=section.heartbeat_s,
    )


def info(agent_id: str, title: str) -> AgentInfo:
    """Who this agent is, for `{p}/status`."""
    return AgentInfo(agent_id, title, __version__)


def _options(section: MqttSection, prefix: str, agent: AgentInfo) -> BrokerOptions:
    will_topic, will_payload = offline_will(prefix, agent)
    return BrokerOptions(
        host=section.host,
        port=section.port,
        client_id=section.expand(section.client_id, agent.id),
        username=section.username,
        password="" if section.password_file is None else read_secret(section.password_file),
        tls=section.tls,
        ca_file=_text(section.ca_file),
        cert_file=_text(section.cert_file),
        key_file=_text(section.key_file),
        version=section.version,
        keepalive_s=section.keepalive_s,
        receive_maximum=section.receive_maximum,
        max_inbox=max(_LEAST_INBOX, section.receive_maximum),
        will_topic=will_topic,
        will_payload=will_payload,
    )


def _text(path: Optional[Path]) -> str:
    return "" if path is None else str(path)


def tell_event(mqtt: MqttPipeline, event: Mapping[str, Any]) -> None:
    """An event of the agent for who listens now, with its code in words."""
    code, args = event["code"], event["args"]
    mqtt.publish_event({**event, "reason": codes.reason(code, args), "cure": codes.cure(code, args)})


def tell_result(mqtt: MqttPipeline, camera: str, result: Result, kept: bool) -> None:
    """How many of what a camera sees; and the result itself, if it is kept, for who listens now."""
    mqtt.publish_counts(camera, dict(Counter(seen.label for seen in result.objects)))
    if not kept:
        return
    body: Dict[str, Any] = {
        "camera": camera,
        "model": result.model,
        "version": result.version,
        "captured_at": result.captured.at,
        "width": result.width,
        "height": result.height,
        "objects": [seen.as_json() for seen in result.objects],
        "latency_us": result.latency_us,
    }
    mqtt.publish_result(camera, body, result.captured)
