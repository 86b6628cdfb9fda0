#!/usr/bin/env python3
"""Mixed load for a quarter of an hour: throughput must not fall, and nothing may be left over.

    python scripts/soak.py [--minutes 15]

Four workers of four requests at a time: 10 % clients that leave, 10 % requests that expire in the queue, 5 % wrong shapes,
1 % that make the model raise, random gaps. The time has 15 periods; the last sixth of each is clean load, whose rate is
recorded. The model sleeps, so that the rate says something about the agent's books and nothing about who else uses the
machine. At the end the rate must be at least 95 % of what it was at first, and everything that is counted up and down must
be back where it was. Exit 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Counter, Dict, Iterator, List

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from edge_agent.cli.bench_connection import Address, Answer, Connection  # noqa: E402

PERIODS = 15
CLEAN_SHARE = 1 / 6
WORKERS, AT_A_TIME = 4, 4
WANTED = 0.95
#: the first and the last so many periods stand for the beginning and the end
COMPARED = 3
RAISES = 13.0
ROWS_MAX = 3
GAP_S = 0.004

MODEL = """\
import time

class Model:
    def load(self, config):
        pass

    def infer(self, inputs):
        time.sleep(0.008)
        x = inputs["x"]
        if (x == 13.0).any():
            raise ValueError("thirteen")
        return {"y": x + 1.0}
