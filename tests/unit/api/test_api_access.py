"""Who may ask: tokens, Host, Origin, the control socket."""

from __future__ import annotations

import base64
import getpass
import os
import stat
from pathlib import Path
from typing import Any, Dict

import aiohttp
import pytest

from edge_agent.access.roles import Role
from edge_agent.api.access import own_names, split_host
from edge_agent.api.denied import MAX_EVENTS, DeniedLog
from edge_agent.domain.clock import Clock
from edge_agent.errors import Unauthenticated
from tests.unit.api.conftest import Api, FakeStore, running_api

GOOD = {"inputs": [{"name": "X", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
JPEG = {"Content-Type": "image/jpeg"}


def _bearer(secret: str) -> Dict[str, str]:
    return {"Authorization": "Bearer " + secret}


async def test_without_a_token_only_health_and_the_page_are_open(tmp_path: Path) -> None:
    async with running_api(tmp_path, loopback=False) as api:
        for path in ("/v2/health/live", "/v2/health/ready", "/api/codes.json", "/api/openapi.json"):
            assert (await api.get(path)).status == 200, path
        for path in ("/v2", "/v2/models/demo", "/metrics", "/api/status", "/api/cameras", "/api/results", "/api/logs"):
            answer = await api.get(path)
            assert answer.status == 401, path
            assert [text.split()[0] for text in answer.headers.getall("WWW-Authenticate")] == ["Bearer", "Basic"]
            assert "token" in (await answer.json())["error"]
        assert (await api.post("/v2/models/demo/infer", json=GOOD)).status == 401


async def test_page_that_asks_by_itself_is_not_given_the_browsers_form(tmp_path: Path) -> None:
    async with running_api(tmp_path, loopback=False) as api:
        answer = await api.get("/api/status", headers={"X-Requested-With": "edge-agent"})
        assert answer.status == 401
        assert [text.split()[0] for text in answer.headers.getall("WWW-Authenticate")] == ["Bearer"]


async def test_token_is_taken_as_bearer_and_as_basic_password_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    async with running_api(tmp_path, loopback=False) as api:
        secret = api.tokens.add("ops", Role.ADMIN)
        basic = base64.b64encode(b"anybody:" + secret.encode()).decode()
        for headers in (_bearer(secret), {"Authorization": "Basic " + basic}):
            assert (await api.get("/api/status", headers=headers)).status == 200
            assert (await api.post("/v2/models/demo/infer", json=GOOD, headers=headers)).status == 200
        assert api.serving.requests[0].source == "http/ops"
        for _ in range(3):
            assert (await api.get("/api/status", headers=_bearer("wrong"))).status == 401
        assert [event["kind"] for event in api.store.events] == ["access.denied"]
        assert "wrong" not in str(api.store.events)


async def test_roles_may_do_what_they_may_and_no_more(tmp_path: Path) -> None:
    async with running_api(tmp_path, loopback=False) as api:
        device, viewer = api.tokens.add("gate", Role.DEVICE), api.tokens.add("wall", Role.VIEWER)
        assert (await api.post("/v2/models/demo/infer", json=GOOD, headers=_bearer(device))).status == 200
        refused = await api.get("/api/results", headers=_bearer(device))
        assert refused.status == 403
        assert "role device" in (await refused.json())["error"]
        assert (await api.get("/api/results", headers=_bearer(viewer))).status == 200
        keep = "/api/models/demo/detect?source="
        assert (await api.post(keep + "wall", data=b"x", headers={**JPEG, **_bearer(viewer)})).status == 403
        assert (await api.post(keep + "other", data=b"x", headers={**JPEG, **_bearer(device)})).status == 403
        assert (await api.post(keep + "gate", data=b"x", headers={**JPEG, **_bearer(device)})).status == 200
        assert [asked["source"] for asked in api.detector.asked] == ["http/gate"]


async def test_anonymous_gets_what_is_opened(tmp_path: Path) -> None:
    async with running_api(tmp_path, loopback=False, allow_anonymous=("metrics",)) as api:
        assert (await api.get("/metrics")).status == 200
        assert (await api.get("/api/status")).status == 401


FOREIGN = ["evil.example", "evil.example:8000", "localhost.evil.example", "a b", "x@localhost", ""]
OWN = ["localhost", "LOCALHOST:8000", "127.0.0.1", "192.168.1.5:9", "[::1]:8000", "camera.lan"]


@pytest.mark.parametrize("host", FOREIGN)
async def test_foreign_host_header_is_refused(tmp_path: Path, host: str) -> None:
    async with running_api(tmp_path) as api:
        answer = await api.get("/api/status", headers={"Host": host})
        assert answer.status in (400, 403)
        assert "error" in await answer.json()


@pytest.mark.parametrize("host", OWN)
async def test_own_names_and_addresses_are_taken(tmp_path: Path, host: str) -> None:
    async with running_api(tmp_path, allowed_hosts=("camera.lan",)) as api:
        assert (await api.get("/api/status", headers={"Host": host})).status == 200


def test_the_machines_own_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Orin.shop.example")
    assert own_names("0.0.0.0", ["Cam"]) >= {"orin.shop.example", "orin", "orin.local", "localhost", "cam"}


def test_host_header_is_split_as_browsers_write_it() -> None:
    assert split_host("[fe80::1]:80") == ("fe80::1", 80)
    assert split_host("Name") == ("name", None)
    for bad in ("", "a/b", "u@h", "h:x"):
        with pytest.raises(ValueError, match=r".*"):
            split_host(bad)


ORIGINS = [
    ("http://localhost:{port}", 200),
    ("http://evil.example", 403),
    ("http://localhost:1", 403),
    ("https://localhost", 403),
    ("null", 403),
]


@pytest.mark.parametrize(("origin", "status"), ORIGINS)
async def test_changing_request_with_an_origin_must_come_from_our_own_page(api: Api, origin: str, status: int) -> None:
    headers = {"Host": "localhost:%d" % api.server.port, "Origin": origin.format(port=api.server.port)}
    assert (await api.post("/v2/models/demo/infer", json=GOOD, headers=headers)).status == status
    assert (await api.get("/api/status", headers=headers)).status == 200


async def test_control_socket_makes_who_may_open_it_admin(tmp_path: Path) -> None:
    path = tmp_path / "run" / "control.sock"
    path.parent.mkdir()
    async with running_api(tmp_path, loopback=False, control_path=path) as api:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client:
            assert (await client.get("http://agent/api/status")).status == 200
            assert (await client.post("http://agent/v2/models/demo/infer", json=GOOD)).status == 200
        assert api.serving.requests[0].source == "http/cli:" + getpass.getuser()
        assert (await api.get("/api/status")).status == 401
    assert not path.exists()


async def test_socket_for_local_clients_asks_for_tokens_like_the_port(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    async with running_api(tmp_path, loopback=False, uds_path=path) as api:
        secret = api.tokens.add("box", Role.VIEWER)
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client:
            assert (await client.get("http://any/api/status")).status == 401
            assert (await client.get("http://any/api/status", headers=_bearer(secret))).status == 200


async def test_stale_socket_is_replaced_and_a_served_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with running_api(tmp_path, control_path=path):
        with pytest.raises(Exception, match="another agent serves it"):
            async with running_api(tmp_path, control_path=path):
                pass
        assert path.exists()
        os.link(path, tmp_path / "left.sock")
    left: Any = tmp_path / "left.sock"
    async with running_api(tmp_path, control_path=left) as api:
        assert (await api.get("/v2/health/live")).status == 200


class _Request:
    headers = {"Authorization": "Bearer x"}

    def __init__(self, remote: str) -> None:
        self.remote = remote


class _Clock(Clock):
    def __init__(self) -> None:
        super().__init__("boot")
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


def test_guessing_is_noted_once_a_minute_and_address_and_never_fills_memory() -> None:
    store, clock = FakeStore(), _Clock()
    log = DeniedLog(store, clock)
    for second in range(0, 120, 10):
        clock.at = float(second)
        log.note(_Request("10.0.0.1"), Unauthenticated("unknown"))  # type: ignore[arg-type]
    assert len(store.events) == 2
    assert log.refused == 12
    for number in range(1000):
        log.note(_Request("10.1.%d.%d" % divmod(number, 256)), Unauthenticated("unknown"))  # type: ignore[arg-type]
    assert len(store.events) == 1 + MAX_EVENTS  # the first one's minute is over
    assert log.status() == {"refused": 1012, "unnoted": 1012 - len(store.events)}
    assert len(log._noted) == MAX_EVENTS
    clock.at += 60
    log.note(_Request("10.2.0.1"), Unauthenticated("unknown"))  # type: ignore[arg-type]
    assert store.events[-1]["subject"] == "10.2.0.1"
    assert len(log._noted) == 1
    store.connection.close()
