"""Load, unload, index, statistics, and the extensions that are off."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import pytest

from edge_agent.access.roles import Role
from edge_agent.errors import ConfigError, ControlRefused, EngineLoadError, ModelNotFound
from tests.unit.api.conftest import Api, running_api, until

LOAD, UNLOAD = "/v2/repository/models/demo/load", "/v2/repository/models/demo/unload"


async def said(api: Api, path: str, body: Any = None) -> Tuple[int, Any]:
    """Status and JSON of a POST; None for an empty body."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await api.post(path, data=data)
    text = await answer.read()
    assert answer.headers["Content-Type"].startswith("application/json")
    return answer.status, json.loads(text) if text else None


@pytest.mark.parametrize("body", [None, b"", {}, {"parameters": {}}, {"parameters": None}])
async def test_a_load_without_parameters_takes_the_model_from_the_repository_and_answers_empty(api: Api, body: Any) -> None:
    assert await said(api, LOAD, body) == (200, None)
    assert api.serving.control == [("load", "demo", None, {})]


async def test_a_load_hands_on_its_configuration_and_its_files(api: Api) -> None:
    parameters = {"config": "{}", "file:1/model.onnx": base64.b64encode(b"\0onnx").decode()}
    assert await said(api, LOAD, {"parameters": parameters}) == (200, None)
    assert api.serving.control == [("load", "demo", "{}", {"1/model.onnx": b"\0onnx"})]


async def test_a_large_file_comes_through_whole(api: Api) -> None:
    data = bytes(range(256)) * 2000
    parameters = {"config": "{}", "file:1/model.onnx": base64.b64encode(data).decode()}
    assert await said(api, LOAD, {"parameters": parameters}) == (200, None)
    assert api.serving.control[0][3] == {"1/model.onnx": data}


@pytest.mark.parametrize(
    ("parameters", "status", "names"),
    [
        ({"config": 7}, 400, "'parameters.config'"),
        ({"file:1/model.onnx": "AAAA"}, 400, "'config'"),
        ({"config": "{}", "file:1/model.onnx": "%%%"}, 400, "file:1/model.onnx"),
        ({"config": "{}", "file:1/model.onnx": "é"}, 400, "file:1/model.onnx"),
        ({"config": "{}", "file:1/../../x": "AAAA"}, 400, "file:1/../../x"),
        ({"config": "{}", "file:/etc/x": "AAAA"}, 400, "file:/etc/x"),
        ({"config": "{}", "file:model.onnx": "AAAA"}, 400, "file:model.onnx"),
        ({"config": "{}", "file:1/a\0b": "AAAA"}, 400, "within a version"),
        ({"sort": "x"}, 500, "'sort'"),
        (5, 400, "'parameters'"),
    ],
)
async def test_a_load_with_wrong_parameters_names_the_one_at_fault(api: Api, parameters: Any, status: int, names: str) -> None:
    code, body = await said(api, LOAD, {"parameters": parameters})
    assert code == status
    assert names in body["error"]
    assert api.serving.control == []


