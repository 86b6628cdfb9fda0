from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from typing import Any, AsyncIterator, Callable, Dict, List

import numpy as np
import pytest

from edge_agent import errors
from edge_agent.cameras.bodies import BodyChild
from edge_agent.domain.clock import Clock
from edge_agent.mqtt.connection import BrokerConnection
from edge_agent.mqtt.message import Message, PublishProperties
from edge_agent.mqtt.options import BrokerOptions
from edge_agent.pipelines.mqtt import AgentInfo, MqttPipeline, offline_will
from edge_agent.processes.arena import Arena
from tests.doubles.mqtt_serving import DoubleDetector, DoubleModel, DoubleServing, DoubleStore
from tests.fixtures_mosquitto import (  # noqa: F401
    Mosquitto,
    MosquittoMaker,
    make_mosquitto_fixture,
    mosquitto_fixture,
)

JPEG = b"\xff\xd8\xff\xe0 a picture"
AGENT = AgentInfo("a1", "Gate", "1.0")


async def until(condition: Callable[[], object], within_s: float = 10.0) -> None:
    deadline = asyncio.get_running_loop().time() + within_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "did not come about in time"
        await asyncio.sleep(0.01)


class Agent:
    """A pipeline with its doubles."""

    def __init__(self, broker: Mosquitto, version: str = "auto", **settings: Any) -> None:
        self.store = DoubleStore()
        self.serving = DoubleServing(self.store)
        self.detector = DoubleDetector(self.store)
        topic, payload = offline_will("edge/a1", AGENT)
        options = BrokerOptions(
            port=broker.port, client_id="a1", keepalive_s=5, retry_max_s=0.5, version=version,
            receive_maximum=settings.get("receive_maximum", 20), will_topic=topic, will_payload=payload,
        )  # fmt: skip
        self.connection = BrokerConnection(options, Clock())
        self.bodies = BodyChild(Arena(256 * 1024 * 1024), Clock())
        bound = settings.pop("max_payload_bytes", 100_000)
        self.pipeline = MqttPipeline(
            self.connection, "edge/a1", AGENT, self.serving, self.detector, self.bodies, self.store, bound, Clock(), **settings
        )

    async def start(self) -> None:
        await self.pipeline.start()

    async def up(self) -> None:
        await until(lambda: self.connection.connected)

    @property
    def counts(self) -> Dict[str, int]:
        return self.pipeline.counters()


@contextlib.asynccontextmanager
async def agent_at(broker: Mosquitto, **settings: Any) -> AsyncIterator[Agent]:
    agent = Agent(broker, **settings)
    await agent.start()
    try:
        await agent.up()
        yield agent
    finally:
        await asyncio.wait_for(agent.pipeline.stop(), 20)
        await agent.bodies.stop()


class Device:
    """A client that asks and listens."""

    def __init__(self, broker: Mosquitto, *topics: str, version: str = "5", name: str = "device") -> None:
        self.connection = BrokerConnection(
            BrokerOptions(port=broker.port, client_id=name, version=version, retry_max_s=0.5), Clock()
        )
        self.messages: List[Message] = []
        self.connection.listen(self._hear, lambda _status: None)
        for topic in topics:
            self.connection.subscribe(topic, 1)

    def _hear(self, message: Message) -> None:
        self.messages.append(message)
        message.ack()

    async def ask(self, topic: str, payload: bytes, retain: bool = False, qos: int = 1, **properties: Any) -> None:
        made = PublishProperties(**properties)
        await asyncio.wait_for(self.connection.publish(topic, payload, qos, retain, made), 5)

    async def answers(self, count: int) -> List[Message]:
        await until(lambda: len(self.messages) >= count)
        return self.messages

    async def answer(self) -> Dict[str, Any]:
        (message,) = await self.answers(1)
        return json.loads(message.payload)


@contextlib.asynccontextmanager
async def device_at(broker: Mosquitto, *topics: str, **settings: Any) -> AsyncIterator[Device]:
    device = Device(broker, *topics, **settings)
    await device.connection.start()
    try:
        await until(lambda: device.connection.connected)
        yield device
    finally:
        await device.connection.stop()


