"""Listening, limits, stopping, errors as JSON."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any, AsyncIterator, Dict, List, Tuple

import aiohttp
import pytest

from edge_agent.api import connections
from edge_agent.api.listening import tcp_sockets
from edge_agent.errors import ConfigError, ListenError
from tests.unit.api.conftest import Api, running_api, until

GOOD = {"inputs": [{"name": "X", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def _raw(port: int, data: bytes, seconds: float = 5) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), seconds)
    finally:
        writer.close()


async def test_taken_port_is_a_clear_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(
            ListenError, match=r"127\.0\.0\.1:%d: Address already in use; stop what uses it, or set http\.port" % port
        ):
            async with running_api(tmp_path, port=port):
                pass


async def test_name_that_does_not_resolve_is_a_clear_error() -> None:
    with pytest.raises(ListenError, match=r"set http\.port"):
        tcp_sockets("256.256.256.256", 80, "http.port")


async def test_metrics_have_a_port_of_their_own_that_serves_nothing_else(tmp_path: Path) -> None:
    port = _free_port()
    async with running_api(tmp_path, metrics_port=port) as api:
        answer = await api.client.get("http://127.0.0.1:%d/metrics" % port)
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        assert "demo_requests_total 3.0" in await answer.text()
        assert (await api.client.get("http://127.0.0.1:%d/api/status" % port)).status == 404
        assert (await api.get("/metrics/")).status == 200


async def test_taken_metrics_port_is_a_warning_and_the_agent_serves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        async with running_api(tmp_path, metrics_port=taken.getsockname()[1]) as api:
            assert (await api.get("/metrics")).status == 200
            assert api.server.status()["code"] == "metrics.port_taken"
            assert api.server.status()["state"] == "degraded"
        assert "metrics.port" in caplog.text


def _certificate(cert: Path, key: Path) -> None:
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-keyout",
            str(key),
            "-out",
            str(cert),
        ],
        check=True,
        capture_output=True,
    )


async def test_tls_serves_https(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    _certificate(cert, key)
    async with running_api(tmp_path, tls_cert_file=cert, tls_key_file=key) as api:
        assert api.server.address.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(cert))
        context.check_hostname = False
        url = api.server.address + "/v2/models/demo/infer"
        assert (await api.client.post(url, json=GOOD, ssl=context)).status == 200


async def test_certificate_that_does_not_work_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("nonsense")
    with pytest.raises(ConfigError, match=r"http\.tls_cert_file"):
        async with running_api(tmp_path, tls_cert_file=tmp_path / "c.pem", tls_key_file=tmp_path / "c.pem"):
            pass


ERRORS = [
    ("GET", "/nothing", 404, "Not Found"),
    ("GET", "/v2/repository/nothing", 404, "Not Found"),
    ("GET", "/v2/models/demo/versions/x/infer", 404, "Not Found"),
    ("GET", "/v2/models/demo/infer", 405, "Method Not Allowed"),
    ("POST", "/v2", 405, "Method Not Allowed"),
    ("GET", "/v2/models/a%2Fb", 404, "Request for unknown model: 'a/b' is not found"),
]


@pytest.mark.parametrize(("method", "path", "status", "text"), ERRORS)
async def test_errors_of_the_router_are_json(api: Api, method: str, path: str, status: int, text: str) -> None:
    answer = await api.client.request(method, aiohttp.client.URL(api.url(path), encoded=True))
    assert answer.status == status
    assert await answer.json() == {"error": text}
    assert answer.headers["X-Request-Id"]
    assert answer.headers["Cache-Control"] == "no-store"


async def test_head_and_options_are_answered(api: Api) -> None:
    head = await api.client.head(api.url("/v2/health/live"))
    assert (head.status, await head.read()) == (200, b"")
    options = await api.client.options(api.url("/v2/models/demo/infer"))
    assert options.status == 204
    assert "POST" in options.headers["Allow"]


HOST = b"Host: localhost\r\n"
#: requests that aiohttp, in one version or another, would answer by itself, or not at all
BY_AIOHTTP: Dict[str, Tuple[bytes, List[int]]] = {
    "no HTTP": (b"NONSENSE\r\n\r\n", [400]),
    "bad header": (b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n", [400]),
    "long header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: %s\r\n\r\n" % (b"a" * 20_000), [400]),
    # much longer, and the reset that follows the answer may overtake it
    "endless head": (b"GET / HTTP/1.1\r\n" + HOST + b"X: abc\r\n" * 9_000, [400, 431]),
    "two lengths": (b"POST /v2 HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", [400]),
    "bad chunk": (b"POST /v2 HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", [400]),
    "two hosts": (b"GET /v2 HTTP/1.1\r\n" + HOST + b"Host: evil\r\n\r\n", [400]),
    "address with a bad host": (b"GET http://[::1/v2 HTTP/1.1\r\n" + HOST + b"\r\n", [400]),
    "address with a bad port": (b"GET http://a:99999/v2 HTTP/1.1\r\n" + HOST + b"\r\n", [400]),
    "connect to a bad port": (b"CONNECT localhost:99999 HTTP/1.1\r\n" + HOST + b"\r\n", [400]),
    "unknown expectation": (b"GET /v2 HTTP/1.1\r\n" + HOST + b"Expect: nonsense\r\n\r\n", [417]),
    "unknown expectation, unknown address": (b"GET /no HTTP/1.1\r\n" + HOST + b"Expect: \xff\r\n\r\n", [417]),
    "unknown expectation, wrong method": (b"DELETE /v2 HTTP/1.1\r\n" + HOST + b"Expect: x\r\n\r\n", [417]),
    "another protocol with a body": (
        b"POST /v2/models/demo/infer HTTP/1.1\r\n"
        + HOST
        + b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\n{}",
        [400],
    ),
    "bytes in a header": (
        b"POST /v2/models/demo/infer HTTP/1.1\r\n" + HOST + b"Content-Encoding: \xff\r\nContent-Length: 1\r\n\r\nx",
        [501],
    ),
}


@pytest.mark.parametrize("case", sorted(BY_AIOHTTP))
async def test_what_no_handler_saw_is_answered_like_everything_else(
    api: Api, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    data, statuses = BY_AIOHTTP[case]
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(data)
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).decode()
    length = int(re.findall("(?i)content-length: ([0-9]+)", head)[0])
    said = json.loads(await asyncio.wait_for(reader.readexactly(length), 5))
    writer.close()
    assert int(head.split(" ")[1]) in statuses
    assert list(said) == ["error"]
    assert len(said["error"]) < 300
    for name in (
        "Server: edge-agent",
        "Content-Type: application/json",
        "X-Request-Id: ",
        "Cache-Control: no-store",
        "X-Frame-Options: DENY",
    ):
        assert name in head
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert (await api.get("/v2/health/live")).status == 200


async def test_malformed_chunk_behind_a_good_one_is_400(api: Api) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(b"POST /v2/models/demo/infer HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
    await until(lambda: api.server.in_flight == 1)
    writer.write(b"zz\r\n")
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"X-Frame-Options" in answer


async def test_before_http_1_1_there_was_nothing_to_expect(api: Api) -> None:
    answer = await _raw(api.server.port, b"GET /v2/health/live HTTP/1.0\r\n" + HOST + b"Expect: nonsense\r\n\r\n")
    assert answer.split(b"\r\n")[0].endswith(b"200 OK")


def _expecting(path: bytes, length: int, *more: bytes) -> bytes:
    lines = [b"POST %s HTTP/1.1" % path, b"Host: localhost", b"Content-Length: %d" % length, b"Expect: 100-continue", *more]
    return b"\r\n".join([*lines, b"", b""])


async def test_client_that_waits_for_the_go_ahead_gets_it_once_its_body_is_wanted(api: Api) -> None:
    body = json.dumps(GOOD).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(_expecting(b"/v2/models/demo/infer", len(body)))
    assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).startswith(b"HTTP/1.1 200 OK")
    writer.close()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (_expecting(b"/v2/models/demo/infer", 5_000_000_000), b"400"),
        (_expecting(b"/v2/models/nobody/infer", 10), b"404"),
        (_expecting(b"/v2/models/demo/infer", 10, b"Content-Encoding: br"), b"501"),
    ],
)
async def test_client_that_waits_for_the_go_ahead_is_refused_from_its_head_alone(api: Api, head: bytes, status: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(head)
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).startswith(b"HTTP/1.1 " + status)
    writer.close()


async def test_client_that_may_not_is_refused_before_its_body(tmp_path: Path) -> None:
    async with running_api(tmp_path, loopback=False) as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
        writer.write(_expecting(b"/v2/models/demo/infer", 10))
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).startswith(b"HTTP/1.1 401")
        writer.close()


async def test_requests_sent_ahead_wait_at_the_client_and_are_all_answered(api: Api) -> None:
    model = api.serving.models["demo"]
    model.gate = asyncio.Event()
    body = json.dumps(GOOD).encode()
    first = b"POST /v2/models/demo/infer HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    more = b"GET /v2/health/live HTTP/1.1\r\n" + HOST + b"\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(first)
    await until(lambda: model.running == 1)
    writer.write(more * 100_000)
    await asyncio.sleep(0.3)
    (connection,) = [one for one in api.server._listeners["http"].connections]
    assert len(connection._messages) < 20_000
    model.gate.set()
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n"), 10)).startswith(b"HTTP/1.1 200 OK")
    for _ in range(20_000):
        await asyncio.wait_for(reader.readuntil(b'{"live":true}'), 10)
    writer.close()


async def test_unforeseen_error_is_500_with_an_id_and_the_trace_in_the_log_only(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    api.serving.models["demo"].fault = KeyError("secret detail")
    answer = await api.post("/v2/models/demo/infer", json=GOOD, headers={"X-Request-Id": "mine-1"})
    assert answer.status == 500
    text = (await answer.json())["error"]
    assert "mine-1" in text
    assert "secret detail" not in text
    assert "secret detail" in caplog.text
    assert api.server.status()["unexpected_errors"] == 1
    assert api.serving.slots == 0


async def test_request_id_of_the_client_is_used_when_it_is_sane(api: Api) -> None:
    assert (await api.get("/v2", headers={"X-Request-Id": "abc"})).headers["X-Request-Id"] == "abc"
    assert (await api.get("/v2", headers={"X-Request-Id": "a" * 200})).headers["X-Request-Id"] != "a" * 200


async def test_stopping_agent_refuses_new_work_and_says_so(api: Api) -> None:
    api.draining[0] = True
    for path in ("/v2/models/demo/infer", "/api/models/demo/detect", "/v2/models/nobody/infer"):
        answer = await api.post(path, json=GOOD)
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "1"
        assert (await answer.json())["error"] == "Server exiting"
    assert (await api.get("/v2/models/demo")).status == 503
    assert (await api.get("/v2/health/ready")).status == 503
    assert (await api.get("/v2/health/live")).status == 200
    assert (await api.get("/api/status")).status == 200
    assert (await api.get("/metrics")).status == 200
    assert api.server.status()["refused_while_stopping"] == 4


async def test_stopping_agent_lets_every_request_end_that_has_begun(api: Api) -> None:
    held = api.serving.arena.try_acquire([(api.serving.segment, 60 * 2**20)])
    assert held is not None
    body = json.dumps(GOOD).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(b"POST /v2/models/demo/infer HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body[:9])
    await until(lambda: api.server.in_flight == 1)  # in its upload
    model = api.serving.models["demo"]
    model.gate = asyncio.Event()
    running = asyncio.ensure_future(api.post("/v2/models/demo/infer", json=GOOD))
    await until(lambda: model.running == 1)
    picture = asyncio.ensure_future(api.post("/api/models/demo/detect", data=_slowly(), headers={"Content-Type": "image/jpeg"}))
    await until(lambda: api.server.in_flight == 3)
    api.draining[0] = True
    assert not await api.server.drained(0.05)
    drained = asyncio.ensure_future(api.server.drained(10))
    assert (await api.post("/v2/models/demo/infer", json=GOOD)).status == 503
    held[0].release()
    writer.write(body[9:])
    model.gate.set()
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).startswith(b"HTTP/1.1 200 OK")
    assert (await running).status == (await picture).status == 200
    assert await drained
    assert api.server.in_flight == 0
    assert await api.server.drained(0)
    writer.close()


async def _slowly() -> AsyncIterator[bytes]:
    for _ in range(4):
        yield b"x"
        await asyncio.sleep(0.1)


async def test_client_that_leaves_is_not_waited_for(api: Api) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(b"POST /v2/models/demo/infer HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n")
    await until(lambda: api.server.in_flight == 1)
    api.draining[0] = True
    drained = asyncio.ensure_future(api.server.drained(10))
    await asyncio.sleep(0)
    writer.close()
    assert await asyncio.wait_for(drained, 5)


async def test_ready_is_400_until_models_are_settled(api: Api) -> None:
    api.serving.all_ready = False
    assert (await api.get("/v2/health/ready")).status == 400


async def test_stop_lets_the_running_request_end_and_can_be_called_twice(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        model = api.serving.models["demo"]
        model.gate = asyncio.Event()
        asked = asyncio.ensure_future(api.post("/v2/models/demo/infer", json=GOOD))
        await until(lambda: model.running == 1)
        stopping = asyncio.ensure_future(api.server.stop())
        await asyncio.sleep(0.05)
        model.gate.set()
        assert (await asked).status == 200
        await stopping
        await api.server.stop()
        with pytest.raises(aiohttp.ClientConnectorError):
            await api.get("/v2/health/live")


async def test_full_house_is_answered_503_and_the_control_socket_still_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections.Listener.__init__, "__defaults__", (3,))
    path = tmp_path / "control.sock"
    async with running_api(tmp_path, control_path=path) as api:
        held = [await asyncio.open_connection("127.0.0.1", api.server.port) for _ in range(3)]
        await until(lambda: api.server.status()["connections"]["http"] == 3)
        answer = await _raw(api.server.port, b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"too many connections" in answer
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client:
            assert (await client.get("http://agent/v2/health/live")).status == 200
        for _, writer in held:
            writer.close()
        await until(lambda: api.server.status()["connections"]["http"] == 0)
        assert (await api.get("/v2/health/live")).status == 200
        assert api.server.status()["refused_connections"] == 1


@pytest.mark.parametrize("sent", [b"", b"GET /v2/health/live HT", b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"])
async def test_head_that_does_not_come_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADER_LIMIT_S", 0.1)
    monkeypatch.setattr(connections, "_SWEEP_S", 0.05)
    async with running_api(tmp_path) as api:
        assert await _raw(api.server.port, sent, 5) == b""


async def test_second_request_whose_head_does_not_come_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_LIMIT_S", 0.2)
    monkeypatch.setattr(connections, "_SWEEP_S", 0.05)
    async with running_api(tmp_path) as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
        writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(0.5)  # longer than the limit: a connection between requests is idle, not late
        writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v2")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        writer.write(b"/he")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


async def test_answers_carry_the_security_headers(api: Api) -> None:
    headers: Dict[str, Any] = dict((await api.get("/api/status")).headers)
    assert headers["Server"] == "edge-agent"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
