"""The aims of docs/performance.md that need no other server, measured.

    python benchmarks/aims.py MODELS [--seconds 5]

MODELS has mobile.onnx, as the peers' make_models.py writes it. The agent is pinned to --agent-cpus, the load to --load-cpu,
and what they are compared with runs on --agent-cpus too. Needs the agent's dependencies and onnxruntime.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import agent_folder

from edge_agent.cli import bench_model
from edge_agent.cli.bench_connection import Address, Connection
from edge_agent.cli.bench_load import Load, Tally
from edge_agent.domain.clock import Clock
from edge_agent.domain.tensors import DataType

_SLEEPER = Path(__file__).resolve().parent / "sleeper" / "model.py"
_SLEEPER_CONFIG = """\
platform = "python"
input = [{ name = "x", data_type = "TYPE_FP32", dims = [4] }]
output = [{ name = "slept", data_type = "TYPE_FP32", dims = [1] }]
"""
_SLEEPER_BATCH = 16
_MOBILE_BATCH = 4

#: ONNX Runtime in a loop, one thread: items a second with batches of 1 and of the agent's largest
_FLOOR = """
import sys, time, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
best = 0.0
for rows in (1, int(sys.argv[2])):
    x = numpy.random.RandomState(7).standard_normal((rows, 3, 224, 224)).astype(numpy.float32)
    session.run(None, {"input": x})
    done, end, start = 0, time.perf_counter() + float(sys.argv[3]), time.perf_counter()
    while time.perf_counter() < end:
        session.run(None, {"input": x})
        done += rows
    best = max(best, done / (time.perf_counter() - start))
print(best)
"""


def _pinned(cpus: str, command: List[str]) -> List[str]:
    return ["taskset", "-c", cpus, *command]


def floor(model: Path, cpus: str, seconds: float) -> float:
    """Items a second of ONNX Runtime alone."""
    command = [sys.executable, "-c", _FLOOR, str(model), str(_MOBILE_BATCH), str(seconds)]
    out = subprocess.run(_pinned(cpus, command), stdout=subprocess.PIPE, check=True).stdout
    return float(out)


@contextmanager
def agent(name: str, model: Path, batch: int, cpus: str, more: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The agent with one model, until it is ready; `port` is set on the process."""
    with tempfile.TemporaryDirectory(prefix="edge-agent-aims-") as folder:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = agent_folder.make(Path(folder), name, model, port, batch, more=more)
        with (Path(folder) / "log").open("wb") as log:
            command = _pinned(cpus, agent_folder.command(config))
            process = subprocess.Popen(command, env=agent_folder.environment(), stdout=log, stderr=log)
        process.port = port  # type: ignore[attr-defined]
        try:
            _until_ready("http://127.0.0.1:%d/v2/health/ready" % port, process, Path(folder) / "log")
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        with contextlib.suppress(OSError), urllib.request.urlopen(url):
            return
        time.sleep(0.1)
    raise SystemExit("the agent was not ready within 30 s\n" + log.read_text())


def pss_mb(pid: int) -> float:
    """Memory of a process and all below it, what they share counted once."""
    kilobytes, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            lines = Path("/proc/%d/smaps_rollup" % one).read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            for task in Path("/proc/%d/task" % one).iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return kilobytes / 1024


async def _loaded(process: Any, name: str, item: bench_model.Input, clients: int, seconds: float) -> Dict[str, Any]:
    """The load's tally, the peak memory under it, and the last answer's bytes."""
    address = Address("127.0.0.1", process.port)
    requests = bench_model.requests(address, bench_model.infer_path(name, ""), [item], "random")
    load = Load(address, requests, Clock())
    peaks: List[float] = []

    async def watch() -> None:
        while True:
            peaks.append(pss_mb(process.pid))
            await asyncio.sleep(0.5)

    watching = asyncio.ensure_future(watch())
    await load.closed(clients, 1.0)
    tally: Tally = await load.closed(clients, seconds)
    watching.cancel()
    connection = await Connection.open(address)
    last = (await connection.ask(requests[0])).body
    connection.close()
    if tally.errors:
        raise SystemExit("%s: %d errors, the first: %s" % (name, tally.errors, tally.first_error))
    return {"per_s": len(tally.latencies) / tally.seconds, "pss_mb": max(peaks), "last": last, **tally.as_json()}


def mobile(model: Path, args: argparse.Namespace) -> None:
    """Throughput against ONNX Runtime alone, and memory; rounds alternate, since a shared machine drifts."""
    ratios, peaks = [], []
    for _ in range(args.rounds):
        alone = floor(model, args.agent_cpus, args.seconds / 2)
        with agent("mobile", model, _MOBILE_BATCH, args.agent_cpus) as process:
            item = bench_model.Input("input", DataType.FP32, (1, 3, 224, 224))
            seen = asyncio.run(_loaded(process, "mobile", item, 32, args.seconds))
        ratios.append(seen["per_s"] / alone)
        peaks.append(seen["pss_mb"])
        print("  mobile: %.1f/s, ONNX Runtime alone %.1f/s, peak PSS %.0f MB" % (seen["per_s"], alone, peaks[-1]), flush=True)
    _say("mobile, 32 clients: throughput / ONNX Runtime alone", sorted(ratios)[len(ratios) // 2], ">=", 0.9)
    _say("mobile, 32 clients, max_batch_size 4: peak PSS, MB", max(peaks), "<=", 250)


def accelerator(args: argparse.Namespace) -> None:
    """Rows a second against what the sleep that the model measured allows."""
    ratios = []
    for _ in range(args.rounds):
        with agent("sleeper", _SLEEPER, _SLEEPER_BATCH, args.agent_cpus, _SLEEPER_CONFIG) as process:
            item = bench_model.Input("x", DataType.FP32, (1, 4))
            seen = asyncio.run(_loaded(process, "sleeper", item, 48, args.seconds))
        (slept,) = struct.unpack("<f", seen["last"][-4:])
        ideal = _SLEEPER_BATCH / slept
        ratios.append(seen["per_s"] / ideal)
        text = "  sleeper: %.0f/s, a full batch slept %.2f ms, so %.0f/s is the ideal; p50 %.1f ms"
        print(text % (seen["per_s"], slept * 1e3, ideal, seen["p50_ms"]), flush=True)
    _say("simulated accelerator, 48 clients: throughput / ideal", sorted(ratios)[len(ratios) // 2], ">=", 0.93)


def _say(what: str, value: float, sign: str, aim: float) -> None:
    met = value >= aim if sign == ">=" else value <= aim
    print("%-55s %8.2f  aim %s %g  %s" % (what, value, sign, aim, "met" if met else "MISSED"), flush=True)


def main() -> None:
    """Runs both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--agent-cpus", default="0", help="as taskset takes them")
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--only", choices=("mobile", "accelerator"))
    args = parser.parse_args()
    os.sched_setaffinity(0, {args.load_cpu})
    started = time.monotonic()
    if args.only != "accelerator":
        mobile(args.models / "mobile.onnx", args)
    if args.only != "mobile":
        accelerator(args)
    print("took %.0f s, load average %.1f %.1f %.1f" % (time.monotonic() - started, *os.getloadavg()))


if __name__ == "__main__":
    main()