def kserve(values: List[float], request_id: str = "", **extra: Any) -> bytes:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(values) // 4, 4], "data": values}], **extra}
    return json.dumps({"id": request_id, **body} if request_id else body).encode()


async def test_a_picture_is_detected_kept_and_answered_with_its_correlation_data(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back/#") as device:
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back/here", correlation_data=b"n-1")
        (message,) = await device.answers(1)
        assert (message.topic, message.correlation_data, message.qos) == ("back/here", b"n-1", 1)
        assert message.content_type == "application/json"
        assert json.loads(message.payload) == {"id": "n-1", "model": "face", "uid": "1", "objects": [len(JPEG)]}
        assert agent.detector.calls == [{"model": "face", "id": "n-1", "source": "mqtt/face", "keep": True, "deadline": None}]


async def test_mosquitto_rr_gets_its_answer(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto):
        command = mosquitto.command(
            "mosquitto_rr", "-t", "edge/a1/models/face/infer", "-e", "my/answers", "-q", "1", "-W", "5",
            "-m", '{"inputs": 3}', "-D", "publish", "correlation-data", "7",
        )  # fmt: skip
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        output, _ = await asyncio.wait_for(process.communicate(), 10)
        assert "error" in json.loads(output)


async def test_a_device_without_mqtt_5_uses_the_tail_of_the_topic(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "edge/a1/models/face/result/#", version="3.1.1") as device:
        await device.ask("edge/a1/models/face/infer", JPEG)
        await device.ask("edge/a1/models/face/infer/press/7", JPEG)
        messages = await device.answers(2)
        assert {message.topic for message in messages} == {"edge/a1/models/face/result", "edge/a1/models/face/result/press/7"}
        assert [call["id"] for call in agent.detector.calls] == ["", "press/7"]


async def test_an_agent_at_an_old_broker_answers_too(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto, version="3.1.1") as agent, device_at(mosquitto, "edge/a1/models/+/result") as device:
        await device.ask("edge/a1/models/double/infer", kserve([1, 2, 3, 4]))
        assert (await device.answer())["outputs"][0]["data"] == [2.0, 4.0, 6.0, 8.0]
        assert agent.pipeline.status()["protocol"] == "3.1.1"


async def test_kserve_json_is_answered_as_http_answers_it(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        body = kserve([1, 2, 3, 4, 5, 6, 7, 8], "k1", parameters={"hint": 3})
        await device.ask("edge/a1/models/double/infer", body, response_topic="back", correlation_data=b"\xff\x00")
        assert await device.answer() == {
            "id": "k1",
            "model_name": "double",
            "model_version": "1",
            "outputs": [
                {"name": "y", "datatype": "FP32", "shape": [2, 4], "data": [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]}
            ],
        }
        (request,) = agent.serving.requests
        assert (request.id, request.source, request.parameters["hint"]) == ("k1", "mqtt/double", 3)
        await until(lambda: all(lease.holders == 0 for lease in agent.serving.leases))


async def test_kserve_binary_goes_both_ways(mosquitto: Mosquitto) -> None:
    head = json.dumps(
        {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}],
            "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
        }
    ).encode()
    payload = head + np.arange(4, dtype=np.float32).tobytes()
    async with agent_at(mosquitto), device_at(mosquitto, "back") as device:
        length = (("inference-header-content-length", str(len(head))),)
        await device.ask("edge/a1/models/double/infer", payload, response_topic="back", user_properties=length)
        (message,) = await device.answers(1)
        size = int(message.user_property("inference-header-content-length") or 0)
        assert json.loads(message.payload[:size])["outputs"][0]["parameters"] == {"binary_data_size": 16}
        assert np.frombuffer(message.payload[size:], np.float32).tolist() == [0.0, 2.0, 4.0, 6.0]
        assert message.content_type == "application/octet-stream"


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"", "empty"),
        (b"just text", "neither a JPEG, PNG or WebP picture nor KServe JSON"),
        (b"\x00\xff\xfe\xc3\x28", "neither a JPEG"),
        (b"{", "JSON"),
        (b"null", "neither"),
        (b"[" * 50_000, "neither"),
        (b'{"inputs": ' + b"[" * 50_000, ""),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1e999, 2, 3, 4]}]}', ""),
        (b'{"inputs": [{"name": "z", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}', "z"),
        (b'{"id": 7, "inputs": []}', "id"),
        (b"{\xff\xfe}", ""),
        (JPEG + b"broken", "no picture"),
        (b"\xff\xd8\xff" + b"x" * 200_000, "200003 bytes"),
    ],
    ids=[
        "empty",
        "text",
        "garbage",
        "cut-json",
        "null",
        "nested",
        "nested-inputs",
        "infinite",
        "wrong-name",
        "wrong-id",
        "not-utf-8",
        "broken-picture",
        "too-large",
    ],
)
async def test_a_bad_payload_gets_an_error_makes_a_row_and_harms_nobody(
    mosquitto: Mosquitto, payload: bytes, words: str
) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        await device.ask("edge/a1/models/double/infer", payload, response_topic="back", correlation_data=b"bad")
        error = await device.answer()
        assert words in error["error"]
        assert error["id"] == "bad"
        (record,) = agent.store.records
        assert (record.request_id, record.source, record.input_bytes) == ("bad", "mqtt/double", len(payload))
        assert record.status.startswith("request.")
        assert record.error == error["error"]
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back")
        messages = await device.answers(2)
        assert "objects" in json.loads(messages[1].payload)
        assert agent.connection.connects == 1


