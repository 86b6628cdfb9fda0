"""The check itself: what is built, asked, timed and broken, and whether that is well."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Tuple

import gpu_check_kill
import gpu_check_models
import numpy as np
import onnxruntime
from gpu_check_agent import Agent, AgentFailed, add_model, outputs, request, running

from edge_agent.cli.bench_connection import Connection
from edge_agent.cli.bench_load import Load
from edge_agent.domain.clock import Clock
from edge_agent.serving.healing.comparison import Verdict, compare

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "add_one": {"x": (4,)},
    "sum_and_difference": {"a": (2,), "b": (2,)},
    "mean_colour": {"image": (3, 8, 8)},
}
LARGEST_BATCH = 8
ASKED_ROWS = (1, 3, LARGEST_BATCH, 2)
_BUILD_SHARE = 0.6  #: of all the time
_ENGINE_PATIENCE_S = 100
_QPS = re.compile(r"Throughput:\s*([0-9.]+)\s*qps")


@dataclass
class Job:
    """A model in one precision."""

    name: str
    precision: str
    onnx: bytes
    shapes: Dict[str, Tuple[int, ...]]
    timed: bool
    row: Dict[str, Any] = field(default_factory=dict)

    def inputs(self, rows: int, seed: int = 0) -> Dict[str, Any]:
        """Numbers in 0 to 1; each row has a brightness of its own, so that rows cannot be mixed up unseen."""
        random = np.random.RandomState(seed)
        level = random.permutation(np.linspace(0.2, 1.0, 4 * LARGEST_BATCH))[:rows]
        return {
            name: (random.rand(rows, *shape) * level.reshape((rows,) + (1,) * len(shape))).astype(np.float32)
            for name, shape in self.shapes.items()
        }

    def expected(self, inputs: Dict[str, Any]) -> Dict[str, Any]:
        """What ONNX Runtime says, in this process."""
        session = onnxruntime.InferenceSession(self.onnx, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs)))


def jobs(facts: Dict[str, Any], size: int, width: float) -> List[Job]:
    """What this device can build."""
    found = [
        Job(name, "fp32", (ROOT / "tests" / "models" / (name + ".onnx")).read_bytes(), shapes, False)
        for name, shapes in TINY.items()
    ]
    plain, picture = gpu_check_models.mobilenet(size, width), {"image": (3, size, size)}
    found.append(Job("mobile-fp32", "fp32", plain, picture, True))
    if facts["fp16"] and not facts["strongly_typed_only"]:
        found.append(Job("mobile-fp16", "fp16", plain, picture, True))
    if facts["int8"]:
        found.append(Job("mobile-int8", "int8", gpu_check_models.mobilenet(size, width, quantized=True), picture, True))
    return found


def left_out(facts: Dict[str, Any]) -> List[str]:
    """Why a precision is not among them."""
    found = []
    if facts["strongly_typed_only"]:
        found.append("fp16: this TensorRT knows only the model's own types")
    elif not facts["fp16"]:
        found.append("fp16: not fast on this device")
    if not facts["int8"]:
        found.append("int8: not on this device")
    return found


def run(options: argparse.Namespace, folder: Path, report: Dict[str, Any]) -> None:
    """Fills the report; what is wrong goes into its `faults`."""
    facts, host_python = report["machine"]["facts"], report["machine"]["host_python"]
    began = time.monotonic()
    work = jobs(facts, options.size, options.width)
    report["left_out"] = left_out(facts)
    report["models"] = [job.row for job in work]
    for job in work:
        job.row.update(model=job.name, precision=job.precision)
        add_model(folder, job.name, job.onnx, job.precision)
    try:
        with running(folder, host_python) as agent:
            agent.until_ready()
            report["ready_s"] = round(time.monotonic() - began, 1)
            print("\nready after %.1f s; building %d plans" % (report["ready_s"], len(work)), flush=True)
            _compare_all(agent, work, report, "before")
            _wait_for_plans(agent, work, report, began + options.limit_s * _BUILD_SHARE)
            _compare_all(agent, work, report, "tensorrt")
            timed = [job for job in work if job.timed and job.row.get("plan")]
            if not timed:
                raise AgentFailed("TensorRT serves none of the large models, so nothing is timed")
            for job in timed:
                _time(agent, job, options)
            report["kill"] = gpu_check_kill.check(agent, timed[-1], report["faults"])
        for job in timed:
            _beside(job, options, report)
        _time_engine(timed[-1], host_python, options, report)
    except (AgentFailed, OSError) as error:
        report["faults"].append(str(error))


# -- numbers -----------------------------------------------------------------------------------------------------------


def _compare_all(agent: Agent, work: List[Job], report: Dict[str, Any], column: str) -> None:
    for job in work:
        if column == "tensorrt" and not job.row.get("plan"):
            continue
        verdict = asyncio.run(_compare(agent, job))
        job.row[column] = verdict.figures()
        if verdict.wrong:
            report["faults"].append("%s, %s: %s" % (job.name, column, verdict.wrong))


async def _compare(agent: Agent, job: Job) -> Verdict:
    """Asked all at once, so that they share batches."""
    verdict = Verdict()
    asked = [job.inputs(rows, seed) for seed, rows in enumerate(ASKED_ROWS)]
    answers = await asyncio.gather(*[ask(agent, job, inputs) for inputs in asked])
    for inputs, answer in zip(asked, answers):
        rows = len(next(iter(inputs.values())))
        compare(verdict, answer, job.expected(inputs), job.precision, None, "%d rows" % rows)
    return verdict


async def ask(agent: Agent, job: Job, inputs: Dict[str, Any]) -> Dict[str, Any]:
    """One answer; AgentFailed when it is none."""
    connection = await Connection.open(agent.address)
    try:
        answer = await connection.ask(request(agent.address, job.name, inputs))
    finally:
        connection.close()
    if answer.status != 200:
        raise AgentFailed("%s: status %d: %s" % (job.name, answer.status, answer.body[:300].decode("utf-8", "replace")))
    return outputs(answer.body)


# -- plans -------------------------------------------------------------------------------------------------------------


def _wait_for_plans(agent: Agent, work: List[Job], report: Dict[str, Any], until: float) -> None:
    """Until each is served by TensorRT, or has failed, or the time is over."""
    began = time.monotonic()
    waiting = list(work)
    while waiting and time.monotonic() < until:
        agent.look()
        versions = agent.versions()
        for job in list(waiting):
            version = versions[job.name]
            done = version["engine"] == "tensorrt" and version.get("verified")
            if done or version.get("build", {}).get("state") == "failed":
                waiting.remove(job)
                _note_plan(agent, job, version, time.monotonic() - began, report)
        time.sleep(0.1)
    for job in waiting:
        report["faults"].append("%s: no plan in time: %s" % (job.name, json.dumps(agent.versions()[job.name].get("build"))))


def _note_plan(agent: Agent, job: Job, version: Dict[str, Any], after_s: float, report: Dict[str, Any]) -> None:
    if version["engine"] != "tensorrt":
        reason = version["build"]["reason"] or version["build"]["code"]
        job.row["failed"] = reason
        report["faults"].append("%s: %s" % (job.name, reason))
        print("  %-20s failed: %s" % (job.name, reason), flush=True)
        return
    job.row["serves_after_s"] = round(after_s, 1)
    job.row["plan"] = dict(version.get("plan") or {}, path=str(_plan_path(agent.folder, job, version)))
    print("  %-20s built, compared and serving after %.1f s" % (job.name, after_s), flush=True)


def _plan_path(folder: Path, job: Job, version: Dict[str, Any]) -> Path:
    """The plan on the agent's shelf that has this size and this time; a size may come twice, both hardly."""
    shown = version.get("plan") or {}
    for sidecar in sorted((folder / "state" / "plans").glob("*.json")):
        path = sidecar.with_suffix(".plan")
        same_size = path.exists() and path.stat().st_size == shown.get("bytes")
        if same_size and json.loads(sidecar.read_text()).get("built_at") == shown.get("built_at"):
            return path
    raise AgentFailed("%s is served by TensorRT, and its plan is not on the shelf" % job.name)


