"""KServe v2 over HTTP, asked with Triton's own client; and what that client never sends, as bytes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import shutil
import socket
import time
import zlib
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Tuple

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from tests.agent_process import AgentProcess, until
from tests.conformance.cases import CASES, FOUR, PLUS_ONE, Infer, floats
from tests.conformance.repository import MODELS, add

LENGTH = "Inference-Header-Content-Length"
STATISTICS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")


@pytest.fixture(name="client")
def client_fixture(agent: AgentProcess) -> Iterator[triton.InferenceServerClient]:
    made = triton.InferenceServerClient(agent.base.partition("//")[2])
    yield made
    made.close()


@pytest.fixture(name="infer_aio")
def infer_aio_fixture(agent: AgentProcess) -> Infer:
    """The client for asyncio, one call at a time."""

    def infer(*arguments: Any, **options: Any) -> triton.InferResult:
        async def ask() -> triton.InferResult:
            async with triton_aio.InferenceServerClient(agent.base.partition("//")[2]) as client:
                return await client.infer(*arguments, **options)

        # not asyncio.run: that would orphan the loop that other tests have set
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(ask())
        finally:
            loop.close()

    return infer


@pytest.mark.parametrize("name", list(CASES))
def test_case(name: str, client: triton.InferenceServerClient) -> None:
    CASES[name](client.infer)


@pytest.mark.parametrize("name", list(CASES))
def test_case_with_the_client_for_asyncio(name: str, infer_aio: Infer) -> None:
    CASES[name](infer_aio)


def failed(status: int, *words: str) -> Any:
    """The client raises for this status, with these words in the text."""

    class _Expected:
        def __enter__(self) -> None:
            self._raises = pytest.raises(InferenceServerException)
            self._caught = self._raises.__enter__()

        def __exit__(self, *exc: Any) -> bool:
            swallowed = bool(self._raises.__exit__(*exc))
            if swallowed:
                assert self._caught.value.status() == str(status), self._caught.value
                assert all(word in self._caught.value.message() for word in words), self._caught.value
            return swallowed

    return _Expected()


# -- versions, health, metadata -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1", "3"])
def test_a_version_that_is_named_answers(client: triton.InferenceServerClient, version: str) -> None:
    answer = client.infer("add_one", [floats(FOUR)], model_version=version)
    assert answer.get_response()["model_version"] == version


def test_a_version_that_is_not_there_is_not_found(client: triton.InferenceServerClient) -> None:
    with failed(404, "add_one", "version 2", "not found"):
        client.infer("add_one", [floats(FOUR)], model_version="2")
    with failed(404, "add_one"):
        client.get_model_metadata("add_one", "2")


def test_a_version_is_digits_only(agent: AgentProcess) -> None:
    assert agent.get("/v2/models/add_one/versions/one")[0] == 404


def test_health_of_server_and_models(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("add_one")
    assert client.is_model_ready("add_one", "1")
    assert not client.is_model_ready("broken")
    assert not client.is_model_ready("nobody")


@pytest.mark.parametrize(("path", "status"), [("/v2/models/broken/ready", 400), ("/v2/models/nobody/ready", 404)])
def test_a_model_that_is_known_and_not_ready_differs_from_an_unknown_one(agent: AgentProcess, path: str, status: int) -> None:
    assert agent.get(path)[0] == status


def test_server_metadata_lists_what_works(client: triton.InferenceServerClient) -> None:
    said = client.get_server_metadata()
    assert said["name"] == "edge-agent"
    assert {"statistics", "model_repository", "binary_tensor_data", "classification"} <= set(said["extensions"])
    assert not {"sequence", "trace", "logging", "system_shared_memory", "cuda_shared_memory"} & set(said["extensions"])


def test_model_metadata_has_the_batch_dimension_and_every_version(client: triton.InferenceServerClient) -> None:
    assert client.get_model_metadata("add_one") == {
        "name": "add_one",
        "versions": ["1", "3"],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
    }


def test_model_config_is_complete_and_has_no_scheduler_that_is_off(client: triton.InferenceServerClient) -> None:
    said = client.get_model_config("colours")
    assert (said["name"], said["platform"], said["max_batch_size"]) == ("colours", "onnxruntime_onnx", 8)
    assert said["input"][0]["data_type"] == "TYPE_FP32"
    assert said["output"][0]["label_filename"] == "colours.txt"
    assert said["model_transaction_policy"] == {"decoupled": False}
    assert not {"sequence_batching", "ensemble_scheduling"} & set(said)
    assert client.get_model_config("add_one", "1")["input"][0]["dims"] == [4]  # completed from the file


def test_names_are_percent_decoded(agent: AgentProcess) -> None:
    assert agent.json("/v2/models/dotted%2Ename%2D1")["name"] == "dotted.name-1"
    assert agent.get("/v2/models/dotted.name-1%2Fready")[0] == 404


# -- statistics, metrics --------------------------------------------------------------------------------------------


def test_statistics_count_as_tritons_do(client: triton.InferenceServerClient) -> None:
    def counts() -> Tuple[Dict[str, Any], Dict[str, Any]]:
        (entry,) = client.get_inference_statistics("pair")["model_stats"]
        return entry, entry["inference_stats"]

    before, before_stats = counts()
    inputs = [floats([5, 7], [1, 2], [3, 4], name="a"), floats([3, 4], [1, 2], [3, 4], name="b")]
    client.infer("pair", inputs)
    with failed(400):
        client.infer("pair", inputs[:1])
    after, after_stats = counts()
    assert set(after_stats) == set(STATISTICS)
    assert (after["name"], after["version"]) == ("pair", "1")
    assert after["inference_count"] - before["inference_count"] == 3
    assert after["execution_count"] - before["execution_count"] == 1
    assert after["last_inference"] > 1_600_000_000_000
    for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert after_stats[name]["count"] - before_stats[name]["count"] == 1
        assert after_stats[name]["ns"] >= before_stats[name]["ns"]
    assert 3 in {entry["batch_size"] for entry in after["batch_stats"]}
    assert {"response_stats", "memory_usage"} <= set(after)


def test_statistics_of_all_models_and_of_one_version(client: triton.InferenceServerClient) -> None:
    everything = client.get_inference_statistics()["model_stats"]
    assert {("add_one", "1"), ("add_one", "3"), ("pair", "1")} <= {(one["name"], one["version"]) for one in everything}
    (one,) = client.get_inference_statistics("add_one", "3")["model_stats"]
    assert one["version"] == "3"


def test_statistics_of_an_unknown_model_are_400_not_404(client: triton.InferenceServerClient) -> None:
    with failed(400, "nobody"):
        client.get_inference_statistics("nobody")
    with failed(400, "add_one"):
        client.get_inference_statistics("add_one", "2")


def test_metrics_have_tritons_names_and_labels(agent: AgentProcess, client: triton.InferenceServerClient) -> None:
    client.infer("fixed", [floats(FOUR)])
    text = agent.get("/metrics")[1].decode()
    for name in (
        "nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count", "nv_inference_request_duration_us",
        "nv_inference_queue_duration_us", "nv_inference_compute_input_duration_us", "nv_inference_compute_infer_duration_us",
        "nv_inference_compute_output_duration_us", "nv_inference_pending_request_count", "nv_model_load_duration_secs",
        "nv_cache_num_hits_per_model", "nv_cache_num_misses_per_model", "nv_cache_hit_duration_per_model",
        "nv_cache_miss_duration_per_model",
    ):  # fmt: skip
        assert '\n%s{model="fixed",version="1"} ' % name in text, name
    assert 'nv_inference_request_failure{model="fixed",reason="REJECTED",version="1"} 0.0' in text
    assert 'edge_agent_batch_reason_total{model="fixed",reason="' in text
    assert 'edge_agent_batch_size_bucket{le="1.0",model="fixed",version="1"}' in text
    assert "\nnv_cpu_utilization " in text


# -- repository -----------------------------------------------------------------------------------------------------


def indexed(client: triton.InferenceServerClient, name: str) -> Dict[str, str]:
    return next(entry for entry in client.get_model_repository_index() if entry["name"] == name)


def test_the_index_says_what_is_ready_and_why_the_rest_is_not(client: triton.InferenceServerClient) -> None:
    assert indexed(client, "pair") == {"name": "pair", "version": "1", "state": "READY"}
    broken = indexed(client, "broken")
    assert broken["state"] == "UNAVAILABLE"
    assert "model.onnx" in broken["reason"]


def test_a_model_is_unloaded_and_loaded_again(client: triton.InferenceServerClient) -> None:
    client.unload_model("spare")
    try:
        assert not client.is_model_ready("spare")
        assert indexed(client, "spare") == {"name": "spare", "state": "UNAVAILABLE", "reason": "unloaded"}
        with failed(404, "has no available versions"):
            client.infer("spare", [floats(FOUR)])
    finally:
        client.load_model("spare")
    assert client.infer("spare", [floats(FOUR)]).as_numpy("y").tolist() == [PLUS_ONE]


def test_an_unload_of_an_unknown_model_succeeds(client: triton.InferenceServerClient) -> None:
    client.unload_model("nobody")


def test_a_load_may_bring_a_configuration(client: triton.InferenceServerClient) -> None:
    client.load_model("spare", config=json.dumps({"max_batch_size": 2}))
    try:
        assert client.get_model_config("spare")["max_batch_size"] == 2
        with failed(400, "batch-size must be <= 2"):
            client.infer("spare", [floats(FOUR, FOUR, FOUR)])
    finally:
        client.load_model("spare")
    assert client.get_model_config("spare")["max_batch_size"] == 8


def test_a_load_with_a_wrong_configuration_keeps_what_serves(client: triton.InferenceServerClient) -> None:
    with failed(500, "failed to load 'spare'"):
        client.load_model("spare", config=json.dumps({"max_batch_size": "many"}))
    assert client.infer("spare", [floats(FOUR)]).as_numpy("y").tolist() == [PLUS_ONE]


def test_a_load_may_bring_the_model_file(client: triton.InferenceServerClient) -> None:
    config = json.dumps({"backend": "onnxruntime", "max_batch_size": 8})
    client.load_model("sent", config=config, files={"file:1/model.onnx": (MODELS / "add_one.onnx").read_bytes()})
    assert client.infer("sent", [floats(FOUR)]).as_numpy("y").tolist() == [PLUS_ONE]
    client.unload_model("sent")
    assert not client.is_model_ready("sent")


def test_a_load_of_an_unknown_model_fails_and_says_so(client: triton.InferenceServerClient) -> None:
    with failed(500, "failed to load 'nobody'"):
        client.load_model("nobody")


def test_every_load_of_a_broken_model_fails_with_the_same_reason_and_the_first_good_file_loads(
    client: triton.InferenceServerClient, models: Path
) -> None:
    """B005, triton-inference-server/server#3802: a second load of what failed must not answer 200."""
    folder = add(models, "repaired", "add_one")
    file = folder / "1" / "model.onnx"
    good = file.read_bytes()
    file.write_bytes(good[:60])
    reasons = set()
    for _ in range(3):
        with pytest.raises(InferenceServerException) as caught:
            client.load_model("repaired")
        assert caught.value.status() == "500"
        assert caught.value.message().startswith("failed to load 'repaired', ")
        reasons.add(caught.value.message())
    assert len(reasons) == 1
    assert indexed(client, "repaired")["state"] == "UNAVAILABLE"
    assert not client.is_model_ready("repaired")
    with failed(503, "not at ready state"):
        client.infer("repaired", [floats(FOUR)])
    file.write_bytes(good)
    client.load_model("repaired")
    assert client.infer("repaired", [floats(FOUR)]).as_numpy("y").tolist() == [PLUS_ONE]
    shutil.rmtree(folder)
    client.unload_model("repaired")