@pytest.mark.parametrize("length", ["-1", "x", "99999999999999999999999", "1000"])
async def test_a_bad_header_length_gets_an_error(mosquitto: Mosquitto, length: str) -> None:
    async with agent_at(mosquitto), device_at(mosquitto, "back") as device:
        user = (("inference-header-content-length", length),)
        await device.ask("edge/a1/models/double/infer", kserve([1, 2, 3, 4]), response_topic="back", user_properties=user)
        assert "header" in (await device.answer())["error"].lower()


async def test_an_unknown_model_is_named(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "edge/a1/models/+/result") as device:
        await device.ask("edge/a1/models/n\u00f6/infer", JPEG)
        assert "n\u00f6" in (await device.answer())["error"]
        assert agent.store.records[0].status == "request.unknown_model"


async def test_an_engine_that_fails_is_told_and_serving_has_the_row(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        agent.serving.error = errors.ExecutionError("the model failed on this request")
        await device.ask("edge/a1/models/double/infer", kserve([1, 2, 3, 4], "k9"), response_topic="back")
        assert await device.answer() == {"error": "the model failed on this request", "id": "k9"}
        assert [record.status for record in agent.store.records] == ["engine.execution_failed"]
        assert all(lease.holders == 0 for lease in agent.serving.leases)


async def test_a_fault_of_ours_is_answered_without_its_text(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        agent.detector.error = KeyError("secret detail")
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back")
        text = (await device.answer())["error"]
        assert "internal error" in text
        assert "secret" not in text


@pytest.mark.parametrize(
    "topic",
    ["edge/a1/status", "edge/a1/models/face/infer", "edge/a1/models/other/result", "$SYS/x", "edge/a1", "a\u0001b", "a/#"],
)
async def test_an_answer_goes_nowhere_a_device_must_not_write(mosquitto: Mosquitto, topic: str) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "#") as device:
        await device.ask("warm/up", b"")
        await device.answers(2)
        before = len(device.messages)
        with contextlib.suppress(errors.BrokerError):  # some of these the broker refuses itself
            await device.ask("edge/a1/models/face/infer", JPEG, response_topic=topic)
            await until(lambda: any(message.topic == "edge/a1/models/face/result" for message in device.messages))
            answer = next(message for message in device.messages if message.topic == "edge/a1/models/face/result")
            assert "response topic" in json.loads(answer.payload)["error"]
            written = {message.topic for message in device.messages[before:]}
            assert written <= {"edge/a1/models/face/infer", "edge/a1/models/face/result"}
        assert agent.detector.calls == []
        assert agent.connection.connects == 1


@pytest.mark.parametrize("tail", ["", "a//b", "1/2/3/4/5"])
async def test_a_tail_that_is_no_good_is_refused(mosquitto: Mosquitto, tail: str) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "edge/a1/models/face/result/#") as device:
        await device.ask("edge/a1/models/face/infer/" + tail, JPEG)
        (message,) = await device.answers(1)
        assert message.topic == "edge/a1/models/face/result/" + tail
        assert "one to four" in json.loads(message.payload)["error"]
        assert agent.detector.calls == []