# -- times -------------------------------------------------------------------------------------------------------------


def _time(agent: Agent, job: Job, options: argparse.Namespace) -> None:
    """Through HTTP, batcher, arena and host: one client, and many."""
    requests = [request(agent.address, job.name, job.inputs(1, seed)) for seed in range(4)]
    for clients in (1, options.clients):
        tally = asyncio.run(Load(agent.address, requests, Clock()).closed(clients, options.seconds))
        job.row["clients_%s" % ("one" if clients == 1 else "many")] = dict(tally.as_json(), clients=clients)
        if tally.errors:
            raise AgentFailed("%s under load: %s" % (job.name, tally.first_error))


def _beside(job: Job, options: argparse.Namespace, report: Dict[str, Any]) -> None:
    """trtexec on the same plan with full batches."""
    trtexec = report["machine"]["trtexec"]
    if not trtexec:
        return
    shapes = ",".join(
        "%s:%s" % (name, "x".join(map(str, (LARGEST_BATCH, *shape)))) for name, shape in sorted(job.shapes.items())
    )
    command = [trtexec, "--loadEngine=" + job.row["plan"]["path"], "--shapes=" + shapes, "--warmUp=200"]
    command.append("--duration=%d" % max(1, round(options.seconds)))
    done = subprocess.run(command, capture_output=True, text=True, timeout=_ENGINE_PATIENCE_S, check=False)
    found = _QPS.search(done.stdout)
    if done.returncode or not found:
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        report["faults"].append("trtexec on %s: ended with %d: %s" % (job.name, done.returncode, "".join(last)))
        return
    rows = float(found.group(1)) * LARGEST_BATCH
    job.row["trtexec_rows_per_s"] = round(rows, 1)
    job.row["ratio"] = round(job.row["clients_many"]["per_s"] / rows, 3)


