from __future__ import annotations

import asyncio
import contextlib
import itertools

import pytest

from edge_agent.cli.bench_connection import Address, Answer, Connection, ConnectionLost
from edge_agent.cli.bench_load import Load, Tally
from edge_agent.cli.bench_model import CannotAsk, account, inputs_of
from edge_agent.domain.clock import Clock

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Server(asyncio.Protocol):
    """Answers requests without body with what `answers(number)` gives; None closes the connection."""

    def __init__(self, answers, count):
        self._answers = answers
        self._count = count

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        for _ in range(data.count(b"\r\n\r\n")):
            answer = self._answers(next(self._count))
            if answer is None:
                self._transport.close()
                return
            pieces = answer if isinstance(answer, list) else [answer]
            loop = asyncio.get_running_loop()
            for number, piece in enumerate(pieces):
                loop.call_later(number * 0.01, self._transport.write, piece)


@contextlib.asynccontextmanager
async def _served(answers):
    count = itertools.count()
    server = await asyncio.get_running_loop().create_server(lambda: _Server(answers, count), "127.0.0.1", 0)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    await asyncio.sleep(0.02)  # connections that were aborted say so to their protocols


async def test_an_answer_in_pieces_is_put_together():
    async with _served(lambda n: [OK[:5], OK[5:20], OK[20:-1], OK[-1:]]) as address:
        connection = await Connection.open(address)
        for _ in range(3):
            assert await connection.ask(address.request("GET", "/")) == Answer(200, b"ok")
        connection.close()


@pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", None])
async def test_what_is_no_answer_ends_the_connection(answer):
    async with _served(lambda n: answer) as address:
        connection = await Connection.open(address)
        with pytest.raises(ConnectionLost):
            await connection.ask(address.request("GET", "/"))
        connection.close()


async def test_lost_connections_are_errors_and_the_load_goes_on():
    async with _served(lambda n: None if n == 3 else OK) as address:
        tally = await Load(address, [address.request("GET", "/")], Clock()).closed(2, 0.3)
    assert tally.errors == 1
    assert len(tally.latencies) > 10
    assert "closed" in tally.first_error


async def test_statuses_other_than_200_are_errors_with_their_text():
    refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfull"
    async with _served(lambda n: refusal) as address:
        tally = await Load(address, [address.request("GET", "/")], Clock()).poisson(200, 0.2)
    assert tally.latencies == []
    assert tally.errors > 10
    assert tally.first_error == "status 503: full"


def test_percentiles_are_ranks():
    tally = Tally()
    tally.latencies = [n / 1000 for n in range(100, 0, -1)]
    tally.seconds = 2.0
    row = tally.as_json()
    assert (row["p50_ms"], row["p99_ms"], row["per_s"], row["mean_ms"]) == (51.0, 100.0, 50.0, 50.5)


METADATA = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}, {"name": "y", "datatype": "INT64", "shape": [-1, -1]}]
}


def test_the_batch_is_one_row_and_other_shapes_are_asked_for():
    with pytest.raises(CannotAsk, match="input 'y'"):
        inputs_of(METADATA, True, {})
    assert [item.shape for item in inputs_of(METADATA, True, {"y": (1, 7)})] == [(1, 3), (1, 7)]
    with pytest.raises(CannotAsk, match="input 'x'"):
        inputs_of(METADATA, False, {"y": (1, 7)})
    with pytest.raises(CannotAsk, match="inputs are x, y"):
        inputs_of(METADATA, True, {"y": (1, 7), "z": (1,)})


METRICS = """\
# TYPE nv_inference_count counter
nv_inference_count{model="m",version="1"} %d
nv_inference_count{model="m",version="2"} 2
nv_inference_count{model="other",version="1"} 99
nv_inference_exec_count{model="m",version="1"} %d
nv_inference_request_success{model="m",version="1"} 4
nv_inference_queue_duration_us{model="m",version="1"} 8000
# TYPE edge_agent_batch_reason_total counter
edge_agent_batch_reason_total{model="m",version="1",reason="full"} %d
"""


def test_the_servers_account_is_a_difference_of_the_models_counters():
    spent = account(METRICS % (30, 10, 5), "m", "1").since(account(METRICS % (10, 5, 5), "m", "1"))
    assert spent.as_json()["mean_batch"] == 4.0
    assert spent.as_json()["batch_reasons"] == {}
    whole = account(METRICS % (30, 10, 5), "m", "").as_json()
    assert whole["mean_batch"] == 3.2
    assert whole["stages_ms"]["queue"] == 2.0