def test_load_is_refused_where_models_are_not_loaded_by_request(models: Path, tmp_path: Path) -> None:
    repository = tmp_path / "models"
    add(repository, "add_one", "add_one")
    with AgentProcess(tmp_path, repository, 'control_mode = "none"\n') as agent:
        client = triton.InferenceServerClient(agent.base.partition("//")[2])
        for ask in (client.load_model, client.unload_model):
            with failed(503, "not allowed"):
                ask("add_one")
        assert agent.ask("/v2/repository/models/add_one/load", b"")[2].get("Retry-After") is None
        assert client.is_model_ready("add_one")
        assert agent.cli("models", "unload", "add_one").returncode == 0
        assert not client.is_model_ready("add_one")
        assert agent.cli("models", "load", "add_one").returncode == 0
        assert client.is_model_ready("add_one")
        client.close()


# -- what is off ----------------------------------------------------------------------------------------------------


def test_shared_memory_is_off_and_clients_that_tidy_up_first_are_not_bothered(client: triton.InferenceServerClient) -> None:
    assert client.get_system_shared_memory_status() == []
    assert client.get_cuda_shared_memory_status() == []
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    client.unregister_system_shared_memory("mine")
    with failed(501, "disabled"):
        client.register_system_shared_memory("mine", "/mine", 64)
    shared = triton.InferInput("x", [1, 4], "FP32")
    shared.set_shared_memory("mine", 16)
    with failed(501, "shared memory is disabled"):
        client.infer("add_one", [shared])


