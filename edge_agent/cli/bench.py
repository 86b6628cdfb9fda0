"""`edge-agent bench MODEL`: latency and throughput of a model of the running agent, closed and open loop."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import selectors
import ssl
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from edge_agent.cli import bench_model, client
from edge_agent.cli.bench_connection import Address, Answer, Connection
from edge_agent.cli.bench_load import OPEN_MAX, Load, Tally
from edge_agent.cli.terminal import Column, write_table
from edge_agent.config.http import HttpSection
from edge_agent.config.load import load_config
from edge_agent.config.secret import read_secret
from edge_agent.domain.clock import Clock

_CLIENTS = (1, 2, 4, 8)
_WARM_UP_S = 0.5
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_ANSWER_S = 30.0

Row = Dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which model, and how much load."""
    client.add_arguments(parser)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--version", default="", metavar="V", help="this version instead of the newest")
    parser.add_argument(
        "--concurrency", type=_clients, metavar="N,N", help="closed loop: clients that each wait for their answer (1,2,4,8)"
    )
    parser.add_argument(
        "--rate",
        type=_rates,
        default=(),
        metavar="R,R",
        help="open loop: Poisson arrivals, requests a second; alone: no closed loop",
    )
    parser.add_argument("--seconds", type=_positive, default=5.0, metavar="S", help="length of each measurement (%(default)g)")
    parser.add_argument(
        "--shape", type=_shape, action="append", default=[], metavar="NAME=1,3,480,640", help="an input's shape, batch included"
    )
    parser.add_argument("--data", choices=("random", "zero"), default="random", help="values of the inputs (%(default)s)")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how rows are printed (%(default)s)")


def run(args: argparse.Namespace) -> int:
    """0; 1 when a measurement had no answer at all, or the agent refused the first request; 75 when it does not run."""
    # select() waits to the microsecond where epoll rounds up to milliseconds: arrivals would all be late
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    try:
        rows = loop.run_until_complete(_rows(args))
    except OSError as error:
        raise client.NotRunning("no agent answers: %s" % error) from error
    finally:
        loop.close()
    if args.format == "json":
        print(json.dumps(rows, indent=2))
    else:
        write_table(sys.stdout, _COLUMNS, rows)
        for row in rows:
            if row["first_error"]:
                print("%s: %d errors, the first: %s" % (_load(row), row["errors"], row["first_error"]), file=sys.stderr)
    return 0 if all(row["requests"] for row in rows) else 1


async def _rows(args: argparse.Namespace) -> List[Row]:
    address, clock = _address(args), Clock()
    requests = await _requests(address, args)
    load = Load(address, requests, clock)
    await load.closed(2, min(_WARM_UP_S, args.seconds))
    rows = []
    for clients in args.concurrency or (() if args.rate else _CLIENTS):
        measured = await _measured(address, args, load.closed(clients, args.seconds))
        rows.append({"mode": "closed", "clients": clients, "rate": None, **measured})
    for rate in args.rate:
        measured = await _measured(address, args, load.poisson(rate, args.seconds))
        rows.append({"mode": "open", "clients": None, "rate": rate, **measured})
    return rows


async def _requests(address: Address, args: argparse.Namespace) -> List[bytes]:
    """The requests; the first is tried, so that what is wrong with all is said once."""
    described = _json(await _asked(address, "GET", bench_model.metadata_path(args.model, args.version)))
    config = _json(await _asked(address, "GET", bench_model.config_path(args.model, args.version)))
    inputs = bench_model.inputs_of(described, config["max_batch_size"] > 0, dict(args.shape))
    path = bench_model.infer_path(args.model, args.version)
    made = bench_model.requests(address, path, inputs, args.data)
    answer = await _answer(address, made[0])
    if answer.status != 200:
        _json(answer)
    return made


async def _measured(address: Address, args: argparse.Namespace, load: Any) -> Row:
    before = await _account(address, args)
    tally: Tally = await load
    after = await _account(address, args)
    seen = after.since(before) if before is not None and after is not None else bench_model.Account({}, {})
    return {**tally.as_json(), **seen.as_json()}


async def _account(address: Address, args: argparse.Namespace) -> Optional[bench_model.Account]:
    """None where the token may not read metrics."""
    answer = await _asked(address, "GET", "/metrics")
    return bench_model.account(answer.body.decode(), args.model, args.version) if answer.status == 200 else None


async def _asked(address: Address, method: str, path: str) -> Answer:
    return await _answer(address, address.request(method, path))