@pytest.mark.parametrize("body", [b"[]", b"nonsense", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("path", [LOAD, UNLOAD, "/v2/repository/index"])
async def test_a_body_that_is_no_object_is_refused(api: Api, path: str, body: bytes) -> None:
    assert (await said(api, path, body))[0] == 400
    assert api.serving.control == []


@pytest.mark.parametrize("name", ["..%2F..%2Fetc", "%2e%2e", "a%2Fb", "a%00", "x" * 200, ".hidden"])
@pytest.mark.parametrize("path", ["/v2/repository/models/%s/load", "/api/models/%s/load", "/api/models/%s/unload"])
async def test_a_name_that_no_model_can_have_never_reaches_a_folder(api: Api, path: str, name: str) -> None:
    answer = await api.client.post(_encoded(api.url(path % name)))
    assert answer.status in (400, 404)
    assert "error" in await answer.json()
    assert api.serving.control == []


def _encoded(url: str) -> Any:
    from yarl import URL

    return URL(url, encoded=True)


@pytest.mark.parametrize(
    ("error", "status", "text", "retry"),
    [
        (EngineLoadError("failed to load 'demo', no"), 500, "failed to load 'demo', no", None),
        (ModelNotFound("failed to load 'demo', gone"), 500, "failed to load 'demo', gone", None),
        (ConfigError([("a", "b", "c"), ("d", "e", "")]), 500, "failed to load 'demo', a: b (c); d: e", None),
        (ControlRefused("not allowed"), 503, "not allowed", None),
    ],
)
async def test_a_load_that_fails_answers_as_triton_does(
    api: Api, error: Exception, status: int, text: str, retry: Optional[str]
) -> None:
    api.serving.control_error = error
    answer = await api.post(LOAD)
    assert (answer.status, (await answer.json())["error"], answer.headers.get("Retry-After")) == (status, text, retry)


async def test_a_load_goes_on_when_its_client_leaves(api: Api) -> None:
    api.serving.control_gate = asyncio.Event()
    asking = asyncio.ensure_future(api.post(LOAD))
    await until(lambda: bool(api.server.in_flight))
    asking.cancel()
    await until(lambda: not api.server.in_flight)
    api.serving.control_gate.set()
    await until(lambda: api.serving.control == [("load", "demo", None, {})])


@pytest.mark.parametrize(
    ("body", "dependents"),
    [(None, False), ({"parameters": {"unload_dependents": True}}, True), ({"parameters": {"unload_dependents": False}}, False)],
)
async def test_an_unload_says_whether_dependents_go_too(api: Api, body: Optional[Dict[str, Any]], dependents: bool) -> None:
    assert await said(api, UNLOAD, body) == (200, None)
    assert api.serving.control == [("unload", "demo", dependents)]
    assert (await said(api, UNLOAD, {"parameters": {"unload_dependents": 1}}))[0] == 400


async def test_one_repository_of_several_cannot_be_named(api: Api) -> None:
    for verb in ("load", "unload"):
        assert (await said(api, "/v2/repository/main/models/demo/" + verb))[0] == 501


async def test_the_index_lists_every_model_or_those_that_are_ready(api: Api) -> None:
    status, entries = await said(api, "/v2/repository/index")
    assert status == 200
    assert {"name": "sleeping", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"} in entries
    _, ready = await said(api, "/v2/repository/index", {"ready": True})
    assert {entry["name"] for entry in entries} - {entry["name"] for entry in ready} == {"sleeping"}
    assert (await said(api, "/v2/repository/index", {"ready": "yes"}))[0] == 400
    assert await said(api, "/v2/repository/main/index", {}) == (200, entries)


async def test_a_request_without_a_body_and_without_a_length_is_an_empty_one(api: Api) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(b"POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_the_agents_own_verbs_hold_a_model_down_and_let_it_go(api: Api) -> None:
    assert await said(api, "/api/models/demo/unload") == (200, [{"name": "demo", "version": "1", "state": "READY"}])
    assert (await said(api, "/api/models/demo/load"))[0] == 200
    assert api.serving.control == [("hold", "demo"), ("release", "demo")]
    api.serving.control_error = ModelNotFound("no such model")
    assert await said(api, "/api/models/other/unload") == (404, {"error": "no such model"})
    api.serving.control_error = OSError(28, "No space left on device")
    status, body = await said(api, "/api/models/demo/unload")
    assert status == 503
    assert "No space left on device" in body["error"]


async def test_statistics_of_all_of_one_and_of_a_version(api: Api) -> None:
    everything = (await (await api.get("/v2/models/stats")).json())["model_stats"]
    assert {entry["name"] for entry in everything} == set(api.serving.models)
    for path in ("/v2/models/demo/stats", "/v2/models/demo/versions/1/stats"):
        answer = await api.get(path)
        assert (answer.status, await answer.json()) == (200, {"model_stats": [{"name": "demo", "version": "1"}]})


async def test_statistics_of_what_is_not_there_are_the_callers_mistake(api: Api) -> None:
    for path in ("/v2/models/nobody/stats", "/v2/models/demo/versions/9/stats"):
        answer = await api.get(path)
        assert answer.status == 400
        assert "nobody" in (await answer.json())["error"] or "demo" in (await answer.json())["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "names"),
    [
        ("GET", "/v2/trace/setting", 503, "tracing"),
        ("POST", "/v2/models/demo/trace/setting", 503, "tracing"),
        ("GET", "/v2/models/demo/versions/1/trace/setting", 404, "Not Found"),
        ("GET", "/v2/logging", 503, "logging"),
        ("POST", "/v2/logging", 503, "logging"),
        ("POST", "/v2/systemsharedmemory/region/a/register", 501, "system shared memory"),
        ("POST", "/v2/cudasharedmemory/region/a/register", 501, "cuda shared memory"),
        ("GET", "/v2/systemsharedmemory/region/a/status", 404, "'a'"),
        ("POST", "/v2/models/demo/generate", 404, "Not Found"),
        ("POST", "/v2/models/demo/generate_stream", 404, "Not Found"),
        ("PUT", "/v2/models/demo", 405, "Method Not Allowed"),
        ("GET", "/v2/repository/index", 405, "Method Not Allowed"),
    ],
)
async def test_extensions_that_are_off_answer_as_triton_without_them(
    api: Api, method: str, path: str, status: int, names: str
) -> None:
    answer = await api.client.request(method, api.url(path), data=b"{}" if method == "POST" else None)
    assert answer.status == status
    assert names in (await answer.json())["error"]


async def test_regions_that_are_not_there_are_listed_as_none_and_unregistered_without_complaint(api: Api) -> None:
    for kind in ("systemsharedmemory", "cudasharedmemory"):
        assert await (await api.get("/v2/%s/status" % kind)).json() == []
        assert await said(api, "/v2/%s/unregister" % kind) == (200, None)
        assert await said(api, "/v2/%s/region/a/unregister" % kind) == (200, None)


async def test_only_operators_change_what_is_loaded(tmp_path: Path) -> None:
    async with running_api(tmp_path, loopback=False) as api:
        statuses: Dict[str, int] = {}
        for role in (Role.DEVICE, Role.VIEWER, Role.OPERATOR):
            token = api.tokens.add(role.value, role)
            answer = await api.post("/api/models/demo/unload", headers={"Authorization": "Bearer " + token})
            statuses[role.value] = answer.status
        assert statuses == {"device": 403, "viewer": 403, "operator": 200}
        assert (await api.post(LOAD)).status == 401


async def test_files_and_a_configuration_with_a_load_can_bring_code_so_only_an_admin_brings_them(tmp_path: Path) -> None:
    file = base64.b64encode(b"code").decode()
    async with running_api(tmp_path, loopback=False) as api:
        tokens = {role: api.tokens.add(role.value, role) for role in (Role.OPERATOR, Role.ADMIN)}
        for parameters in ({"config": "{}"}, {"config": "{}", "file:1/model.py": file}, {"config": ""}):
            statuses = {}
            for role, token in tokens.items():
                body = json.dumps({"parameters": parameters})
                answer = await api.post(LOAD, data=body, headers={"Authorization": "Bearer " + token})
                statuses[role] = answer.status
            assert statuses == {Role.OPERATOR: 403, Role.ADMIN: 200}
        assert len(api.serving.control) == 3
        plain = await api.post(LOAD, headers={"Authorization": "Bearer " + tokens[Role.OPERATOR]})
        assert plain.status == 200