def test_tracing_and_dynamic_logging_are_off(client: triton.InferenceServerClient) -> None:
    for ask in (client.get_trace_settings, client.update_trace_settings, client.get_log_settings):
        with failed(503, "the server does not support"):
            ask()
    with failed(503, "the server does not support dynamic logging"):
        client.update_log_settings({"log_info": True})


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/v2/nothing", None, 404, "Not Found"),
        ("/v2/models/add_one/generate", b"{}", 404, "Not Found"),
        ("/v2/models/add_one/", None, 404, "Not Found"),
        ("/v2/models/add_one/infer", None, 405, "Method Not Allowed"),
        ("/v2/repository/index", None, 405, "Method Not Allowed"),
        ("/v2/repository/main/models/add_one/load", b"", 501, "'repository_name' specification is not supported"),
    ],
)
def test_what_the_router_does_not_know_is_json_too(
    agent: AgentProcess, path: str, body: Optional[bytes], status: int, text: str
) -> None:
    code, answer, headers = agent.ask(path, body)
    assert (code, json.loads(answer), headers["Content-Type"]) == (status, {"error": text}, "application/json")


# -- bytes ----------------------------------------------------------------------------------------------------------

HEAD = {
    "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}],
    "parameters": {"binary_data_output": True},
}
JSON_BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": FOUR}]}).encode()
BYTES = np.array(FOUR, "<f4").tobytes()
INFER = "/v2/models/add_one/infer"


