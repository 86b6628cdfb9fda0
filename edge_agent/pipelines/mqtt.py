"""MQTT in and out: requests to models, answers to whoever asked, camera results to whoever listens."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from typing import Any, Dict, Mapping, Optional, Set

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.results import Instant
from edge_agent.domain.status import PartStatus
from edge_agent.mqtt.message import Message
from edge_agent.mqtt.topics import Topics
from edge_agent.pipelines.mqtt_answers import Answers
from edge_agent.pipelines.mqtt_live import LiveTopics, offline_will
from edge_agent.pipelines.mqtt_parts import AgentInfo, Bodies, Connection, Detector, Serving, Store
from edge_agent.pipelines.mqtt_repeats import Repeats, Seen
from edge_agent.pipelines.mqtt_request import Answer, MqttRequest, read
from edge_agent.pipelines.mqtt_work import MqttWork

_FINISH_S = 5.0  #: at stop: for requests at work and their answers
_GOODBYE_S = 2.0
_MAX_WAITING = 200  #: QoS 1 requests; further ones are answered with an error
_MAX_RETAINED_TOPICS = 1000  #: of which an event is told

__all__ = ["AgentInfo", "MqttPipeline", "offline_will"]


class MqttPipeline:
    """Starts and stops the connection with itself: what the broker kept for us must find its hearer."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        agent: AgentInfo,
        serving: Serving,
        detector: Detector,
        bodies: Bodies,
        store: Store,
        max_payload_bytes: int,
        clock: Clock,
        *,
        receive_maximum: int = 20,
        dedupe_s: float = 3600.0,
        live_max_age_s: float = 60.0,
        heartbeat_s: float = 0.0,
    ) -> None:
        self._connection = connection
        self._topics = Topics(prefix)
        self._agent = agent
        self._store = store
        self._clock = clock
        self._limit = receive_maximum
        self._heartbeat_s = heartbeat_s
        self._work = MqttWork(serving, detector, bodies, store, max_payload_bytes, clock)
        self._answers = Answers(connection)
        self._repeats = Repeats(dedupe_s)
        self.live = LiveTopics(connection, self._topics, live_max_age_s, clock)
        self._turn: asyncio.Semaphore
        self._requests: Set[asyncio.Task[None]] = set()  #: at work, or waiting for their turn
        self._waiting_bytes = 0  #: of their payloads
        self._max_waiting_bytes = 4 * max_payload_bytes
        self._heart: Optional[asyncio.Task[None]] = None
        self._up = False
        self._code = ""
        self._stopping = False
        self._retained_topics: Set[str] = set()
        self._counts: Dict[str, int] = dict.fromkeys(
            ("requests", "errors", "refused_full", "repeats", "retained", "not_requests"), 0
        )

    # -- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen for requests; a broker that is down is no error."""
        self._stopping = False
        self._turn = asyncio.Semaphore(self._limit)
        self._connection.listen(self._on_message, self._on_change)
        self._connection.subscribe(self._topics.infer_filter, 1)
        await self._connection.start()
        if self._heartbeat_s > 0:
            self._heart = asyncio.get_running_loop().create_task(self._beat(), name="mqtt-heartbeat")

    def drain(self) -> None:
        """Take nothing new, before models stop to serve.

        QoS 1 requests that are not at work yet, and those that serving refuses from now on, are neither answered nor
        acknowledged: the broker keeps them for the next start. Those with QoS 0 get an error.
        """
        self._stopping = True

    async def stop(self) -> None:
        """Take no more requests, finish those at work, say offline, end."""
        self.drain()
        self.live.stop()
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await heart
        await self._finish()
        if self._connection.connected:
            payload = json.dumps({"state": "offline", "reason": "stopped", **self._agent.as_json()}).encode()
            with contextlib.suppress(errors.BrokerError, asyncio.TimeoutError):
                await asyncio.wait_for(self._connection.publish(self._topics.status, payload, qos=1, retain=True), _GOODBYE_S)
        await self._connection.stop()

    async def _finish(self) -> None:
        if self._requests:
            _done, late = await asyncio.wait(set(self._requests), timeout=_FINISH_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_GOODBYE_S)
        await self._answers.drained(_GOODBYE_S)

    async def _beat(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(self._heartbeat_s)
            number += 1
            if self._connection.connected:
                self._connection.publish(self._topics.heartbeat, str(number).encode())

    # -- the connection --------------------------------------------------------------------------------

    def _on_change(self, status: PartStatus) -> None:
        up = self._connection.connected
        if status.code == "mqtt.client_id_taken" != self._code:
            self._store.event("mqtt.client_id_taken", "mqtt", code=status.code, args=status.args)
        self._code = status.code
        if up and not self._up:
            self._came_up()
        elif self._up and not up:
            self._store.event("mqtt.down", "mqtt", code="mqtt.down", args=status.args, text=str(status.args.get("error", "")))
        self._up = up

    def _came_up(self) -> None:
        self._store.event("mqtt.up", "mqtt", code="mqtt.up", args={"version": self._connection.version})
        payload = json.dumps({"state": "online", **self._agent.as_json(), "since": self._clock.now()}).encode()
        self._connection.publish(self._topics.status, payload, qos=1, retain=True)
        self.live.say_again()
        self._answers.pump()

    # -- requests --------------------------------------------------------------------------------------

    def _on_message(self, message: Message) -> None:
        target = self._topics.parse_infer(message.topic)
        if target is None:
            self._counts["not_requests"] += 1
            message.ack()
        elif message.retain:
            self._retained(message)
        elif self._stopping and message.qos:
            return  # not acknowledged: the broker keeps it for the next start
        else:
            self._take(read(self._topics, target, message))

    def _retained(self, message: Message) -> None:
        """A request that lies at the broker would be done again at each connect: never answered."""
        message.ack()
        if not message.payload:  # somebody clears the topic
            return
        self._counts["retained"] += 1
        if message.topic in self._retained_topics or len(self._retained_topics) >= _MAX_RETAINED_TOPICS:
            return
        self._retained_topics.add(message.topic)
        self._store.event("mqtt.retained_request", message.topic, code="mqtt.retained_request", args={"topic": message.topic})

    def _take(self, request: MqttRequest) -> None:
        now = self._clock.monotonic()
        seen = self._repeats.find(request, now)
        if seen is not None:
            self._repeated(request, seen)
            return
        refusal = self._no_room(request)
        if refusal is not None:
            self._counts["requests"] += 1
            self._counts["errors"] += 1
            self._work.refused(request, refusal, now)
            self._send(request.error(str(refusal)), Seen(now, [request.message.ack]))
            return
        seen = None if self._repeats.unread(request, now) else self._repeats.begin(request, now)
        task = asyncio.get_running_loop().create_task(self._serve(request, seen))
        self._requests.add(task)
        self._waiting_bytes += len(request.message.payload)
        task.add_done_callback(functools.partial(self._left, len(request.message.payload)))

    def _left(self, nbytes: int, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._waiting_bytes -= nbytes

    def _no_room(self, request: MqttRequest) -> Optional[errors.UnavailableError]:
        if self._stopping:
            return errors.Draining("the agent is stopping")
        # Brokers should hold QoS 1 back at receive_maximum; mosquitto 2.0.11 does so only until the first PUBACK, and
        # then sends all it has. QoS 0 comes as it likes.
        most = max(_MAX_WAITING, 2 * self._limit) if request.message.qos else 2 * self._limit
        nbytes = self._waiting_bytes + len(request.message.payload)
        if len(self._requests) < most and (not self._requests or nbytes <= self._max_waiting_bytes):
            return None
        self._counts["refused_full"] += 1
        return errors.QueueFull("%d MQTT requests wait already; try again later" % len(self._requests))

    def _repeated(self, request: MqttRequest, seen: Seen) -> None:
        """The same request again: it waits for the answer that is under way, or gets the answer once more."""
        self._counts["repeats"] += 1
        if seen.answer is None or (request.message.dup and not seen.settled):
            seen.acknowledge.append(request.message.ack)
        else:
            self._send(seen.answer, Seen(seen.at, [request.message.ack]))

    async def _serve(self, request: MqttRequest, seen: Optional[Seen]) -> None:
        if seen is None:
            seen = await self._begin_or_repeat(request)
            if seen is None:
                return
        self._counts["requests"] += 1
        try:
            answer = await self._in_turn(request, seen)
        except errors.Draining:  # not acknowledged: it comes again
            self._repeats.forget(request, seen)
            return
        except asyncio.CancelledError:  # as above: stopped with the request at work
            self._repeats.forget(request, seen)
            raise
        finally:
            seen.tell_named(False)
        self._repeats.done(request, seen, answer)
        self._counts["errors"] += 0 if answer.ok else 1
        self._send(answer, seen)

    async def _begin_or_repeat(self, request: MqttRequest) -> Optional[Seen]:
        """For one whose like is at work: whether it is a repeat shows when that one's body was read. None: it was."""
        while True:
            now = self._clock.monotonic()
            seen = self._repeats.find(request, now)
            if seen is not None:
                self._repeated(request, seen)
                return None
            unread = self._repeats.unread(request, now)
            if unread is None:
                return self._repeats.begin(request, now)
            await unread.was_read()

    async def _in_turn(self, request: MqttRequest, seen: Seen) -> Answer:
        async with self._turn:
            if self._stopping and request.message.qos:
                raise errors.Draining("the agent is stopping")
            return await self._work.answer(request, seen.tell_named)

    def _send(self, answer: Answer, seen: Seen) -> None:
        """Publish; the request is acknowledged when its answer has arrived at the broker."""

        def acknowledge(_settled: asyncio.Future[None]) -> None:
            seen.settled = True
            waiting, seen.acknowledge = seen.acknowledge, []
            for ack in waiting:
                ack()

        self._answers.send(answer).add_done_callback(acknowledge)

    # -- for the rooms above ---------------------------------------------------------------------------

    def publish_result(self, camera: str, result: Mapping[str, Any], captured: Optional[Instant] = None) -> bool:
        """One kept result of a camera, while it is fresh; False when it was too old or could not be sent."""
        return self.live.result(camera, result, captured)

    def publish_camera_status(self, camera: str, status: Mapping[str, Any]) -> None:
        """State and code of a camera, retained; published when they change."""
        self.live.camera_status(camera, status)

    def publish_counts(self, camera: str, counts: Mapping[str, Any]) -> None:
        """How many of what a camera sees, retained; published when it changes."""
        self.live.counts(camera, counts)

    def publish_event(self, event: Mapping[str, Any]) -> bool:
        """One event of the agent, as it happens."""
        return self.live.event(event)

    def counters(self) -> Dict[str, int]:
        """Numbers since the start."""
        answers = {"answers_sent": self._answers.sent, "answers_dropped": self._answers.dropped}
        answers.update(answers_refused=self._answers.refused, answers_waiting=len(self._answers))
        return {**self._counts, **answers, **self.live.counters()}

    def status(self) -> Dict[str, Any]:
        """`mqtt` of `/api/status`."""
        return {**self._connection.status().as_json(), "protocol": self._connection.version, "counters": self.counters()}
