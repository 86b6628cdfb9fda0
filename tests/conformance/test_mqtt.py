"""The same cases by MQTT: the real client makes the request and reads the answer, a broker carries both."""

from __future__ import annotations

import json
import queue
import uuid
from typing import Any, Iterator

import paho.mqtt.client as paho
import pytest
import tritonclient.http as triton
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tritonclient.utils import InferenceServerException

from tests.agent_process import AgentProcess
from tests.conformance.cases import CASES, Infer
from tests.fixtures_mosquitto import Mosquitto

LENGTH = "inference-header-content-length"
BACK = "conformance/back"


class MqttTransport:
    """`infer` as the HTTP client has it, but for a version, which topics do not carry."""

    def __init__(self, broker: Mosquitto) -> None:
        self._answers: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self._subscribed: queue.Queue[bool] = queue.Queue()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.client.on_message = lambda client, data, message: self._answers.put(message)
        self.client.on_subscribe = lambda *_: self._subscribed.put(True)
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()
        self.client.subscribe(BACK, qos=1)
        self._subscribed.get(timeout=10)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def infer(self, model: str, inputs: Any, **options: Any) -> triton.InferResult:
        """Asks and waits; an answer that is an error is raised, without a status."""
        body, head_bytes = triton.InferenceServerClient.generate_request_body(inputs, **options)
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = BACK
        properties.CorrelationData = uuid.uuid4().bytes
        if head_bytes is not None:
            properties.UserProperty = (LENGTH, str(head_bytes))
        self.client.publish("edge/box/models/%s/infer" % model, body, qos=1, properties=properties)
        answer = self._answers.get(timeout=20)
        assert answer.properties.CorrelationData == properties.CorrelationData
        given = dict(getattr(answer.properties, "UserProperty", []))
        size = int(given[LENGTH]) if LENGTH in given else None
        said = json.loads(answer.payload[:size])
        if "error" in said:
            raise InferenceServerException(said["error"])
        return triton.InferenceServerClient.parse_response_body(answer.payload, header_length=size)


@pytest.fixture(name="infer", scope="module")
def infer_fixture(agent_at_broker: AgentProcess, broker: Mosquitto) -> Iterator[Infer]:
    transport = MqttTransport(broker)
    yield transport.infer
    transport.close()


@pytest.mark.parametrize("name", list(CASES))
def test_case(name: str, infer: Infer) -> None:
    CASES[name](infer)