@pytest.mark.parametrize("request_coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_coding", [None, "gzip", "deflate"])
def test_every_pair_of_codings_works(
    client: triton.InferenceServerClient, request_coding: Optional[str], response_coding: Optional[str]
) -> None:
    rows = np.arange(3000, dtype=np.float32).reshape(1, 3000)
    answer = client.infer(
        "same_fp32",
        [floats(rows[0])],
        request_compression_algorithm=request_coding,
        response_compression_algorithm=response_coding,
    )
    assert answer.as_numpy("y").tobytes() == rows.tobytes()


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip;q=0.1, deflate;q=0.9", "deflate"), ("br", None), ("identity, gzip;q=0", None), ("*", "gzip")],
)
def test_the_answers_coding_is_what_the_client_likes_best(agent: AgentProcess, accepted: str, coding: Optional[str]) -> None:
    rows = {"inputs": [{"name": "x", "shape": [1, 600], "datatype": "FP32", "data": [1.0] * 600}]}
    _, body, headers = agent.ask("/v2/models/same_fp32/infer", json.dumps(rows).encode(), {"Accept-Encoding": accepted})
    assert headers.get("Content-Encoding") == coding
    plain = {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(str(coding), bytes)(body)
    assert json.loads(plain)["outputs"][0]["data"] == [1.0] * 600


def test_an_unknown_coding_is_refused_with_those_there_are(agent: AgentProcess) -> None:
    status, body, headers = agent.ask(INFER, JSON_BODY, {"Content-Encoding": "br"})
    assert (status, headers["Accept-Encoding"]) == (501, "gzip, deflate")
    assert "error" in json.loads(body)


def test_an_answer_without_binary_outputs_is_plain_json_without_a_header_length(agent: AgentProcess) -> None:
    status, body, headers = agent.ask(INFER, JSON_BODY, {LENGTH: str(len(JSON_BODY))})  # perf_analyzer sends it always
    assert (status, headers["Content-Type"], headers.get(LENGTH)) == (200, "application/json", None)
    assert set(json.loads(body)) == {"model_name", "model_version", "outputs"}  # no id was given, none comes back


def test_an_empty_id_is_none(agent: AgentProcess) -> None:
    body = json.loads(agent.ask(INFER, json.dumps({"id": "", **json.loads(JSON_BODY)}).encode())[1])
    assert "id" not in body


def test_an_answer_with_binary_outputs_says_how_long_its_json_is(agent: AgentProcess) -> None:
    head = json.dumps(HEAD).encode()
    status, body, headers = agent.ask(INFER, head + BYTES, {LENGTH: str(len(head))})
    assert (status, headers["Content-Type"]) == (200, "application/octet-stream")
    size = int(headers[LENGTH])
    assert json.loads(body[:size])["outputs"][0]["parameters"] == {"binary_data_size": 16}
    assert np.frombuffer(body[size:], "<f4").tolist() == PLUS_ONE


def test_a_header_length_of_nothing_makes_the_body_one_raw_tensor(agent: AgentProcess) -> None:
    status, body, headers = agent.ask(INFER, BYTES, {LENGTH: "0", "Content-Type": "application/octet-stream"})
    assert status == 200
    assert np.frombuffer(body[int(headers[LENGTH]) :], "<f4").tolist() == PLUS_ONE
    status, body, headers = agent.ask("/v2/models/same_text/infer", b"raw", {LENGTH: "0"})
    assert body[int(headers[LENGTH]) :] == b"\3\0\0\0raw"
    status, body, _ = agent.ask("/v2/models/pair/infer", BYTES, {LENGTH: "0"})
    assert (status, "1 input" in json.loads(body)["error"]) == (400, True)


@pytest.mark.parametrize("length", ["-1", "abc", "9999999", "", "1e3", "4294967297", "9" * 30])
def test_a_header_length_that_cannot_be_is_refused_and_named(agent: AgentProcess, length: str) -> None:
    """B003, triton-inference-server/server#5649: sizes beyond 32 bits came out negative."""
    head = json.dumps(HEAD).encode()
    status, body, _ = agent.ask(INFER, head + BYTES, {LENGTH: length})
    assert status == 400
    text = json.loads(body)["error"]
    assert "Inference-Header-Content-Length" in text or "header size" in text


@pytest.mark.parametrize(
    ("size", "sent", "words"),
    [
        (15, BYTES, ["15", "16", "'x'"]),
        (17, BYTES + b"\0", ["17", "16", "'x'"]),
        (16, BYTES[:-1], ["expecting 1 additional bytes"]),
        (16, BYTES + b"junk", ["unexpected additional input data", "4 bytes"]),
    ],
)
def test_binary_data_that_is_short_or_long_is_refused_with_the_difference(
    agent: AgentProcess, size: int, sent: bytes, words: Any
) -> None:
    """B003, triton-inference-server/server#4244: never a tensor that is filled in part, never a wait for more."""
    head = dict(HEAD, inputs=[{**HEAD["inputs"][0], "parameters": {"binary_data_size": size}}])  # type: ignore[index,dict-item]
    text = json.dumps(head).encode()
    status, body, _ = agent.ask(INFER, text + sent, {LENGTH: str(len(text))})
    assert status == 400
    assert all(word in json.loads(body)["error"] for word in words), body


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xffabc", b"\3\0\0\0ab", b"\1\0\0\0a\1\0", b"\1\0\0\0a", b"\1\0\0\0a" * 3, b"abc"]
)
def test_text_with_wrong_lengths_is_refused(agent: AgentProcess, data: bytes) -> None:
    """B003, triton-inference-server/server#2148: elements whose lengths lead out of the tensor."""
    tensor = {"name": "x", "shape": [1, 2], "datatype": "BYTES", "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [tensor]}).encode()
    status, body, _ = agent.ask("/v2/models/same_text/infer", head + data, {LENGTH: str(len(head))})
    assert (status, "'x'" in json.loads(body)["error"]) == (400, True)


def test_a_binary_request_without_the_header_is_told_what_it_needs(agent: AgentProcess) -> None:
    """B003, triton-inference-server/client#784."""
    status, body, _ = agent.ask(INFER, json.dumps(HEAD).encode() + BYTES)
    assert (status, LENGTH in json.loads(body)["error"]) == (400, True)


def _input(**changes: Any) -> bytes:
    entry = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": FOUR}
    return json.dumps({"inputs": [{key: value for key, value in {**entry, **changes}.items() if value is not None}]}).encode()


MALFORMED = {
    "shape is text": _input(shape="-1"), "shape is negative": _input(shape=[-1]), "shape is a fraction": _input(shape=[1.5]),
    "shape is a bool": _input(shape=[True]), "shape is empty": _input(shape=[]), "shape is missing": _input(shape=None),
    "inputs is an object": b'{"inputs": {}}', "inputs is empty": b'{"inputs": []}', "an input is null": b'{"inputs": [null]}',
    "inputs is missing": b"{}",
    "datatype is Triton's": _input(datatype="STRING"), "data is an object": _input(data=[{"b64": ""}]),
    "data is ragged": _input(data=[[1, 2, 3], [4]]), "data is long": _input(data=FOUR * 2), "data is short": _input(data=[1]),
    "data is text": _input(data=["a"] * 4), "data is missing": _input(data=None), "nesting without end": b"[" * 100_000,
    "nesting within data": b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":' + b"[" * 100_000 + b"]}]}",
    "no UTF-8": b'{"inputs": "\xff"}', "a byte order mark": b"\xef\xbb\xbf{}", "nothing": b"", "only space": b"  ",
    "parameters is a number": b'{"parameters": 5, "inputs": []}', "id is a number": b'{"id": 7, "inputs": []}',
    "a list": b"[]", "a number too large": _input(data=[1e40] * 4), "NaN": b'{"inputs": [NaN]}',
    "text behind": JSON_BODY + b"x",
    "shape overflows": _input(shape=[2147483647, 2147483647, 4]), "shape overflows 64 bits": _input(shape=[2**63, 2**63]),
}  # fmt: skip