def _time_engine(job: Job, python: str, options: argparse.Namespace, report: Dict[str, Any]) -> None:
    """The engine alone, in the host's interpreter: CUDA graphs and zero-copy, on and off."""
    script = str(ROOT / "scripts" / "gpu_check_parts" / "gpu_check_engine.py")
    for rows in (1, LARGEST_BATCH):
        command = [python, "-I", script, str(ROOT / "edge_agent"), job.row["plan"]["path"], str(options.seconds / 2), str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ENGINE_PATIENCE_S, check=False)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            report["faults"].append("%s alone: ended with %d: %s" % (job.name, done.returncode, "".join(last)))
            return
        for line in done.stdout.splitlines():
            figures = dict(json.loads(line), model=job.name)
            report["engine"].append(figures)
            if not figures["same"]:
                report["faults"].append("%s: other answers with %s" % (job.name, line))
            if figures["turns_wrong"]:
                text = "%s: %d of %d answers to sizes by turns are others with %s"
                report["faults"].append(text % (job.name, figures["turns_wrong"], figures["turns"], line))
            if figures["cuda_graphs"] and not figures["launched"]:
                report["faults"].append("%s: CUDA graphs did not come to be (%d rows)" % (job.name, rows))


# -- what is shown -----------------------------------------------------------------------------------------------------


def show(report: Dict[str, Any]) -> None:
    """The tables, and what is wrong."""
    head = "\n%-20s %-5s %9s %11s %10s %12s %14s %7s"
    print(head % ("model", "", "after s", "error share", "1: p50 ms", "many: rows/s", "trtexec rows/s", "ratio"))
    for row in report["models"]:
        share = row.get("tensorrt", {}).get("max_share")
        one, many = row.get("clients_one", {}).get("p50_ms"), row.get("clients_many", {}).get("per_s")
        cells = (row.get("serves_after_s"), share, one, many, row.get("trtexec_rows_per_s"), row.get("ratio"))
        shown = tuple("-" if cell is None else "%g" % cell for cell in cells)
        print("%-20s %-5s %9s %11s %10s %12s %14s %7s" % ((row["model"], row["precision"]) + shown))
    for text in report["left_out"]:
        print("left out: " + text)
    if report["engine"]:
        print("\n%-20s %4s %10s %12s %9s %9s" % ("engine alone", "rows", "zero-copy", "CUDA graphs", "p50 ms", "p99 ms"))
    for row in report["engine"]:
        words = tuple("on" if row[name] else "off" for name in ("zero_copy", "cuda_graphs"))
        print("%-20s %4d %10s %12s %9.3f %9.3f" % ((row["model"], row["rows"]) + words + (row["p50_ms"], row["p99_ms"])))
    if report.get("kill"):
        print("\nhost killed in mid-batch: " + ", ".join("%s %s" % item for item in report["kill"].items()))
    for text in report["faults"]:
        print("WRONG: " + text)
    print("gpu_check: %s" % ("failed" if report["faults"] else "all well"))