@pytest.mark.parametrize("early", [True, False])
async def test_a_retained_request_is_never_answered_and_told_once(mosquitto: Mosquitto, early: bool) -> None:
    topic = "edge/a1/models/face/infer"
    async with device_at(mosquitto, "edge/a1/models/+/result") as device:
        if early:
            await device.ask(topic, JPEG, retain=True)
        async with agent_at(mosquitto) as agent:
            if not early:
                await device.ask(topic, JPEG, retain=True)
            await device.ask(topic, JPEG + b"2", retain=True)
            await until(lambda: agent.counts["retained"] == 2)
            await device.ask(topic, b"", retain=True)
            await device.ask(topic, JPEG)
            assert (await device.answer())["model"] == "face"
            assert len(agent.detector.calls) == 1
            assert [event for event in agent.store.events if event[0] == "mqtt.retained_request"] == [
                ("mqtt.retained_request", topic, "mqtt.retained_request", {"topic": topic})
            ]


async def test_the_message_expiry_is_the_deadline(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        agent.detector.gate = asyncio.Event()
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", message_expiry_s=1, correlation_data=b"d")
        error = await device.answer()
        assert "expired" in error["error"]
        assert agent.detector.at_work == 0, "nobody works for an answer that nobody waits for"
        assert [record.status for record in agent.store.records] == ["request.deadline"]


async def test_a_request_is_acknowledged_only_when_its_answer_is_out(mosquitto: Mosquitto) -> None:
    async with device_at(mosquitto, "back") as device:
        agent = Agent(mosquitto)
        await agent.start()
        await agent.up()
        agent.detector.gate = asyncio.Event()
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"once")
        await until(lambda: agent.detector.at_work)
        assert agent.connection._link is not None
        agent.connection._link.cut()  # the agent dies, as far as the broker can see
        await until(lambda: agent.connection.connects == 2 and agent.connection.connected)
        await until(lambda: agent.counts["repeats"] == 1)
        assert device.messages == []
        agent.detector.gate.set()
        assert (await device.answer())["uid"] == "1"
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"other")
        await device.answers(2)
        assert agent.store.results == ["once", "other"], "redelivered, and yet done once"
        await agent.pipeline.stop()
        async with agent_at(mosquitto) as successor:
            await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"last")
            await device.answers(3)
            assert successor.store.results == ["last"], "what was acknowledged does not come again"


async def test_an_agent_that_dies_at_work_gets_the_request_again(mosquitto: Mosquitto) -> None:
    async with device_at(mosquitto, "back") as device:
        agent = Agent(mosquitto)
        await agent.start()
        await agent.up()
        agent.detector.gate = asyncio.Event()
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back")
        await until(lambda: agent.detector.at_work)
        await agent.connection.stop()
        agent.detector.gate.set()
        await agent.pipeline.stop()
        async with agent_at(mosquitto) as successor:
            await device.answers(1)
            assert len(successor.store.results) == 1


async def test_the_same_request_again_gets_the_same_answer_without_a_second_run(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        for number in range(2):
            await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"same")
            await device.answers(number + 1)
        first, second = await device.answers(2)
        assert first.payload == second.payload
        assert len(agent.detector.calls) == 1
        await device.ask("edge/a1/models/face/infer", JPEG + b"!", response_topic="back", correlation_data=b"same")
        await device.answers(3)
        assert len(agent.detector.calls) == 2, "another payload is another request"
        for _ in range(2):
            await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back")
        await device.answers(5)
        assert len(agent.detector.calls) == 4, "without correlation data the same picture is a new request"


async def test_a_request_that_failed_is_tried_again_when_it_comes_again(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        agent.detector.error = errors.QueueFull("later")
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"again")
        await device.answers(1)
        agent.detector.error = None
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"again")
        messages = await device.answers(2)
        assert "objects" in json.loads(messages[1].payload)