@pytest.mark.parametrize("what", list(MALFORMED))
def test_malformed_json_is_refused_quickly_and_the_agent_lives_on(agent: AgentProcess, what: str) -> None:
    """B001, triton-inference-server/server#1649: a shape that was text ended the server. B002: overflowing shapes."""
    pid = agent.process.pid
    began = time.monotonic()
    status, body, _ = agent.ask(INFER, MALFORMED[what])
    took = time.monotonic() - began
    assert status == 400, body
    assert set(json.loads(body)) == {"error"}
    assert b"Traceback" not in body
    assert took < 2.0  # 0.1 s on a machine that does nothing else
    assert agent.ask(INFER, JSON_BODY)[0] == 200
    assert agent.process.poll() is None
    assert agent.process.pid == pid


def _all(connection: socket.socket) -> bytes:
    """What comes until the agent closes the connection."""
    came = b""
    while True:
        try:
            more = connection.recv(65536)
        except ConnectionResetError:
            return came
        if not more:
            return came
        came += more


def test_a_body_that_is_announced_over_the_limit_is_refused_from_its_head_alone(agent: AgentProcess) -> None:
    """B002, triton-inference-server/server PR#8432: 400 as Triton answers, and the limit by its name."""
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000000\r\n\r\n" % INFER.encode()
    with socket.create_connection(("127.0.0.1", agent.port), timeout=20) as connection:
        connection.sendall(head)
        answer = _all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"http.max_body_bytes" in answer


