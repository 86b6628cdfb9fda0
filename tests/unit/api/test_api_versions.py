"""Build, verify, promote, roll back: what of it reaches serving, and what is answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Optional, Tuple

import pytest

from edge_agent.access.roles import Role
from edge_agent.errors import ControlRefused, EngineLoadError, InvalidRequest, ModelNotFound, Unsupported
from tests.unit.api.conftest import Api, running_api, until

VERBS = ("build", "verify", "promote", "rollback")


async def said(api: Api, path: str) -> Tuple[int, Any]:
    """Status and JSON of a POST to a model."""
    answer = await api.post("/api/models/" + path)
    return answer.status, await answer.json()


@pytest.mark.parametrize("path", ["demo/build", "demo/build?version=1", "demo/build?version=01"])
async def test_a_build_is_under_way_when_it_is_answered(api: Api, path: str) -> None:
    status, body = await said(api, path)
    assert (status, body["name"], body["version"], body["build"]["state"]) == (202, "demo", "1", "queued")
    assert api.serving.control == [("build", "demo", "1")]


async def test_a_build_of_a_model_that_nothing_serves_is_of_its_newest_version(api: Api) -> None:
    assert (await said(api, "sleeping/build"))[0] == 202
    assert api.serving.control == [("build", "sleeping", "1")]


async def test_a_check_answers_its_figures_and_whose_they_are(api: Api) -> None:
    status, body = await said(api, "demo/verify")
    assert status == 200
    assert body == {
        "name": "demo", "version": "1", "good": True, "code": "", "reason": "", "compared": 3, "max_abs_error": 0.001,
    }  # fmt: skip
    assert api.serving.control == [("verify", "demo", "1")]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("demo/promote", ("promote", "demo", None)),
        ("demo/promote?version=7", ("promote", "demo", "7")),
        ("demo/rollback", ("roll_back", "demo")),
    ],
)
async def test_a_change_of_versions_answers_the_model_as_it_is_then(api: Api, path: str, asked: Tuple[Any, ...]) -> None:
    status, body = await said(api, path)
    assert (status, body["name"], [one["version"] for one in body["versions"]]) == (200, "demo", ["1"])
    assert api.serving.control == [asked]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("version=two", "'two'"),
        ("version=", "''"),
        ("version=-1", "'-1'"),
        ("version=%D9%A1", "not the number"),
        ("version=" + "9" * 19, "not the number"),
        ("version=1&version=2", "2 times"),
        ("versoin=1", "versoin: no such parameter"),
        ("version=1&force=1", "force: no such parameter"),
    ],
)
@pytest.mark.parametrize("verb", ["build", "verify", "promote"])
async def test_what_cannot_be_meant_is_refused_before_anything_is_done(api: Api, verb: str, query: str, names: str) -> None:
    status, body = await said(api, "demo/%s?%s" % (verb, query))
    assert status == 400
    assert names in body["error"]
    assert api.serving.control == []


async def test_a_way_back_takes_no_version(api: Api) -> None:
    status, body = await said(api, "demo/rollback?version=1")
    assert (status, body) == (400, {"error": "version: no such parameter; it takes none"})
    assert api.serving.control == []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["..%2F..%2Fetc", "%2e%2e", "a%00", "x" * 200, ".hidden"])
async def test_a_name_that_no_model_can_have_is_refused(api: Api, verb: str, name: str) -> None:
    from yarl import URL

    answer = await api.client.post(URL(api.url("/api/models/%s/%s" % (name, verb)), encoded=True))
    assert answer.status in (400, 404)
    assert "error" in await answer.json()
    assert api.serving.control == []


@pytest.mark.parametrize("verb", ["build", "verify"])
async def test_a_model_that_nobody_knows_is_not_found(api: Api, verb: str) -> None:
    assert (await said(api, "nobody/" + verb))[0] == 404
    assert api.serving.control == []


@pytest.mark.parametrize(
    ("verb", "error", "status", "retry"),
    [
        ("build", Unsupported("demo/1 is no model of TensorRT: add [build]"), 400, None),
        ("verify", Unsupported("demo/1 is not served from a TensorRT plan"), 400, None),
        ("build", EngineLoadError("no plan can be built here: no GPU"), 500, None),
        ("promote", ModelNotFound("model 'demo' has no version 7 in its folder"), 404, None),
        ("promote", InvalidRequest("no version of model 'demo' waits to be promoted: name one"), 400, None),
        ("promote", EngineLoadError("failed to promote version 2 of 'demo', it is cut off"), 500, None),
        ("promote", ControlRefused("model 'demo' is not loaded: load it first"), 503, None),
        ("rollback", InvalidRequest("model 'demo' has no earlier version to go back to"), 400, None),
    ],
)
async def test_what_cannot_be_done_is_told_in_the_words_of_serving(
    api: Api, verb: str, error: Exception, status: int, retry: Optional[str]
) -> None:
    api.serving.control_error = error
    answer = await api.post("/api/models/demo/" + verb)
    assert (answer.status, await answer.json(), answer.headers.get("Retry-After")) == (status, {"error": str(error)}, retry)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_change_goes_on_when_its_client_leaves(api: Api, verb: str) -> None:
    api.serving.control_gate = asyncio.Event()
    asking = asyncio.ensure_future(api.post("/api/models/demo/" + verb))
    await until(lambda: bool(api.server.in_flight))
    asking.cancel()
    await until(lambda: not api.server.in_flight)
    api.serving.control_gate.set()
    await until(lambda: len(api.serving.control) == 1)


async def test_a_second_check_is_refused_while_one_goes_on_and_welcome_afterwards(api: Api) -> None:
    api.serving.control_gate = asyncio.Event()
    first = asyncio.ensure_future(said(api, "demo/verify"))
    await until(lambda: bool(api.server.in_flight))
    answer = await api.post("/api/models/pair/verify")
    assert (answer.status, answer.headers.get("Retry-After")) == (503, "1")
    assert "being checked already" in (await answer.json())["error"]
    api.serving.control_gate.set()
    assert (await first)[0] == 200
    api.serving.control_error = Unsupported("no plan")
    assert (await said(api, "demo/verify"))[0] == 400
    api.serving.control_error = None
    assert (await said(api, "demo/verify"))[0] == 200


@pytest.mark.parametrize("verb", VERBS)
async def test_a_model_that_leaves_meanwhile_is_told(api: Api, verb: str) -> None:
    api.serving.control_gate = asyncio.Event()
    asking = asyncio.ensure_future(said(api, "demo/" + verb))
    await until(lambda: bool(api.server.in_flight))
    del api.serving.models["demo"]
    api.serving.control_gate.set()
    status, body = await asking
    if verb == "verify":
        assert status == 200  # what was found was found
    else:
        assert status == 404
        assert "meanwhile" in body["error"]


@pytest.mark.parametrize("verb", VERBS)
async def test_only_operators_change_versions(tmp_path: Path, verb: str) -> None:
    async with running_api(tmp_path, loopback=False) as api:
        statuses = {}
        for role in (Role.DEVICE, Role.VIEWER, Role.OPERATOR):
            token = api.tokens.add(role.value, role)
            answer = await api.post("/api/models/demo/" + verb, headers={"Authorization": "Bearer " + token})
            statuses[role] = answer.status
        assert statuses == {Role.DEVICE: 403, Role.VIEWER: 403, Role.OPERATOR: 202 if verb == "build" else 200}
        assert (await api.post("/api/models/demo/" + verb)).status == 401
        assert len(api.serving.control) == 1


async def test_a_page_of_another_site_cannot_ask_for_it(api: Api) -> None:
    for verb in VERBS:
        answer = await api.post("/api/models/demo/" + verb, headers={"Origin": "http://evil.example"})
        assert answer.status == 403
    assert api.serving.control == []


async def test_the_document_about_the_api_has_them(api: Api) -> None:
    paths = (await (await api.get("/api/openapi.json")).json())["paths"]
    for verb in VERBS:
        described = paths["/api/models/{model}/" + verb]["post"]
        assert list(described["responses"]) == ["202" if verb == "build" else "200", "default"]
        query = [one["name"] for one in described["parameters"] if one["in"] == "query"]
        assert query == ([] if verb == "rollback" else ["version"])
