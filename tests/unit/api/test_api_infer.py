"""Inference over HTTP: both forms, malformed bodies, clients that leave."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import struct
import time
import zlib
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import pytest
import tritonclient.http as triton

from edge_agent.api import bodies
from edge_agent.api.infer import HEADER
from edge_agent.api.pace import STEP_S
from edge_agent.errors import ExecutionError, QueueFull
from tests.doubles.serving import FakeServing
from tests.unit.api.conftest import Api, running_api, until

GOOD = {"id": "7", "inputs": [{"name": "X", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}


def _binary(*parts: Tuple[str, str, List[int], bytes], **extra: Any) -> Tuple[bytes, Dict[str, str]]:
    inputs = [
        {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(data)}}
        for name, datatype, shape, data in parts
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}, **extra}).encode()
    return head + b"".join(data for _, _, _, data in parts), {HEADER: str(len(head))}


def _floats(*values: float) -> bytes:
    return np.array(values, "<f4").tobytes()


async def test_json_request_gets_a_json_answer_with_its_id(api: Api) -> None:
    answer = await api.post("/v2/models/demo/infer", json=GOOD)
    assert answer.status == 200
    assert answer.content_type == "application/json"
    assert HEADER not in answer.headers
    assert await answer.json() == {
        "id": "7", "model_name": "demo", "model_version": "1",
        "outputs": [{"name": "Y", "datatype": "FP32", "shape": [1, 2], "data": [2.0, 4.0]}],
    }  # fmt: skip
    assert api.serving.slots == 0
    assert api.serving.requests[0].source == "http/loopback"


async def test_binary_request_lies_aligned_in_its_slot_and_comes_back_binary(api: Api) -> None:
    body, headers = _binary(("X", "FP32", [1, 2], _floats(1, 2)))
    answer = await api.post("/v2/models/demo/versions/1/infer", data=body, headers=headers)
    assert answer.status == 200
    assert answer.content_type == "application/octet-stream"
    raw = await answer.read()
    size = int(answer.headers[HEADER])
    assert json.loads(raw[:size])["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert raw[size:] == _floats(2, 4)
    assert api.serving.requests[0].inputs[0].start % 64 == 0
    assert api.serving.slots == 0


async def test_body_of_many_packets_reaches_its_slot_whole(api: Api) -> None:
    payload = bytes(range(256)) * 20_000
    body, headers = _binary(("X", "UINT8", [len(payload)], payload))
    answer = await api.post("/v2/models/large/infer", data=io.BytesIO(body), headers=headers)
    raw = await answer.read()
    assert raw[int(answer.headers[HEADER]) :] == payload


async def _slowly(body: bytes, pieces: int, pause_s: float) -> Any:
    step = len(body) // pieces + 1
    for at in range(0, len(body), step):
        yield body[at : at + step]
        await asyncio.sleep(pause_s)


@pytest.mark.parametrize("announced", [True, False])
async def test_several_inputs_in_pieces_land_where_they_belong(api: Api, announced: bool) -> None:
    strings = b"".join(struct.pack("<I", len(text)) + text for text in (b"ab", b""))
    body, headers = _binary(("B", "BYTES", [1, 2], strings), ("A", "FP32", [1, 2], _floats(1, 2)))
    if announced:
        headers["Content-Length"] = str(len(body))
    answer = await api.post("/v2/models/pair/infer", data=_slowly(body, 40, 0.001), headers=headers)
    raw = await answer.read()
    assert answer.status == 200, raw
    assert raw[int(answer.headers[HEADER]) :] == _floats(2, 4) + strings


async def test_raw_body_is_the_only_input(api: Api) -> None:
    answer = await api.post("/v2/models/demo/infer", data=_floats(3, 4), headers={HEADER: "0"})
    raw = await answer.read()
    assert raw[int(answer.headers[HEADER]) :] == _floats(6, 8)
    text = await api.post("/v2/models/text/infer", data=b"hello", headers={HEADER: "0"})
    raw = await text.read()
    assert raw[int(text.headers[HEADER]) :] == b"\5\0\0\0hello"


async def test_body_that_pauses_gives_its_slot_back_and_is_served_when_whole(api: Api) -> None:
    body, headers = _binary(("X", "UINT8", [300], bytes(range(200)) + bytes(100)))
    headers["Content-Length"] = str(len(body))

    async def with_a_pause() -> Any:
        yield body[:-100]
        await until(lambda: api.serving.slots > 0)
        paused = time.monotonic()
        await until(lambda: api.serving.slots == 0)
        assert time.monotonic() - paused > STEP_S / 2
        yield body[-100:]

    answer = await api.post("/v2/models/large/infer", data=with_a_pause(), headers=headers)
    raw = await answer.read()
    assert answer.status == 200, raw
    assert raw[int(answer.headers[HEADER]) :] == body[-300:]
    assert api.serving.reserved == 2


async def test_full_arena_is_answered_503_within_two_seconds_and_the_body_is_not_read(tmp_path: Path) -> None:
    serving = FakeServing(arena_bytes=1_048_576)
    async with running_api(tmp_path, serving) as api:
        held = serving.arena.try_acquire([(serving.segment, 900_000)])
        assert held is not None
        body, headers = _binary(("X", "UINT8", [400_000], bytes(400_000)))
        started = time.monotonic()
        answer = await api.post("/v2/models/large/infer", data=body, headers=headers)
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert time.monotonic() - started < 2.0
        held[0].release()
        assert (await api.post("/v2/models/large/infer", data=body, headers=headers)).status == 200


def _json(**changes: Any) -> bytes:
    entry = {"name": "X", "shape": [1, 2], "datatype": "FP32", "data": [1, 2], **changes}
    return json.dumps({"inputs": [entry]}).encode()


WHOLE, WHOLE_HEADERS = _binary(("X", "FP32", [1, 2], _floats(1, 2)))
BAD: Dict[str, Tuple[bytes, Dict[str, str], str]] = {
    "shape a string": (_json(shape="-1"), {}, "inputs[0].shape"),
    "shape empty": (_json(shape=[], data=[1]), {}, "shape for input 'X'"),
    "nested 100k deep": (b'{"inputs":' + b"[" * 100_000, {}, "nested deeper"),
    "empty": (b"", {}, "empty"),
    "invalid utf-8": (b"\xff\xfe", {}, "UTF-8"),
    "header a word": (b"{}", {HEADER: "abc"}, HEADER),
    "header negative": (b"{}", {HEADER: "-1"}, HEADER),
    "header beyond the body": (b"{}", {HEADER: "100"}, "range (0, 2)"),
    "raw of the wrong size": (b"123", {HEADER: "0"}, "takes exactly 8 bytes"),
    "overflow": (_json(shape=[2147483647, 2147483647, 4]), {}, "too large"),
    "one byte short": (WHOLE[:-1], WHOLE_HEADERS, "expecting 1 additional"),
    "one byte long": (WHOLE + b"x", WHOLE_HEADERS, "additional input data"),
    "no gzip": (b"{}", {"Content-Encoding": "gzip"}, "no gzip data"),
    "gzip cut short": (gzip.compress(_json())[:-9], {"Content-Encoding": "gzip"}, "ends within its gzip"),
    "junk behind deflate": (zlib.compress(b"{}") + b"junk", {"Content-Encoding": "deflate"}, "behind its deflate"),
}


@pytest.mark.parametrize("case", sorted(BAD))
async def test_malformed_body_is_400_at_once_and_the_next_good_request_is_served(api: Api, case: str) -> None:
    body, headers, text = BAD[case]
    started = time.monotonic()
    answer = await api.post("/v2/models/demo/infer", data=body, headers=headers)
    said = await answer.json()
    assert answer.status == 400
    assert text in said["error"]
    assert "Traceback" not in said["error"]
    assert time.monotonic() - started < 1.0
    assert api.store.records[-1].status.startswith("request.")
    assert (await api.post("/v2/models/demo/infer", json=GOOD)).status == 200
    assert api.serving.slots == 0


@pytest.mark.parametrize("announced", [True, False])
async def test_strings_that_are_badly_framed_never_reach_the_model(api: Api, announced: bool) -> None:
    body, headers = _binary(("X", "BYTES", [1, 1], b"\xff\xff\xff\xff"), id="s")
    answer = await api.post("/v2/models/text/infer", data=body if announced else _slowly(body, 3, 0), headers=headers)
    assert answer.status == 400
    assert (await answer.json())["error"].startswith("[request id: s] incomplete string data")
    assert api.serving.requests == []
    assert api.serving.slots == 0


@pytest.mark.parametrize("delta", [-1, 1])
async def test_unannounced_body_of_the_wrong_length_is_refused(api: Api, delta: int) -> None:
    body, headers = _binary(("X", "FP32", [1, 2], _floats(1, 2)))
    wrong = body[:-1] if delta < 0 else body + b"x"
    answer = await api.post("/v2/models/demo/infer", data=_slowly(wrong, 2, 0), headers=headers)
    assert answer.status == 400
    assert "additional" in (await answer.json())["error"]
    assert api.serving.slots == 0


async def test_huge_announced_body_is_refused_from_its_head_alone(tmp_path: Path) -> None:
    async with running_api(tmp_path, max_body_bytes=1_000_000) as api:
        for path, status in (("/v2/models/demo/infer", b"400"), ("/api/models/demo/detect", b"413")):
            reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
            writer.write(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000000\r\n\r\n" % path.encode())
            answer = await asyncio.wait_for(reader.read(4096), 2)
            writer.close()
            assert status in answer.split(b"\r\n")[0]
            assert b"http.max_body_bytes" in answer


async def test_endless_body_is_cut_at_the_limit(tmp_path: Path) -> None:
    async with running_api(tmp_path, max_body_bytes=300_000) as api:

        async def endless() -> Any:
            while True:
                yield b" " * 65_536

        status: Optional[int] = None
        try:
            answer = await api.post("/v2/models/demo/infer", data=endless())
            status = answer.status
        except (ConnectionError, OSError):
            status = 400  # the server closed while we were still sending: as good as the answer
        assert status == 400
        assert (await api.post("/v2/models/demo/infer", json=GOOD)).status == 200


async def test_flood_of_tiny_chunks_is_refused(api: Api) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(b"POST /v2/models/demo/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(b"1\r\n \r\n" * 20_000)
    answer = await asyncio.wait_for(reader.read(4096), 20)
    writer.close()
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"too many tiny chunks" in answer


async def test_compressed_bomb_is_refused_by_its_inflated_size(tmp_path: Path) -> None:
    async with running_api(tmp_path, max_body_bytes=1_000_000) as api:
        bomb = gzip.compress(b" " * 50_000_000)
        answer = await api.post("/v2/models/demo/infer", data=bomb, headers={"Content-Encoding": "gzip"})
        assert answer.status == 400
        assert "inflated from gzip" in (await answer.json())["error"]
        assert api.server.status()["unexpected_errors"] == 0


async def test_unknown_coding_is_501_and_names_those_known(api: Api) -> None:
    answer = await api.post("/v2/models/demo/infer", data=b"x", headers={"Content-Encoding": "br"})
    assert answer.status == 501
    assert answer.headers["Accept-Encoding"] == "gzip, deflate"
    assert "error" in await answer.json()


@pytest.mark.parametrize("given", ["", "gzip", "deflate"])
@pytest.mark.parametrize("wanted", ["", "gzip", "deflate"])
async def test_every_coding_of_request_and_answer_works_with_tritons_client(api: Api, given: str, wanted: str) -> None:
    values = np.arange(200, dtype=np.float32).reshape(1, 200)

    def ask() -> Any:
        client = triton.InferenceServerClient("127.0.0.1:%d" % api.server.port)
        tensor = triton.InferInput("X", values.shape, "FP32")
        tensor.set_data_from_numpy(values)
        try:
            return client.infer(
                "empty", [tensor], request_compression_algorithm=given or None, response_compression_algorithm=wanted or None
            ).as_numpy("Y")
        finally:
            client.close()

    answer = await asyncio.get_running_loop().run_in_executor(None, ask)
    assert (answer == values * 2).all()


def _triton_session(port: int) -> Dict[str, Any]:
    client = triton.InferenceServerClient("localhost:%d" % port)
    try:
        said: Dict[str, Any] = {
            "live": client.is_server_live(),
            "ready": client.is_server_ready(),
            "model_ready": client.is_model_ready("demo"),
            "sleeping_ready": client.is_model_ready("sleeping"),
            "server": client.get_server_metadata(),
            "model": client.get_model_metadata("demo"),
            "config": client.get_model_config("demo", "1"),
        }
        for name, datatype, array in (
            ("demo", "FP32", np.array([[1, 2]], np.float32)),
            ("half", "FP16", np.array([[0.5, -2]], np.float16)),
            ("flags", "BOOL", np.array([[True, False, True]])),
            ("text", "BYTES", np.array([["é".encode()]], dtype=np.object_)),
            ("empty", "FP32", np.zeros((1, 0), np.float32)),
        ):
            for binary in (True, False):
                if datatype == "FP16" and not binary:
                    continue
                tensor = triton.InferInput("X", array.shape, datatype)
                tensor.set_data_from_numpy(array, binary_data=binary)
                wanted = triton.InferRequestedOutput("Y", binary_data=binary)
                said["%s %s" % (name, binary)] = client.infer(name, [tensor], outputs=[wanted], request_id="r").as_numpy("Y")
        wanted = triton.InferRequestedOutput("Y", binary_data=True, class_count=2)
        tensor = triton.InferInput("X", (1, 3), "FP32")
        tensor.set_data_from_numpy(np.array([[1, 5, 3]], np.float32))
        said["classes"] = client.infer("classes", [tensor], outputs=[wanted]).as_numpy("Y").tolist()
        try:
            client.infer("nobody", [tensor])
        except triton.InferenceServerException as exc:
            said["error"] = (exc.status(), exc.message())
        return said
    finally:
        client.close()


async def test_tritons_own_client_works_unchanged(api: Api) -> None:
    said = await asyncio.get_running_loop().run_in_executor(None, _triton_session, api.server.port)
    assert (said["live"], said["ready"], said["model_ready"], said["sleeping_ready"]) == (True, True, True, False)
    assert said["server"]["version"] == "9.9"
    assert said["model"]["inputs"] == [{"name": "X", "datatype": "FP32", "shape": [-1, 2]}]
    assert said["config"]["max_batch_size"] == 4
    for binary in ("True", "False"):
        assert said["demo " + binary].tolist() == [[2, 4]]
        assert said["flags " + binary].tolist() == [[True, False, True]]
        assert said["empty " + binary].shape == (1, 0)
    assert said["half True"].tolist() == [[0.5, -2]]
    assert said["text True"].tolist() == [["é".encode()]]
    assert said["classes"] == [[b"10.000000:1:dog", b"6.000000:2"]]
    assert said["error"][0] == "404"
    assert "unknown model: 'nobody'" in said["error"][1]


async def test_client_that_leaves_cancels_its_request_and_no_other(api: Api) -> None:
    model = api.serving.models["demo"]
    model.gate = asyncio.Event()
    leaving = asyncio.ensure_future(api.post("/v2/models/demo/infer", json=GOOD))
    staying = asyncio.ensure_future(api.post("/v2/models/demo/infer", json={**GOOD, "id": "stays"}))
    await until(lambda: model.running == 2)
    leaving.cancel()
    await until(lambda: model.cancelled == 1)
    model.gate.set()
    answer = await staying
    assert (await answer.json())["id"] == "stays"
    await until(lambda: api.serving.slots == 0)
    assert model.served == 1


async def test_client_that_leaves_within_its_body_gives_the_slot_back(api: Api) -> None:
    body, headers = _binary(("X", "UINT8", [100_000], bytes(100_000)))
    _, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    head = "POST /v2/models/large/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s: %s\r\n\r\n"
    writer.write((head % (len(body), HEADER, headers[HEADER])).encode() + body[:50_000])
    await until(lambda: api.serving.slots > 0)
    writer.close()
    await until(lambda: api.serving.slots == 0)
    assert api.serving.requests == []


async def test_errors_of_the_model_carry_the_request_id_and_their_status(api: Api) -> None:
    model = api.serving.models["demo"]
    model.error = QueueFull("Exceeds maximum queue size")
    answer = await api.post("/v2/models/demo/infer", json=GOOD)
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"
    assert (await answer.json())["error"] == "[request id: 7] Exceeds maximum queue size"
    model.error = ExecutionError("the model failed: shape")
    answer = await api.post("/v2/models/demo/infer", json={**GOOD, "id": ""})
    assert answer.status == 500
    assert (await answer.json())["error"].startswith("[request id: <id_unknown>] the model failed")
    assert api.serving.slots == 0


async def test_unknown_and_unready_models_are_told_apart(api: Api) -> None:
    assert (await api.post("/v2/models/nobody/infer", json=GOOD)).status == 404
    assert (await api.post("/v2/models/demo/versions/9/infer", json=GOOD)).status == 404
    assert (await api.post("/v2/models/sleeping/infer", json=GOOD)).status == 503
    assert (await api.get("/v2/models/nobody/ready")).status == 404
    assert (await api.get("/v2/models/sleeping/ready")).status == 400
    assert (await api.get("/v2/models/sleeping")).status == 503


async def test_answers_go_to_their_own_callers_on_shared_connections(api: Api) -> None:
    async def ask(number: int) -> bool:
        body, headers = _binary(("X", "FP32", [1, 2], _floats(number, -number)), id=str(number))
        if number % 3 == 0:
            document = {**json.loads(_json(data=[number, -number])), "id": str(number)}
            answer = await api.post("/v2/models/demo/infer", json=document)
            said = await answer.json()
            return bool(said["id"] == str(number) and said["outputs"][0]["data"] == [2.0 * number, -2.0 * number])
        answer = await api.post("/v2/models/demo/infer", data=body, headers=headers)
        raw = await answer.read()
        size = int(answer.headers[HEADER])
        return bool(json.loads(raw[:size])["id"] == str(number) and raw[size:] == _floats(2 * number, -2 * number))

    assert all(await asyncio.gather(*(ask(number) for number in range(300))))
    assert api.serving.slots == 0


def _head(path: str, *headers: str) -> bytes:
    return "\r\n".join(["POST %s HTTP/1.1" % path, "Host: localhost", *headers, "", ""]).encode()


@pytest.mark.parametrize("path", ["/v2/models/demo/infer", "/api/models/demo/detect"])
async def test_body_that_stays_silent_is_408_and_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(bodies, "SILENCE_LIMIT_S", 0.1)
    async with running_api(tmp_path) as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
        writer.write(_head(path, "Content-Length: 100", "Content-Type: image/jpeg") + b"{")
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert b" 408 " in answer.split(b"\r\n")[0]
        assert b"paused for 0.1 s" in answer


async def test_bodies_that_wait_in_memory_have_a_common_bound(tmp_path: Path) -> None:
    async with running_api(tmp_path, max_body_bytes=100_000) as api:
        streams = [await asyncio.open_connection("127.0.0.1", api.server.port) for _ in range(3)]
        for _, writer in streams:
            writer.write(_head("/v2/models/demo/infer", "Content-Length: 90000") + b" " * 80_000)
        answers = [asyncio.ensure_future(reader.readuntil(b"}")) for reader, _ in streams]
        done, waiting = await asyncio.wait(answers, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        assert b" 503 " in done.pop().result().split(b"\r\n")[0]
        for _, writer in streams:
            writer.close()
        await asyncio.wait(waiting, timeout=5)
        for answer in waiting:
            assert isinstance(answer.exception(), asyncio.IncompleteReadError)
        assert (await api.post("/v2/models/demo/infer", json=GOOD)).status == 200
        assert _used(api) == 0


def _used(api: Api) -> int:
    """Bytes of request bodies in private memory."""
    return int(api.server.status()["bodies"]["used_bytes"])


async def test_one_error_for_many_callers_names_each_ones_request(api: Api) -> None:
    model = api.serving.models["demo"]
    model.error = QueueFull("Exceeds maximum queue size", model="demo")
    model.gate = asyncio.Event()
    asked = [asyncio.ensure_future(api.post("/v2/models/demo/infer", json={**GOOD, "id": name})) for name in "ab"]
    await until(lambda: model.running == 2)
    model.gate.set()
    said = [(await (await answer).json())["error"] for answer in asked]
    assert said == ["[request id: %s] Exceeds maximum queue size" % name for name in "ab"]
    assert str(model.error) == "Exceeds maximum queue size"
    assert model.error.args_by_name == {"model": "demo"}


async def _stalled(api: Api, sent: int, announced: int = 90_000) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An upload of a binary tensor that stops after `sent` bytes of it."""
    body, headers = _binary(("X", "UINT8", [announced], bytes(announced)))
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    lines = ["Content-Length: %d" % len(body), "%s: %s" % (HEADER, headers[HEADER])]
    writer.write(_head("/v2/models/large/infer", *lines) + body[: int(headers[HEADER]) + sent])
    return reader, writer