def test_a_body_that_inflates_beyond_the_limit_is_refused(agent: AgentProcess) -> None:
    """B002, aio-libs/aiohttp#4474: 100 KB that become 100 MB."""
    bomb = gzip.compress(b" " * 100_000_000, 9)
    status, body, _ = agent.ask(INFER, bomb, {"Content-Encoding": "gzip"})
    assert (status, "limit" in json.loads(body)["error"]) == (400, True)
    assert agent.get("/v2/health/live")[0] == 200


def test_a_flood_of_tiny_chunks_is_cut_off(agent: AgentProcess) -> None:
    """B002, triton-inference-server/server PR#8676."""
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % INFER.encode()
    with socket.create_connection(("127.0.0.1", agent.port), timeout=20) as connection:
        try:
            connection.sendall(head)
            for _ in range(40):
                connection.sendall(b"1\r\n \r\n" * 5000)
        except OSError:
            pass  # it was cut off while we were still sending
        answer = _all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"tiny chunks" in answer


def test_the_header_length_may_not_point_into_a_character(agent: AgentProcess) -> None:
    """B003: the JSON part ends within an é."""
    text = json.dumps({"id": "é", **HEAD}, ensure_ascii=False).encode()
    status, body, _ = agent.ask(INFER, text + BYTES, {LENGTH: str(text.index("é".encode()) + 1)})
    assert (status, list(json.loads(body))) == (400, ["error"])


