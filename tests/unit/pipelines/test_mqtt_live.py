from __future__ import annotations

import asyncio
import json
from typing import List, Optional, Tuple

import pytest

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.topics import InferTopic, Topics
from edge_agent.pipelines.mqtt_live import LiveTopics, offline_will
from edge_agent.pipelines.mqtt_parts import AgentInfo
from edge_agent.pipelines.mqtt_request import MqttRequest, read
from edge_agent.pipelines.mqtt_tensors import Memory
from edge_agent.pipelines.mqtt_work import MqttWork
from tests.doubles.mqtt_serving import DoubleDetector, DoubleServing, DoubleStore


class Taker:
    """A connection that takes every message, or none."""

    def __init__(self) -> None:
        self.connected = True
        self.unsent = 0
        self.error: Optional[Exception] = None
        self.taken: List[Tuple[str, bool, bytes, Optional[PublishProperties]]] = []

    def publish(
        self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, properties: Optional[PublishProperties] = None
    ) -> asyncio.Future:
        self.taken.append((topic, retain, payload, properties))
        future = asyncio.get_running_loop().create_future()
        if self.error is None:
            future.set_result(None)
        else:
            future.set_exception(self.error)
        return future


def live(taker: Taker, max_age_s: float = 60.0) -> LiveTopics:
    return LiveTopics(taker, Topics("p"), max_age_s, Clock())  # type: ignore[arg-type]


async def test_live_results_are_counted_whatever_becomes_of_them() -> None:
    taker = Taker()
    topics = live(taker)
    assert topics.result("c", {"n": 1})
    taker.error = errors.BrokerError("lost")
    assert topics.result("c", {"n": 2})
    await asyncio.sleep(0)
    taker.unsent = 100
    assert not topics.result("c", {"n": 3})
    taker.unsent, taker.connected = 0, False
    assert not topics.event({"kind": "x"})
    assert topics.counters() == {"live_published": 1, "live_stale": 0, "live_unsent": 3}


async def test_without_a_bound_any_age_is_fresh() -> None:
    taker = Taker()
    clock = Clock()
    captured = clock.instant(clock.monotonic_ns() - 10**15)
    assert live(taker, 0.0).result("c", {}, captured)
    assert json.loads(taker.taken[0][2]) == {"captured_at": captured.at}


async def test_a_state_is_published_when_it_changes_and_after_each_connect() -> None:
    taker = Taker()
    topics = live(taker)
    for state in ("ok", "ok", "failed"):
        topics.camera_status("c", {"state": state})
    taker.connected = False
    topics.counts("c", {"person": 1})
    assert [(topic, json.loads(payload)) for topic, _retain, payload, _ in taker.taken] == [
        ("p/cameras/c/status", {"state": "ok"}),
        ("p/cameras/c/status", {"state": "failed"}),
    ]
    taker.taken.clear()
    taker.connected = True
    topics.say_again()
    assert {topic for topic, retain, _payload, _ in taker.taken if retain} == {"p/cameras/c/status", "p/cameras/c/counts"}


async def test_a_state_that_did_not_get_out_is_said_again_until_it_does() -> None:
    taker = Taker()
    topics = live(taker)
    topics.retry_s = 0.01
    taker.error = errors.BrokerError("too many messages wait already")
    topics.camera_status("c", {"state": "failed"})
    await asyncio.sleep(0)
    topics.camera_status("c", {"state": "failed"})
    assert len(taker.taken) == 2, "the same word once more, as the first did not get out"
    await asyncio.sleep(0)
    taker.error = None
    for _ in range(500):
        await asyncio.sleep(0.01)
        if len(taker.taken) > 2:
            break
    assert json.loads(taker.taken[-1][2]) == {"state": "failed"}
    said = len(taker.taken)
    await asyncio.sleep(0.05)
    topics.camera_status("c", {"state": "failed"})
    assert len(taker.taken) == said
    topics.stop()


async def test_a_state_that_the_broker_refuses_is_not_said_again_and_again() -> None:
    taker = Taker()
    topics = live(taker)
    topics.retry_s = 0.01
    taker.error = errors.PublishRefused("Not authorized")
    for _ in range(3):
        topics.counts("c", {"person": 1})
        await asyncio.sleep(0.03)
    assert len(taker.taken) == 1
    assert topics.counters()["live_unsent"] == 1


async def test_after_a_stop_nothing_is_said_again() -> None:
    taker = Taker()
    topics = live(taker)
    topics.retry_s = 0.01
    taker.error = errors.BrokerError("lost")
    topics.counts("c", {"person": 1})
    await asyncio.sleep(0)
    topics.stop()
    topics.stop()
    await asyncio.sleep(0.05)
    assert len(taker.taken) == 1


def test_the_will_says_offline_on_the_status_topic() -> None:
    topic, payload = offline_will("p", AgentInfo("a", "\u95e8", "1.0"))
    assert topic == "p/status"
    assert json.loads(payload) == {"state": "offline", "reason": "lost", "id": "a", "title": "\u95e8", "version": "1.0"}


def request(payload: bytes, **fields: object) -> MqttRequest:
    message = Message("p/models/face/infer", payload, received_at=Clock().monotonic(), **fields)  # type: ignore[arg-type]
    return read(Topics("p"), InferTopic("face"), message)


class NoBodies:
    """Bodies that are small need no child."""


async def test_work_always_answers_and_a_late_request_is_not_begun() -> None:
    store = DoubleStore()
    detector = DoubleDetector(store)
    work = MqttWork(DoubleServing(store), detector, NoBodies(), store, 100, Clock())
    good = await work.answer(request(b"\xff\xd8\xff"))
    assert good.ok
    late = await work.answer(request(b"\xff\xd8\xff", message_expiry_s=0))
    assert not late.ok
    assert b"expired" in late.payload
    assert len(detector.calls) == 1
    assert [record.status for record in store.records] == ["request.deadline"]
    detector.error = errors.StoreFull("no room on disk for the result")
    full = await work.answer(request(b"\xff\xd8\xff"))
    assert json.loads(full.payload) == {"error": "no room on disk for the result"}


async def test_a_stopping_agent_answers_only_what_the_broker_does_not_keep() -> None:
    store = DoubleStore()
    detector = DoubleDetector(store)
    detector.error = errors.Draining("Server exiting")
    work = MqttWork(DoubleServing(store), detector, NoBodies(), store, 100, Clock())
    assert b"exiting" in (await work.answer(request(b"\xff\xd8\xff", qos=0))).payload
    with pytest.raises(errors.Draining):
        await work.answer(request(b"\xff\xd8\xff", qos=1))


async def test_converted_bodies_share_a_bounded_memory() -> None:
    memory = Memory(100)
    first, second = memory.share(), memory.share()
    first.take(150)  # one alone may be as large as it likes
    with pytest.raises(errors.QueueFull):
        second.take(1)
    first.release()
    first.release()
    second.take(60)
    with pytest.raises(errors.QueueFull):
        first.take(50)
    assert memory.used == 60