async def _answer(address: Address, request: bytes) -> Answer:
    connection = await Connection.open(address)
    try:
        return await asyncio.wait_for(connection.ask(request), _ANSWER_S)
    except asyncio.TimeoutError:
        raise client.Refused("the agent did not answer within %g s" % _ANSWER_S) from None
    finally:
        connection.close()


def _json(answer: Answer) -> Any:
    try:
        parsed = json.loads(answer.body)
    except ValueError:
        raise client.Refused("what answers is no agent (status %d)" % answer.status) from None
    if answer.status != 200:
        raise client.Refused(str(parsed.get("error") or "status %d" % answer.status))
    return parsed


def _address(args: argparse.Namespace) -> Address:
    headers = {} if args.token_file is None else {"Authorization": "Bearer " + read_secret(args.token_file)}
    if args.url:
        parts = urlsplit(args.url)
        secure = parts.scheme == "https"
        context = ssl.create_default_context() if secure else None
        return Address(parts.hostname or "127.0.0.1", parts.port or (443 if secure else 80), context, headers)
    http = load_config(args.config, os.environ).http
    if not http.port:
        raise client.Refused("http.port is 0, so only the agent knows its port: give --url")
    return Address(_WILDCARDS.get(http.host, http.host), http.port, _context(http), headers)


def _context(http: HttpSection) -> Optional[ssl.SSLContext]:
    """Trusts the agent's own certificate, whatever name is in it: it was named by the same configuration."""
    if http.tls_cert_file is None:
        return None
    context = ssl.create_default_context(cafile=str(http.tls_cert_file))
    context.check_hostname = False
    return context


# -- the table ------------------------------------------------------------------------------------------------------


def _load(row: Row) -> str:
    return "%d clients" % row["clients"] if row["mode"] == "closed" else "%g/s offered" % row["rate"]


def _ms(name: str) -> Callable[[Row], str]:
    return lambda row: "%.2f" % row[name]


def _stage(*names: str) -> Callable[[Row], str]:
    return lambda row: "-" if row["stages_ms"] is None else "%.2f" % sum(row["stages_ms"][name] for name in names)


def _rest(row: Row) -> str:
    """What the model's queue and its host did not take: HTTP, the way to the host and back, this client."""
    return "-" if row["stages_ms"] is None else "%.2f" % max(0.0, row["mean_ms"] - sum(row["stages_ms"].values()))


_COLUMNS = [
    Column("LOAD", _load),
    Column("REQ/S", lambda row: "%.1f" % row["per_s"], right=True),
    Column("P50 MS", _ms("p50_ms"), right=True),
    Column("P90", _ms("p90_ms"), right=True),
    Column("P95", _ms("p95_ms"), right=True),
    Column("P99", _ms("p99_ms"), right=True),
    Column("ERRORS", lambda row: str(row["errors"]), right=True),
    Column("BATCH", lambda row: "-" if row["mean_batch"] is None else "%.2f" % row["mean_batch"], right=True),
    Column("CACHED", lambda row: "-" if row["stages_ms"] is None else str(row["cached"]), right=True),
    Column("QUEUE MS", _stage("queue"), right=True),
    Column("COMPUTE MS", _stage("compute_input", "compute_infer", "compute_output"), right=True),
    Column("REST MS", _rest, right=True),
]


# -- arguments ------------------------------------------------------------------------------------------------------


def _clients(text: str) -> Tuple[int, ...]:
    counts = _numbers(text, int)
    if any(count > OPEN_MAX for count in counts):
        raise argparse.ArgumentTypeError("at most %d clients" % OPEN_MAX)
    return tuple(counts)


def _rates(text: str) -> Tuple[float, ...]:
    return tuple(_numbers(text, float))


def _positive(text: str) -> float:
    return float(_numbers(text, float)[0])


def _numbers(text: str, kind: Callable[[str], Any]) -> List[Any]:
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number < 1e9 for number in numbers):
        raise argparse.ArgumentTypeError("%r: numbers above 0 are wanted, several with commas" % text)
    return numbers


def _shape(text: str) -> Tuple[str, Sequence[int]]:
    name, _, dims = text.rpartition("=")
    if not name or not all(dim.isascii() and dim.isdigit() for dim in dims.split(",")):
        raise argparse.ArgumentTypeError("%r is not of the form NAME=1,3,480,640" % text)
    return name, tuple(int(dim) for dim in dims.split(","))