# -- health under load ----------------------------------------------------------------------------------------------


def test_live_and_ready_stay_while_a_model_loads_and_only_that_model_is_not_ready(
    client: triton.InferenceServerClient, agent: AgentProcess, models: Path
) -> None:
    """B006, triton-inference-server/server#7014: a long load must not make a supervisor kill the server."""
    folder = models / "late" / "1"
    folder.mkdir(parents=True)
    (models / "late" / "config.pbtxt").write_text((models / "slow" / "config.pbtxt").read_text())
    text = (models / "slow" / "1" / "model.py").read_text()
    (folder / "model.py").write_text(text + "\n    def load(self, config):\n        time.sleep(2)\n")
    with socket.create_connection(("127.0.0.1", agent.port), timeout=30) as loading:
        loading.sendall(b"POST /v2/repository/models/late/load HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        until(lambda: any(one["name"] == "late" for one in client.get_model_repository_index()), 5, "the load's beginning")
        looks = 0
        while not client.is_model_ready("late"):
            assert client.is_server_live()
            assert client.is_server_ready()
            assert client.is_model_ready("add_one")
            assert indexed(client, "late").get("state") in ("LOADING", "READY", None)
            looks += 1
            time.sleep(0.05)
        assert looks > 5
        assert loading.recv(65536).startswith(b"HTTP/1.1 200 ")
    shutil.rmtree(models / "late")
    client.unload_model("late")


def test_work_of_a_client_that_left_is_not_done(agent: AgentProcess, client: triton.InferenceServerClient) -> None:
    """B008, aio-libs/aiohttp#7135: a closed connection takes its request out of the queue."""

    def done() -> int:
        return int(client.get_inference_statistics("slow")["model_stats"][0]["execution_count"])

    before = done()
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}).encode()
    head = b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    connections = [socket.create_connection(("127.0.0.1", agent.port), timeout=10) for _ in range(10)]
    for connection in connections:
        connection.sendall(head + body)
    until(lambda: _waiting(agent, "slow") >= 8, 5, "the queue")
    for connection in connections:
        connection.close()
    until(lambda: _waiting(agent, "slow") == 0, 5, "the empty queue")
    answer = client.infer("slow", [floats([2.0])])
    assert answer.as_numpy("y").tolist() == [[2.0]]
    assert done() - before <= 4  # those that ran when their clients left, and the last one


def _waiting(agent: AgentProcess, model: str) -> float:
    mark = 'nv_inference_pending_request_count{model="%s",version="1"} ' % model
    return next(float(line[len(mark) :]) for line in agent.get("/metrics")[1].decode().splitlines() if line.startswith(mark))


def test_a_file_in_a_load_request_cannot_leave_the_models_folder(agent: AgentProcess, tmp_path: Path) -> None:
    content = base64.b64encode(b"x").decode()
    for name, file in (("sent", "file:1/../../../x"), ("..%2F..%2Fsent", "file:1/x"), ("sent", "file:/tmp/x")):
        body = json.dumps({"parameters": {"config": "{}", file: content}}).encode()
        assert agent.ask("/v2/repository/models/%s/load" % name, body)[0] in (400, 404)