async def test_an_answer_that_is_ready_while_the_broker_is_away_is_kept(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        agent.detector.gate = asyncio.Event()
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"kept")
        await until(lambda: agent.detector.at_work)
        mosquitto.terminate()
        await until(lambda: not agent.connection.connected)
        agent.detector.gate.set()
        await until(lambda: agent.counts["answers_waiting"] == 1)
        mosquitto.start()
        (message,) = await device.answers(1)
        assert message.correlation_data == b"kept"
        assert json.loads(message.payload)["uid"] == "1"
        assert agent.store.results == ["kept"]


async def test_a_hundred_requests_at_once_get_each_its_own_answer(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto, receive_maximum=4) as agent, device_at(mosquitto, "back") as device:
        for number in range(100):
            payload = kserve([float(number)] * 4, f"r{number}")
            await device.ask(
                "edge/a1/models/double/infer", payload, response_topic="back", correlation_data=str(number).encode()
            )
        messages = await device.answers(100)
        assert len(messages) == 100
        for message in messages:
            assert message.correlation_data is not None
            number = int(message.correlation_data)
            body = json.loads(message.payload)
            assert "error" not in body
            assert (body["id"], body["outputs"][0]["data"]) == (f"r{number}", [2.0 * number] * 4)
        assert {int(message.correlation_data or b"") for message in messages} == set(range(100))
        assert agent.counts["errors"] == 0


@pytest.mark.parametrize("qos", [0, 1])
async def test_no_more_requests_are_at_work_than_the_bound(mosquitto: Mosquitto, qos: int) -> None:
    async with agent_at(mosquitto, receive_maximum=3) as agent, device_at(mosquitto, "back") as device:
        agent.detector.gate = asyncio.Event()
        for number in range(12):
            await device.ask(
                "edge/a1/models/face/infer", JPEG, qos=qos, response_topic="back", correlation_data=str(number).encode()
            )
        await until(lambda: agent.detector.at_work == 3)
        if not qos:  # nothing holds these back at the broker: the rest is refused, not queued without end
            await until(lambda: agent.counts["refused_full"] == 6)
        agent.detector.gate.set()
        messages = await device.answers(12)
        assert len(messages) == 12
        assert agent.detector.most_at_work == 3
        refused = [message for message in messages if b"error" in message.payload]
        assert len(refused) == (0 if qos else 6)
        assert len(agent.store.records) == len(refused)


async def test_the_agent_says_online_offline_and_lost(mosquitto: Mosquitto) -> None:
    async with device_at(mosquitto, "edge/a1/status") as device:

        def states() -> List[Any]:
            bodies = [json.loads(message.payload) for message in device.messages]
            return [(body["state"], body.get("reason")) for body in bodies]

        async with agent_at(mosquitto) as agent:
            await until(lambda: states() == [("online", None)])
            assert json.loads(device.messages[0].payload)["title"] == "Gate"
            assert agent.connection._link is not None
            agent.connection._link.cut()
            await until(lambda: states()[1:] == [("offline", "lost"), ("online", None)])
            assert agent.store.kinds() == ["mqtt.up", "mqtt.down", "mqtt.up"]
        await until(lambda: states()[3:] == [("offline", "stopped")])
    async with device_at(mosquitto, "edge/a1/status", name="later") as later:
        assert (await later.answer())["state"] == "offline", "the last word is retained"


async def test_camera_results_are_published_with_their_time_and_only_while_fresh(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto, live_max_age_s=10.0) as agent, device_at(mosquitto, "edge/a1/cameras/+/results") as device:
        clock = Clock()
        now_ns = clock.monotonic_ns()
        assert agent.pipeline.publish_result("gate", {"objects": []}, clock.instant(now_ns - 3_000_000_000)) is True
        assert agent.pipeline.publish_result("gate", {"objects": []}, clock.instant(now_ns - 11_000_000_000)) is False
        (message,) = await device.answers(1)
        assert (message.topic, message.qos, message.retain) == ("edge/a1/cameras/gate/results", 0, False)
        assert json.loads(message.payload)["captured_at"] < clock.now()
        assert message.message_expiry_s is not None
        assert 4 <= message.message_expiry_s <= 7
        assert agent.counts["live_stale"] == 1