async def test_stalled_uploads_hold_what_has_come_of_them_and_lock_nobody_out(tmp_path: Path) -> None:
    async with running_api(tmp_path, max_body_bytes=100_000) as api:
        stalled = [await _stalled(api, 10) for _ in range(20)]
        await until(lambda: api.serving.reserved == 20)
        await until(lambda: api.serving.slots == 0)
        assert 20 * 10 <= _used(api) < 10_000
        body, headers = _binary(("X", "UINT8", [90_000], bytes(90_000)))
        assert (await api.post("/v2/models/large/infer", data=body, headers=headers)).status == 200
        assert (await api.post("/v2/models/large/infer", data=_slowly(body, 3, 0.6), headers=headers)).status == 200
        for _, writer in stalled:
            writer.close()
        await until(lambda: _used(api) == 0)
        assert api.server.status()["bodies"]["refused"] == 0


async def test_bodies_that_do_not_keep_coming_make_room_for_one_that_does(tmp_path: Path) -> None:
    async with running_api(tmp_path, max_body_bytes=100_000) as api:
        stalled = [await _stalled(api, 89_000) for _ in range(2)]
        await until(lambda: _used(api) > 178_000)
        whole = b" " * 50_000 + json.dumps(GOOD).encode()
        assert (await api.post("/v2/models/demo/infer", data=whole)).status == 200
        answer = await asyncio.wait_for(stalled[0][0].readuntil(b"}"), 5)
        assert b" 503 " in answer.split(b"\r\n")[0]
        assert b"came too slowly while memory for bodies was short" in answer
        status = api.server.status()["bodies"]
        assert (status["evicted"], status["refused"]) == (1, 0)
        assert 89_000 <= _used(api) < 100_000
        for _, writer in stalled:
            writer.close()
        await until(lambda: _used(api) == 0)


