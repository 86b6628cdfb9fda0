"""What an agent says to its page: all well, some parts down, and hostile names."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List, Mapping, Optional, Sequence

from edge_agent.domain.codes import CODES
from edge_agent.domain.status import PartStatus, State

JSON = Dict[str, Any]
HOSTILE = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>'
LONG = "gate-of-the-northern-loading-yard-behind-hall-seventeen-" * 3


def moment(seconds_ago: float = 0.0) -> str:
    """RFC 3339 UTC with milliseconds."""
    at = datetime.now(timezone.utc) - timedelta(seconds=seconds_ago)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def codes() -> JSON:
    """As `/api/codes.json` answers."""
    return {name: {"reason": row.reason._asdict(), "cure": row.cure._asdict()} for name, row in CODES.items()}


def part(state: str = "ok", code: str = "", since: float = 7200, **args: Any) -> JSON:
    """State of one part as the agent writes it."""
    return PartStatus(State(state), moment(since), code, args).as_json()


def camera(name: str, title: str = "", health: Optional[JSON] = None, **more: Any) -> JSON:
    """One of `cameras`."""
    shown = {"model": "face", "source": "rtsp://10.0.0.5/stream1", "frame_age_s": 0.083, "fps_in": 10.0, "fps_inferred": 9.8}
    return {"name": name, "title": title, **(health or part()), **shown, "skipped": 12, **more}


def model(name: str, engine: str = "onnxruntime", health: Optional[JSON] = None, version: str = "1") -> JSON:
    """One of `models`."""
    state = health or part()
    return {"name": name, **state, "versions": [{"version": version, "engine": engine, "verified": False, **state}]}


def host(name: str, models: Sequence[str], health: Optional[Mapping[str, Any]] = None, **more: Any) -> JSON:
    """One of `engine_hosts`."""
    return {"name": name, **(health or part()), "pid": 4123, "restarts": 0, "models": list(models), **more}


def well() -> JSON:
    """Everything runs; MQTT is not configured."""
    arena = {"bytes_max": 268435456, "bytes_used": 29491200}
    return {
        "agent": {
            **part(), "id": "3f9c2a7be014", "title": "Loading yard", "version": "0.1.0", "uptime_s": 7300.5, "safe_mode": False,
            "rss_bytes": 84_300_000, "loop_lag_p50_ms": 0.1, "loop_lag_p99_ms": 1.9, "arena": arena,
        },
        "models": [model("face"), model("plates", "tensorrt", version="3")],
        "engine_hosts": [host("cpu", ["face/1"]), host("gpu", ["plates/3"])],
        "cameras": [camera("dock", "Dock gate"), camera("yard", "Yard, north"), camera("belt")],
        "mqtt": part("off", since=0),
        "store": {
            **part(), "path": "/var/lib/edge-agent/edge-agent.db", "bytes": 48_234_496, "wal_bytes": 4_100_000,
            "rows_written": 45210, "queue": {"result": 0, "request": 0, "log": 0},
            "last_commit_ms": 2.4, "dropped_results": 0, "dropped_logs": 0,
        },
        "sync": [],
        "access": part(),
        "device": {
            **part(), "board": "NVIDIA Jetson Orin Nano Developer Kit", "soc": "tegra234", "serial": "1421", "l4t": "36.4.3",
            "jetpack": None, "temperatures_c": {"cpu": 51.5, "gpu": 49.0, "soc0": 50.2, "tj": 51.6}, "gpu_load": 0.41,
            "cpu_load": 0.2234, "load_avg": [0.9, 0.8, 0.7], "memory_total_bytes": 7_990_000_000,
            "memory_available_bytes": 4_100_000_000, "disk_total_bytes": 58_000_000_000, "disk_free_bytes": 3_900_000_000,
            "uptime_s": 350_000.0, "power_w": {"VDD_IN": 6.4}, "power_total_w": 6.4, "fan": {"duty": 0.35, "rpm": None},
        },
        "clock": {**part(), "now": moment(), "synced": True, "boot_id": "b"},
        "uplink": part("off", since=0),
    }  # fmt: skip


def broken() -> JSON:
    """A camera is down, a model failed, its host is gone, the broker cannot be reached, the board tells nothing."""
    status = well()
    status["agent"].update(part("degraded"))
    status["cameras"][1] = camera(
        "yard", "Yard, north", part("failed", "camera.unreachable", 192, source="rtsp://10.0.0.6/stream1"),
        frame_age_s=195.2, fps_in=0.0, fps_inferred=0.0,
    )  # fmt: skip
    text = "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model from plates/3/model.onnx failed: Protobuf parsing failed."
    status["models"][1] = model("plates", "", part("failed", "model.load_failed", text=text), version="3")
    status["engine_hosts"][1] = host(
        "gpu", [], {**part("failed", "engine_host.died", 4, reason="ended by signal 11"), "cure": ""}
    )
    status["mqtt"] = {**part("degraded", "mqtt.connecting", 3), "protocol": "", "counters": {}}
    status["device"] = {**part(), **{name: None for name in status["device"] if name not in part()}, "temperatures_c": {}}
    return status


def build(state: str = "building", **more: Any) -> JSON:
    """How a plan comes to be."""
    shown = {
        "state": state,
        "phase": "build",
        "percent": 43.2,
        "eta_s": 170.0,
        "tries": 1,
        "code": "",
        "reason": "",
        "text": "",
    }
    return {**shown, **more}


def shadow(**more: Any) -> JSON:
    """How a version does beside the one that serves."""
    found = {"compared": 43, "wanted": 100, "agreement": 0.9721, "p95_ms": 4.125, "serving_p95_ms": 13.9, "errors": 0}
    return {**found, "skipped": 7, "paused": "", "overdue": False, **more}


def plans() -> JSON:
    """One model whose plan is being built, one on TensorRT with a newer version beside it, one that gets no plan."""
    status = well()
    face, plates = model("face", health=part("degraded", "engine.building", 40)), model("plates", "tensorrt")
    face["versions"][0]["build"] = build()
    checked = {"compared": 12, "max_abs_error": 0.0012, "max_share": 0.0003, "p50_ms": 2.13, "p95_ms": 2.4}
    plates["versions"][0].update(
        verified=True, plan={"precision": "fp16", "built_at": moment(900), "bytes": 9_000_000, **checked}
    )
    candidate = {"version": "2", "engine": "tensorrt", "verified": True, **part("degraded", "model.shadowing", 300)}
    plates["versions"].insert(0, {**candidate, "shadow": shadow()})
    failed = part(
        "degraded", "engine.build_failed", 900, text="operator GridSample is not known", cause="build.unsupported_operator"
    )
    gate = model("gate", health=failed)
    gate["versions"][0]["build"] = build("failed", code="build.unsupported_operator", reason="operator GridSample is not known")
    status["models"] = [face, plates, gate]
    return status


def hostile() -> JSON:
    """Every name that comes from outside is markup, or longer than any screen is wide."""
    status = well()
    status["agent"]["title"] = HOSTILE
    status["cameras"] = [
        camera("dock", HOSTILE, part("failed", "camera.unreachable", source=HOSTILE), source=HOSTILE, model=HOSTILE),
        camera(LONG[:64], LONG),
    ]
    long = model(LONG[:120], health=part("failed", "model.load_failed", text=HOSTILE + "A" * 900))
    plan = {"precision": "W" * 900, "p50_ms": 1e300, "compared": HOSTILE}
    long["versions"][0].update(
        engine="tensorrt", plan=plan, build=build(reason=HOSTILE + "W" * 900, eta_s=1e15, tries=10**12, percent=1e9)
    )
    status["models"] = [long, model("m" * 255, "E" * 300, part("degraded", "engine.build_failed", text="W" * 900))]
    status["models"][1]["versions"].insert(
        0, {**model("", "", part("off", "x"))["versions"][0], "shadow": shadow(compared=10**15, paused=HOSTILE)}
    )
    status["store"].update(part("failed", "code.nobody_knows", text=HOSTILE), reason=HOSTILE)
    return status


def without_english(status: JSON) -> JSON:
    """The document without its reasons and cures: what is shown then comes from the table of codes."""
    bare = copy.deepcopy(status)
    for value in bare.values():
        for one in value if isinstance(value, list) else [value]:
            one.pop("reason", None)
            one.pop("cure", None)
    return bare


def result(seq: int, objects: Sequence[Any], ago: float = 0.0, source: str = "camera/dock", **more: Any) -> JSON:
    """A row of `result`."""
    row = {"seq": seq, "uid": "u%d" % seq, "source": source, "model": "face", "version": "1", "captured_at": moment(ago)}
    rest = {"clock_synced": True, "width": 640, "height": 480, "objects": list(objects), "latency_us": 43210, "request_id": ""}
    return {**row, **rest, **more}


def seen(label: str, score: float) -> JSON:
    """One object."""
    return {"label": label, "score": score, "box": [10.0, 20.0, 110.0, 220.0]}


def results() -> List[JSON]:
    """Twenty rows, newest first."""
    objects: List[List[JSON]] = [
        [seen("face", 0.97)], [], [seen("person", 0.91), seen("person", 0.84), seen("forklift", 0.77)], [seen("cat", 0.66)],
    ]  # fmt: skip
    return [result(100 - n, objects[n % 4], n * 0.1, "camera/dock" if n % 3 else "camera/yard") for n in range(20)]


def event(seq: int, kind: str, subject: str, ago: float, code: str = "", text: str = "", **args: Any) -> JSON:
    """A row of `event`."""
    row = {"seq": seq, "uid": "e%d" % seq, "at": moment(ago), "kind": kind, "subject": subject, "actor": "agent"}
    return {**row, "code": code, "args": args, "text": text, "detail": {}}


def events() -> List[JSON]:
    """What happened, newest first."""
    return [
        event(6, "camera.down", "yard", 192, "camera.unreachable", source="rtsp://10.0.0.6/stream1"),
        event(5, "engine_host.down", "gpu", 300, "engine_host.died", reason="ended by signal 11"),
        event(4, "engine_host.up", "gpu", 298, "engine_host.up"),
        event(3, "model.loaded", "face/1", 7290),
        event(2, "camera.up", "dock", 7291),
        event(1, "agent.started", "", 7300, "agent.started_after_power_cut"),
    ]