async def test_camera_state_and_counts_are_retained_and_said_again_after_a_reconnect(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent:
        agent.pipeline.publish_camera_status("gate", {"state": "ok", "code": ""})
        agent.pipeline.publish_camera_status("gate", {"state": "ok", "code": ""})
        mosquitto.terminate()
        await until(lambda: not agent.connection.connected)
        agent.pipeline.publish_camera_status("gate", {"state": "failed", "code": "camera.unreachable"})
        agent.pipeline.publish_counts("gate", {"person": 2})
        assert agent.pipeline.publish_result("gate", {"objects": []}) is False
        mosquitto.start()
        await agent.up()
        await until(lambda: agent.connection.unsent == 0)
        async with device_at(mosquitto, "edge/a1/cameras/#") as device:
            messages = await device.answers(2)
            found = {message.topic: json.loads(message.payload) for message in messages}
            assert all(message.retain for message in messages)
            assert found["edge/a1/cameras/gate/status"]["code"] == "camera.unreachable"
            assert found["edge/a1/cameras/gate/counts"] == {"person": 2}
        assert agent.counts["live_unsent"] == 1


async def test_the_heart_beats(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto, heartbeat_s=0.05), device_at(mosquitto, "edge/a1/heartbeat") as device:
        messages = await device.answers(3)
        numbers = [int(message.payload) for message in messages[:3]]
        assert numbers == list(range(numbers[0], numbers[0] + 3))


async def test_stop_finishes_what_is_at_work(mosquitto: Mosquitto) -> None:
    async with device_at(mosquitto, "back") as device:
        agent = Agent(mosquitto)
        await agent.start()
        await agent.up()
        agent.detector.gate = asyncio.Event()
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back")
        await until(lambda: agent.detector.at_work)
        stopping = asyncio.get_running_loop().create_task(agent.pipeline.stop())
        await asyncio.sleep(0)
        agent.detector.gate.set()
        await asyncio.wait_for(stopping, 10)
        await agent.pipeline.stop()
        assert "objects" in await device.answer()


async def test_what_the_stopping_agent_cannot_do_any_more_is_neither_answered_nor_lost(mosquitto: Mosquitto) -> None:
    async with device_at(mosquitto, "back") as device:
        agent = Agent(mosquitto)
        agent.pipeline._limit = 2  # the broker sends more
        await agent.start()
        await agent.up()
        agent.detector.gate = asyncio.Event()
        names = [b"finished", b"refused", b"waiting", b"late"]
        for name in names[:3]:  # two are at work, one waits for its turn
            await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=name)
        await until(lambda: agent.detector.at_work == 2 and len(agent.pipeline._requests) == 3)
        agent.pipeline.drain()
        agent.pipeline.drain()
        agent.detector.draining = {"refused"}  # as serving says it to what it had not yet begun with
        await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=names[3])
        agent.detector.gate.set()
        await asyncio.wait_for(agent.pipeline.stop(), 20)
        await device.answers(1)
        assert [message.correlation_data for message in device.messages] == [b"finished"]
        assert agent.store.records == [], "they come again, and have their rows then"
        async with agent_at(mosquitto) as successor:
            await device.answers(4)
            assert sorted(successor.store.results) == ["late", "refused", "waiting"]
            assert not any(b"error" in message.payload for message in device.messages)