@pytest.mark.parametrize("kind", ["json", "binary"])
async def test_body_that_trickles_is_408_after_a_while_and_holds_no_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(bodies, "TIME_LIMIT_S", 2.5)
    async with running_api(tmp_path) as api:
        if kind == "json":
            reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
            writer.write(_head("/v2/models/demo/infer", "Content-Length: 1000") + b"{")
        else:
            reader, writer = await _stalled(api, 10)
        began = time.monotonic()
        answer = asyncio.ensure_future(reader.readuntil(b"}"))
        while not answer.done():
            assert time.monotonic() - began < 6
            if time.monotonic() - began > 1.5:
                assert api.serving.slots == 0
            writer.write(b" ")
            await asyncio.wait({answer}, timeout=0.2)
        assert b" 408 " in answer.result().split(b"\r\n")[0]
        assert b"came too slowly" in answer.result()
        assert _used(api) == 0
        writer.close()


async def test_body_of_a_slow_but_steady_client_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "TIME_LIMIT_S", 0.2)
    monkeypatch.setattr(bodies, "PACE_BYTES", 20_000)
    async with running_api(tmp_path) as api:
        body, headers = _binary(("X", "UINT8", [60_000], bytes(60_000)))
        headers["Content-Length"] = str(len(body))
        answer = await api.post("/v2/models/large/infer", data=_slowly(body, 20, 0.1), headers=headers)
        assert answer.status == 200
        assert _used(api) == 0
