"""What cameras see, published as it happens: results while they are fresh, state and counts retained."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import Any, Dict, Mapping, Optional, Set, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.results import Instant
from edge_agent.mqtt.message import PublishProperties
from edge_agent.mqtt.topics import Topics
from edge_agent.pipelines.mqtt_parts import AgentInfo, Connection

_MAX_UNSENT = 100  #: behind so many unsent messages a live result would not be live
_NO_AGE_EXPIRY_S = 3600
_RETRY_S = 5.0


class LiveTopics:
    """Publishes below `{p}/cameras/` and `{p}/agent/events`; what cannot be sent now is counted and gone."""

    def __init__(self, connection: Connection, topics: Topics, live_max_age_s: float, clock: Clock) -> None:
        self._connection = connection
        self._topics = topics
        self._live_max_age_s = live_max_age_s
        self._clock = clock
        self._retained: Dict[str, bytes] = {}  #: the last word on each retained topic, said again at each connect
        self._unsaid: Set[str] = set()  #: those of them that did not get out
        self._retry: Optional[asyncio.TimerHandle] = None
        self.retry_s = _RETRY_S
        self.published = 0
        self.stale = 0  #: older than live_max_age_s
        self.unsent = 0  #: no connection, or too much before them

    def result(self, camera: str, result: Mapping[str, Any], captured: Optional[Instant] = None) -> bool:
        """One kept result of a camera; False when it was too old or could not be sent."""
        body = dict(result)
        age_s = 0.0
        if captured is not None:
            age_s = max(0.0, (self._clock.monotonic_ns() - captured.monotonic_ns) / 1e9)
            body["captured_at"] = captured.at
        body.setdefault("captured_at", self._clock.now())
        return self._fresh(self._topics.camera(camera, "results"), body, age_s)

    def event(self, event: Mapping[str, Any]) -> bool:
        """One event of the agent, as it happens."""
        return self._fresh(self._topics.events, dict(event), 0.0)

    def camera_status(self, camera: str, status: Mapping[str, Any]) -> None:
        """State and code of a camera; published when they change."""
        self._retain(self._topics.camera(camera, "status"), status)

    def counts(self, camera: str, counts: Mapping[str, Any]) -> None:
        """How many of what a camera sees; published when it changes."""
        self._retain(self._topics.camera(camera, "counts"), counts)

    def say_again(self) -> None:
        """After a connect: the retained topics as they are now."""
        for topic in self._retained:
            self._say(topic)

    def stop(self) -> None:
        """Nothing is said again after this."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _fresh(self, topic: str, body: Mapping[str, Any], age_s: float) -> bool:
        if self._live_max_age_s and age_s > self._live_max_age_s:
            self.stale += 1
            return False
        if not self._connection.connected or self._connection.unsent >= _MAX_UNSENT:
            self.unsent += 1
            return False
        left_s = self._live_max_age_s - age_s if self._live_max_age_s else _NO_AGE_EXPIRY_S
        properties = PublishProperties(content_type="application/json", message_expiry_s=max(1, int(left_s)))
        self._connection.publish(topic, _encode(body), qos=0, properties=properties).add_done_callback(self._count)
        return True

    def _count(self, sending: asyncio.Future[None]) -> None:
        if sending.cancelled() or sending.exception() is not None:
            self.unsent += 1
        else:
            self.published += 1

    def _retain(self, topic: str, body: Mapping[str, Any]) -> None:
        payload = _encode(body)
        if self._retained.get(topic) == payload and topic not in self._unsaid:
            return
        self._retained[topic] = payload
        self._say(topic)

    def _say(self, topic: str) -> None:
        """The topic's last word; without a connection the next one brings it."""
        self._unsaid.discard(topic)
        if self._connection.connected:
            sending = self._connection.publish(topic, self._retained[topic], qos=1, retain=True)
            sending.add_done_callback(functools.partial(self._said, topic))

    def _said(self, topic: str, sending: asyncio.Future[None]) -> None:
        problem = None if sending.cancelled() else sending.exception()
        if problem is None:
            return
        self.unsent += 1
        if isinstance(problem, errors.PublishRefused):
            return  # it would be refused again; a new connection may have other rights
        self._unsaid.add(topic)
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self.retry_s, self._say_unsaid)

    def _say_unsaid(self) -> None:
        self._retry = None
        for topic in list(self._unsaid):
            self._say(topic)

    def counters(self) -> Dict[str, int]:
        """For the status."""
        return {"live_published": self.published, "live_stale": self.stale, "live_unsent": self.unsent}


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def offline_will(prefix: str, agent: AgentInfo) -> Tuple[str, bytes]:
    """Topic and payload that the broker publishes, retained, when the agent is lost."""
    return Topics(prefix).status, _encode({"state": "offline", "reason": "lost", **agent.as_json()})