async def test_a_request_that_nobody_keeps_is_told_that_the_agent_stops(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        agent.pipeline.drain()
        await device.ask("edge/a1/models/face/infer", JPEG, qos=0, response_topic="back", correlation_data=b"zero")
        assert await device.answer() == {"error": "the agent is stopping", "id": "zero"}


async def test_kserve_requests_with_an_id_are_done_once_and_those_without_each_time(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        agent.serving.delay_s = 0.1
        named, nameless = kserve([1, 2, 3, 4], "k1"), kserve([1, 2, 3, 4])
        for _ in range(3):  # the later ones come while the first is at work
            await device.ask("edge/a1/models/double/infer", named, response_topic="back")
        await device.answers(1)
        await until(lambda: agent.counts["repeats"] == 2)
        await device.ask("edge/a1/models/double/infer", named, response_topic="back")
        await device.answers(2)
        assert len(agent.serving.requests) == 1
        assert {message.payload for message in device.messages} == {device.messages[0].payload}
        await device.ask("edge/a1/models/double/infer", named, response_topic="back/2")
        await until(lambda: len(agent.serving.requests) == 2)
        for _ in range(3):
            await device.ask("edge/a1/models/double/infer", nameless, response_topic="back")
        await device.answers(5)
        assert len(agent.serving.requests) == 5


async def test_nothing_is_a_repeat_when_that_is_switched_off(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto, dedupe_s=0) as agent, device_at(mosquitto, "back") as device:
        for number in range(2):
            await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"same")
            await device.answers(number + 1)
            await device.ask("edge/a1/models/double/infer", kserve([1, 2, 3, 4], "k"), response_topic="elsewhere")
        await until(lambda: len(agent.serving.requests) == 2)
        assert len(agent.detector.calls) == 2
        assert agent.counts["repeats"] == 0


async def test_large_json_is_converted_by_the_child_both_ways(mosquitto: Mosquitto) -> None:
    values = [float(number % 7) for number in range(400_000)]
    async with agent_at(mosquitto, max_payload_bytes=8_000_000) as agent, device_at(mosquitto, "back") as device:
        agent.serving.models["double"] = DoubleModel(max_batch_size=100_000)
        await device.ask("edge/a1/models/double/infer", kserve(values, "big"), response_topic="back")
        body = await device.answer()
        assert "error" not in body, body
        assert (body["id"], body["outputs"][0]["shape"]) == ("big", [100_000, 4])
        assert body["outputs"][0]["data"] == [2 * value for value in values]
        assert agent.bodies.pid != 0
        assert all(lease.holders == 0 for lease in agent.serving.leases)
        broken = kserve(values, "bad").replace(b"0.0, 1.0", b'0.0, "x"', 1)
        await device.ask("edge/a1/models/double/infer", broken, response_topic="back")
        error = json.loads((await device.answers(2))[1].payload)
        assert error["id"] == "bad"
        assert error["error"].startswith("[request id: bad]")
        assert agent.store.records[-1].request_id == "bad"


async def test_events_are_published_as_they_happen(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto, live_max_age_s=30.0) as agent, device_at(mosquitto, "edge/a1/agent/events") as device:
        assert agent.pipeline.publish_event({"kind": "camera.down", "subject": "gate"})
        (message,) = await device.answers(1)
        assert json.loads(message.payload) == {"kind": "camera.down", "subject": "gate"}
        assert message.message_expiry_s is not None
        assert 25 <= message.message_expiry_s <= 30


async def test_stop_with_a_frozen_broker_ends_in_time(mosquitto: Mosquitto) -> None:
    agent = Agent(mosquitto)
    await agent.start()
    await agent.up()
    mosquitto.freeze()
    await asyncio.wait_for(agent.pipeline.stop(), 10)


async def test_a_broker_killed_again_and_again_loses_no_answer(mosquitto: Mosquitto) -> None:
    async with agent_at(mosquitto) as agent, device_at(mosquitto, "back") as device:
        asked: List[str] = []

        async def ask_on() -> None:
            number = 0
            while number < 120:
                try:
                    await device.ask("edge/a1/models/face/infer", JPEG, response_topic="back", correlation_data=b"%d" % number)
                except (errors.BrokerError, asyncio.TimeoutError):
                    await asyncio.sleep(0.05)
                    continue
                asked.append(str(number))
                number += 1
                await asyncio.sleep(0.01)

        asking = asyncio.get_running_loop().create_task(ask_on())
        for _ in range(3):
            await asyncio.sleep(0.3)
            mosquitto.terminate()
            mosquitto.start()
        await asyncio.wait_for(asking, 30)
        await until(
            lambda: {(message.correlation_data or b"").decode() for message in device.messages} >= set(asked), within_s=20
        )
        for message in device.messages:
            assert json.loads(message.payload)["id"] == (message.correlation_data or b"").decode()
        assert sorted(set(agent.store.results), key=int) == sorted(agent.store.results, key=int), "no request was done twice"
