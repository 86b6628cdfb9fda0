"""The agent's own API: status, cameras, detect, lists, the page, the document about it all."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any, Dict, List

import aiohttp
import pytest

from edge_agent.api.agent import codes_json
from edge_agent.api.bodies import BodyMemory
from edge_agent.api.detect import PICTURES
from edge_agent.api.lists import KINDS
from edge_agent.api.openapi import openapi_path
from edge_agent.api.pages import load_pages
from edge_agent.api.routes import build_routes
from edge_agent.api.v2 import KserveHandlers
from edge_agent.domain.codes import CODES
from edge_agent.errors import InvalidRequest, StoreError, StoreFull
from tests.unit.api.conftest import Api, running_api

JPEG = {"Content-Type": "image/jpeg"}


async def test_status_and_cameras_are_what_the_agent_says(api: Api) -> None:
    assert await (await api.get("/api/status")).json() == {"agent": {"id": "abc"}}
    assert [camera["name"] for camera in await (await api.get("/api/cameras")).json()] == ["clip", "dark"]


async def test_snapshot_is_a_picture_with_or_without_boxes(api: Api) -> None:
    answer = await api.get("/api/cameras/clip/snapshot.jpg?boxes=1")
    assert (answer.content_type, await answer.read()) == ("image/jpeg", b"\xff\xd8jpeg")
    await api.get("/api/cameras/clip/snapshot.jpg")
    assert api.cameras["clip"].boxes == [True, False]
    assert (await api.get("/api/cameras/clip/snapshot.jpg?boxes=yes")).status == 400
    assert (await api.get("/api/cameras/dark/snapshot.jpg")).status == 503
    assert (await api.get("/api/cameras/none/snapshot.jpg")).status == 404


@pytest.mark.parametrize("kind", PICTURES)
async def test_picture_goes_to_the_detector_byte_by_byte(api: Api, kind: str) -> None:
    answer = await api.post(
        "/api/models/demo/detect", data=b"\xff\xd8picture", headers={"Content-Type": kind, "X-Request-Id": "q1"}
    )
    assert await answer.json() == {"id": "q1", "model": "demo", "objects": []}
    assert api.detector.asked == [
        {
            "model": "demo",
            "image": b"\xff\xd8picture",
            "request_id": "q1",
            "source": "http/loopback",
            "keep": False,
            "min_score": 0.0,
        }
    ]


async def test_named_source_keeps_the_result(api: Api) -> None:
    await api.post("/api/models/demo/detect?source=gate&min_score=0.5", data=b"x", headers=JPEG)
    asked = api.detector.asked[0]
    assert (asked["keep"], asked["source"], asked["min_score"]) == (True, "http/gate", 0.5)


async def test_form_with_a_file_is_taken(api: Api) -> None:
    form = aiohttp.FormData()
    form.add_field("note", "not the picture")
    picture = b"\xff\xd8\r\n--fake\r\n" + bytes(range(256))
    form.add_field("file", picture, filename="a.jpg", content_type="image/jpeg")
    assert (await api.post("/api/models/demo/detect", data=form)).status == 200
    assert api.detector.asked[0]["image"] == picture


async def test_compressed_picture_is_inflated(api: Api) -> None:
    headers = {**JPEG, "Content-Encoding": "deflate"}
    assert (await api.post("/api/models/demo/detect", data=zlib.compress(b"picture"), headers=headers)).status == 200
    assert api.detector.asked[0]["image"] == b"picture"


BAD_DETECT: Dict[str, Any] = {
    "empty": ("", b"", JPEG, 400, "empty"),
    "form encoded": ("", b"x", {"Content-Type": "application/x-www-form-urlencoded"}, 400, "is no picture"),
    "text": ("", b"x", {"Content-Type": "text/plain"}, 400, "'text/plain' is no picture"),
    "no boundary": ("", b"x", {"Content-Type": "multipart/form-data"}, 400, "boundary"),
    "wrong boundary": ("", b"x", {"Content-Type": "multipart/form-data; boundary=b"}, 400, "not in the body"),
    "cut form": ("", b"--b\r\nA: b\r\n\r\nxx", {"Content-Type": "multipart/form-data; boundary=b"}, 400, "within a part"),
    "source": ("?source=a/b", b"x", JPEG, 400, "source must be"),
    "source empty": ("?source=", b"x", JPEG, 400, "source must be"),
    "min_score": ("?min_score=nan", b"x", JPEG, 400, "min_score must be"),
}


@pytest.mark.parametrize("case", sorted(BAD_DETECT))
async def test_bad_detect_request_is_refused_with_what_is_wrong(api: Api, case: str) -> None:
    query, body, headers, status, text = BAD_DETECT[case]
    answer = await api.post("/api/models/demo/detect" + query, data=body, headers=headers)
    assert answer.status == status
    assert text in (await answer.json())["error"]
    assert api.detector.asked == []


async def test_unknown_model_is_404_before_the_upload(api: Api) -> None:
    assert (await api.post("/api/models/nobody/detect", data=b"x", headers=JPEG)).status == 404


@pytest.mark.parametrize(
    ("error", "status"),
    [(InvalidRequest("not a picture"), 400), (StoreFull("disk full"), 507), (StoreError("broken"), 507)],
)
async def test_errors_of_detect_have_their_status(api: Api, error: Any, status: int) -> None:
    api.detector.error = error
    answer = await api.post("/api/models/demo/detect?source=a", data=b"x", headers=JPEG)
    assert answer.status == status
    assert (await answer.json())["error"] == str(error)


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_lists_are_paged_newest_first(api: Api, kind: str) -> None:
    first = await (await api.get("/api/%s?limit=2" % kind)).json()
    assert [row["seq"] for row in first[kind]] == [3, 2]
    second = await (await api.get("/api/%s?limit=2&cursor=%s" % (kind, first["next"]))).json()
    assert [row["seq"] for row in second[kind]] == [1]
    assert second["next"] is None


async def test_json_columns_of_results_are_json(api: Api) -> None:
    rows = (await (await api.get("/api/results?since=2026-01-01T00:00:00Z&source=camera/clip")).json())["results"]
    assert rows[0]["objects"] == [{"label": "face"}]


BAD_LISTS = [
    "limit=0",
    "limit=1001",
    "limit=x",
    "limit=-1",
    "since=yesterday",
    "until=1",
    "cursor=x",
    "color=red",
    "source=%00",
]


@pytest.mark.parametrize("query", BAD_LISTS)
async def test_bad_value_of_a_list_is_400_and_named(api: Api, query: str) -> None:
    answer = await api.get("/api/results?" + query)
    assert answer.status == 400
    assert query.split("=", maxsplit=1)[0] in (await answer.json())["error"]


async def test_codes_are_given_in_both_languages_and_cached_by_their_tag(api: Api) -> None:
    answer = await api.get("/api/codes.json")
    table = await answer.json()
    assert await answer.read() == codes_json()
    assert set(table) == set(CODES)
    assert set(table["camera.unreachable"]["reason"]) == {"en", "zh"}
    again = await api.get("/api/codes.json", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status == 304


async def test_page_and_its_files_are_served_when_they_are_there(api: Api) -> None:
    pages = load_pages()
    for name, page in pages.items():
        answer = await api.get("/" + name)
        assert (answer.status, await answer.read()) == (200, page.body)
        assert answer.headers["Cache-Control"] == "no-cache"
    index = await api.get("/")
    assert index.status == (200 if "index.html" in pages else 404)


def test_pages_are_read_with_their_types(tmp_path: Path) -> None:
    for name in ("index.html", "app.js", "style.css", "icon.svg"):
        (tmp_path / name).write_text(name)
    pages = load_pages(tmp_path)
    assert [page.content_type.split(";")[0] for _, page in sorted(pages.items())] == [
        "text/javascript", "image/svg+xml", "text/html", "text/css",
    ]  # fmt: skip
    assert load_pages(tmp_path / "none") == {}


def _of_router(api: Api) -> List[str]:
    app: Any = api.server._runner.app  # type: ignore[union-attr]
    found = set()
    for route in app.router.routes():
        info = route.resource.get_info()
        path = info.get("path") or info["formatter"]
        if path.startswith(("/v2", "/api", "/metrics")) and route.method != "HEAD":
            found.add("%s %s" % (route.method, openapi_path(path)))
    return sorted(found)


async def test_openapi_document_describes_exactly_the_routes_that_exist(api: Api) -> None:
    document = await (await api.get("/api/openapi.json")).json()
    described = sorted("%s %s" % (method.upper(), path) for path, methods in document["paths"].items() for method in methods)
    assert described == _of_router(api)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            in_path = [entry["name"] for entry in operation["parameters"] if entry["in"] == "path"]
            assert in_path == re.findall(r"\{(\w+)\}", path)
    assert document["paths"]["/v2/health/live"]["get"]["security"] == []
    assert document["paths"]["/api/status"]["get"]["security"]
    json.dumps(document)


async def test_open_routes_of_the_document_need_no_token_and_the_others_do(tmp_path: Path) -> None:
    async with running_api(tmp_path, loopback=False) as api:
        document = await (await api.get("/api/openapi.json")).json()
        for path, methods in document["paths"].items():
            filled = path.replace("{model}", "demo").replace("{version}", "1").replace("{camera}", "clip")
            filled = filled.replace("{repository}", "main").replace("{region}", "in")
            for method, operation in methods.items():
                answer = await api.client.request(method, api.url(filled))
                assert (answer.status == 401) == bool(operation["security"]), path


async def test_every_route_declares_what_it_needs(api: Api) -> None:
    routes = build_routes(api.server._services, BodyMemory(1))
    open_paths = {route.path for route in routes if route.permission is None and route.is_api}
    assert open_paths == {"/v2/health/live", "/v2/health/ready", "/api/codes.json", "/api/openapi.json"}
    handlers = [
        route.handler.__self__ for route in routes if isinstance(getattr(route.handler, "__self__", None), KserveHandlers)
    ]
    assert len(handlers) == 12
    assert all(route.method in ("GET", "POST") for route in routes)