"""
MODEL_CONFIG = """\
platform = "python"
max_batch_size = 8
input = [{ name = "x", data_type = "TYPE_FP32", dims = [4] }]
output = [{ name = "y", data_type = "TYPE_FP32", dims = [4] }]
[dynamic_batching]
max_queue_delay_microseconds = 500
[dynamic_batching.default_queue_policy]
default_timeout_microseconds = 1000000
allow_timeout_override = true
"""
CONFIG = """\
[agent]
id = "soak"
state_dir = "state"
[http]
port = %d
[metrics]
port = 0
[models]
repository = "models"
"""


class Book:
    """What was sent, and what came back."""

    def __init__(self) -> None:
        self.sent: Counter[str] = collections.Counter()
        self.answered: Counter[str] = collections.Counter()
        self.wrong: List[str] = []

    def note(self, kind: str, outcome: str) -> None:
        self.answered["%s: %s" % (kind, outcome)] += 1

    def complain(self, text: str) -> None:
        if len(self.wrong) < 20:
            self.wrong.append(text)


class Worker:
    """One connection after the other, one request at a time."""

    def __init__(self, address: Address, book: Book, seed: int) -> None:
        self._address = address
        self._book = book
        self._random = random.Random(seed)
        self._connection: Any = None
        self.done = 0

    async def mixed(self, until: float) -> None:
        while time.monotonic() < until:
            drawn = self._random.random()
            kind = "leave" if drawn < 0.10 else "expire" if drawn < 0.20 else "shape" if drawn < 0.25 else "plain"
            if kind == "plain" and self._random.random() < 0.01 / 0.75:
                kind = "raise"
            self._book.sent[kind] += 1
            await self._one(kind)
            await asyncio.sleep(self._random.expovariate(1 / GAP_S))

    async def clean(self, until: float) -> None:
        while time.monotonic() < until:
            self._book.sent["clean"] += 1
            self.done += await self._one("clean")

    async def _one(self, kind: str) -> int:
        """Rows that were answered."""
        rows = self._random.randint(1, ROWS_MAX)
        value = RAISES if kind == "raise" else float(self._random.randint(100, 1 << 20))
        request = self._request(kind, rows, value)
        try:
            if self._connection is None or self._connection.lost:
                self._connection = await Connection.open(self._address)
            if kind == "leave":
                await self._leave(request)
                return 0
            answer = await asyncio.wait_for(self._connection.ask(request), 20)
        except (OSError, asyncio.TimeoutError) as error:
            self._book.note(kind, "no answer")
            self._book.complain("%s: no answer: %r" % (kind, error))
            self.close()
            return 0
        return rows if self._judged(kind, rows, value, answer) else 0

    def _request(self, kind: str, rows: int, value: float) -> bytes:
        width = 5 if kind == "shape" else 4
        data = struct.pack("<f", value) * (rows * width)
        document: Dict[str, Any] = {
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [rows, width], "parameters": {"binary_data_size": len(data)}}
            ],
            "parameters": {"binary_data_output": True},
        }
        if kind == "expire":
            document["parameters"]["timeout"] = self._random.randint(1, 4000)
        head = json.dumps(document).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        return self._address.request("POST", "/v2/models/soak/infer", headers, head + data)

    async def _leave(self, request: bytes) -> None:
        asked = asyncio.ensure_future(self._connection.ask(request))
        await asyncio.wait([asked], timeout=self._random.uniform(0, 0.012))
        self.close()
        outcome = (await asyncio.gather(asked, return_exceptions=True))[0]
        self._book.note("leave", "answered before" if isinstance(outcome, Answer) else "left")

    def _judged(self, kind: str, rows: int, value: float, answer: Answer) -> bool:
        """Whether it was answered with the right numbers; what must not be is written down."""
        allowed = {"clean": {200}, "plain": {200, 500}, "expire": {200, 500, 503, 504}, "shape": {400}, "raise": {500}}[kind]
        self._book.note(kind, str(answer.status))
        if answer.status not in allowed or (answer.status == 500 and b"thirteen" not in answer.body):
            self._book.complain("%s: status %d: %r" % (kind, answer.status, answer.body[:200]))
        if answer.status != 200:
            return False
        if answer.body[-16 * rows :] != struct.pack("<f", value + 1) * (4 * rows):
            self._book.complain("%s: another request's numbers" % kind)
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextlib.contextmanager
def running(folder: Path) -> Iterator[int]:
    """The agent with the model; its port."""
    version = folder / "models" / "soak" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(MODEL)
    (version.parent / "config.toml").write_text(MODEL_CONFIG)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "agent.toml").write_text(CONFIG % port)
    command = [sys.executable, "-m", "edge_agent", "-c", str(folder / "agent.toml"), "run"]
    with (folder / "log").open("wb") as log:
        agent = subprocess.Popen(command, cwd=str(ROOT), stdout=log, stderr=log, env=dict(os.environ))
    try:
        for _ in range(300):
            if agent.poll() is not None:
                raise SystemExit((folder / "log").read_text())
            with contextlib.suppress(OSError):
                get(port, "/v2/models/soak/ready")
                break
            time.sleep(0.1)
        yield port
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait(40)


def get(port: int, path: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open("http://127.0.0.1:%d%s" % (port, path), timeout=10) as answer:
        body: bytes = answer.read()
    return body


def gauges(port: int) -> Dict[str, float]:
    """What is counted up and down, in all parts of the agent."""
    status = json.loads(get(port, "/api/status"))
    arena, http = status["agent"]["arena"], status["http"]
    found: Dict[str, float] = {"arena." + key: arena[key] for key in ("slots", "bytes_used", "waiting", "abandoned_bytes")}
    found["http.in_flight"] = http["in_flight"]
    found["http.connections"] = sum(http["connections"].values()) - 1  # this question's own
    found["host restarts"] = sum(host["restarts"] for host in status["engine_hosts"])
    for line in get(port, "/metrics").decode().splitlines():
        if line.startswith("nv_inference_pending_request_count"):
            found["pending"] = float(line.rpartition(" ")[2])
    return found


def succeeded(port: int) -> float:
    lines = get(port, "/metrics").decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("nv_inference_request_success{"))


async def load(port: int, minutes: float, book: Book) -> List[float]:
    """Rows a second of clean load, by period."""
    workers = hired(port, book)
    period = minutes * 60 / PERIODS
    rates = []
    for number in range(PERIODS):
        mixed_until = time.monotonic() + period * (1 - CLEAN_SHARE)
        await asyncio.gather(*(worker.mixed(mixed_until) for worker in workers))
        rates.append(await rate(workers, period * CLEAN_SHARE))
        print("period %2d: %.1f rows/s clean" % (number + 1, rates[-1]), flush=True)
    for worker in workers:
        worker.close()
    return rates


async def clean(port: int, seconds: float) -> None:
    """Clean load only."""
    workers = hired(port, Book())
    await rate(workers, seconds)
    for worker in workers:
        worker.close()


def hired(port: int, book: Book) -> List[Worker]:
    return [Worker(Address("127.0.0.1", port), book, seed) for seed in range(WORKERS * AT_A_TIME)]


async def rate(workers: List[Worker], seconds: float) -> float:
    """Rows a second of clean load."""
    done = sum(worker.done for worker in workers)
    started = time.monotonic()
    await asyncio.gather(*(worker.clean(started + seconds) for worker in workers))
    return (sum(worker.done for worker in workers) - done) / (time.monotonic() - started)


def judge(
    rates: List[float], book: Book, before: Dict[str, float], after: Dict[str, float], successes: float, wanted: float = WANTED
) -> List[str]:
    """What is wrong; empty when all is well. `wanted` is the share of its first speed that the agent must keep."""
    wrong = list(book.wrong)
    first, last = statistics.median(rates[:COMPARED]), statistics.median(rates[-COMPARED:])
    if last < wanted * first:
        wrong.append("clean load fell from %.1f to %.1f rows/s" % (first, last))
    wrong += ["%s is %g, it was %g" % (key, after[key], before[key]) for key in before if after[key] != before[key]]
    answered = sum(count for key, count in book.answered.items() if key.endswith(": 200"))
    left = sum(count for key, count in book.answered.items() if key.startswith("leave:"))
    if not answered <= successes <= answered + left:
        wrong.append("the agent counts %d successes, the clients %d (and %d left)" % (successes, answered, left))
    missing = [kind for kind in ("leave: left", "shape: 400", "raise: 500") if not book.answered[kind]]
    if not any(book.answered["expire: %d" % status] for status in (503, 504)):
        missing.append("expire")
    return wrong + ["the load had no case of %s" % kind for kind in missing]


def settled(port: int, before: Dict[str, float]) -> Dict[str, float]:
    """The gauges once they are back, or after ten seconds."""
    end = time.monotonic() + 10
    while True:
        after = gauges(port)
        if after == before or time.monotonic() > end:
            return after
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--wanted", type=float, default=WANTED, help="share of the first speed to be kept (%(default)s)")
    args = parser.parse_args()
    book = Book()
    with tempfile.TemporaryDirectory(prefix="edge-agent-soak-") as folder, running(Path(folder)) as port:
        before = gauges(port)
        asyncio.run(clean(port, 2.0))  # connections, first batches
        at_first = succeeded(port)
        rates = asyncio.run(load(port, args.minutes, book))
        after = settled(port, before)
        wrong = judge(rates, book, before, after, succeeded(port) - at_first, args.wanted)
    print("sent: %s" % dict(sorted(book.sent.items())))
    print("answers: %s" % dict(sorted(book.answered.items())))
    print("gauges at idle: %s" % after)
    for text in wrong:
        print("WRONG: " + text)
    print("soak: %s" % ("failed" if wrong else "all well"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
