"""MQTT as the configuration asks for it, with a real broker and a real store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Callable, List

from edge_agent.app import brokerage
from edge_agent.cameras.bodies import BodyChild
from edge_agent.config.mqtt import MqttSection
from edge_agent.domain.clock import Clock
from edge_agent.mqtt.connection import BrokerConnection
from edge_agent.mqtt.message import Message
from edge_agent.mqtt.options import BrokerOptions
from edge_agent.pipelines.mqtt import MqttPipeline
from edge_agent.processes.arena import Arena
from edge_agent.store.store import Store, StoreOptions
from tests.doubles.mqtt_serving import DoubleDetector, DoubleServing, DoubleStore
from tests.fixtures_mosquitto import (  # noqa: F401
    Mosquitto,
    make_mosquitto_fixture,
    mosquitto_fixture,
)


async def test_an_event_of_the_store_reaches_who_listens_in_words(mosquitto: Mosquitto, tmp_path: Path) -> None:
    pipelines: List[MqttPipeline] = []
    store = Store(StoreOptions(tmp_path / "a.db", "a1"), Clock(), lambda event: brokerage.tell_event(pipelines[0], event))
    section = MqttSection(port=mosquitto.port, prefix="plant/{id}", client_id="agent-{id}")
    rows = DoubleStore()
    serving, detector = DoubleServing(rows), DoubleDetector(rows)
    bodies = BodyChild(Arena(64 * 1024 * 1024), Clock())
    agent = brokerage.info("a1", "Gate")
    pipelines.append(
        brokerage.make(section, agent, serving, detector, bodies, store, Clock())  # type: ignore[arg-type]
    )
    heard: List[Message] = []
    listener = BrokerConnection(BrokerOptions(port=mosquitto.port, client_id="listener"), Clock())
    listener.listen(heard.append, lambda _status: None)
    listener.subscribe("plant/a1/agent/events", 1)
    await store.start()
    await listener.start()
    await _until(lambda: listener.connected)
    await pipelines[0].start()
    await _until(lambda: heard)  # mqtt.up
    assert "as agent-a1 " in mosquitto.log()
    store.event("camera.down", "gate", code="camera.unreachable", args={"source": "10.0.0.5"})
    await _until(lambda: len(heard) == 2)
    await pipelines[0].stop()
    await listener.stop()
    await store.stop()
    events = [json.loads(message.payload) for message in heard]
    assert [event["kind"] for event in events] == ["mqtt.up", "camera.down"]
    assert events[1]["args"] == {"source": "10.0.0.5"}
    assert "10.0.0.5" in events[1]["reason"]
    assert events[1]["cure"]


async def _until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("did not come about in time")
