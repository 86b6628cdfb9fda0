"""The status document: one JSON object that says what runs, what does not, and why (design.md section 11)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from edge_agent import __version__
from edge_agent.app.parts import Parts
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.telemetry import procfs

_OFF = PartStatus(State.OFF)


def document(parts: Parts, agent: PartStatus, started_at: float, safe_mode: bool, access: PartStatus) -> Dict[str, Any]:
    """What `GET /api/status` answers; `agent` is ok unless the agent itself is starting, stopping or in safe mode."""
    clock = parts.clock
    body: Dict[str, Any] = {
        "models": parts.serving.status(),
        "repository": parts.serving.repository_status(),
        "engine_hosts": parts.serving.host_status(),
        "cameras": [camera.status() for camera in parts.cameras.values()],
        "mqtt": _OFF.as_json() if parts.mqtt is None else parts.mqtt.status(),
        "store": parts.store.status(),
        "sync": [],
        "http": parts.api.status(),
        "images": parts.images.status(),
        "bodies": parts.bodies.status(),
        "access": access.as_json(),
        "device": {**PartStatus(State.OK).as_json(), **parts.device.values},
        "clock": _clock(clock),
        "uplink": _OFF.as_json(),
    }
    state = agent if agent.state is not State.OK else PartStatus(_overall(body), agent.since)
    return {"agent": {**_agent(parts, started_at, safe_mode), **state.as_json()}, **body}


def _agent(parts: Parts, started_at: float, safe_mode: bool) -> Dict[str, Any]:
    return {
        "id": parts.agent_id,
        "title": parts.config.agent.title,
        "version": __version__,
        "uptime_s": round(parts.clock.monotonic() - started_at, 1),
        "safe_mode": safe_mode,
        "rss_bytes": procfs.rss_bytes(),
        "loop_lag_p50_ms": round(parts.lag.p50_ms, 2),
        "loop_lag_p99_ms": round(parts.lag.p99_ms, 2),
        "arena": parts.arena.status(),
    }


def _clock(clock: Clock) -> Dict[str, Any]:
    part = PartStatus(State.OK) if clock.plausible() else PartStatus(State.DEGRADED, code="clock.unsynced")
    return {**part.as_json(), "now": clock.now(), "synced": clock.synced(), "boot_id": clock.boot_id}


def _overall(body: Mapping[str, Any]) -> State:
    """Ok when every part that is wanted is ok; a failed part degrades the agent, which goes on without it."""
    listed: Sequence[Any] = [value if isinstance(value, list) else [value] for value in body.values()]
    states: List[str] = [part["state"] for parts in listed for part in parts]
    return State.OK if set(states) <= {"ok", "off"} else State.DEGRADED
