"""The engine host is killed in the midst of a batch: what was asked is answered right or refused, what follows is right."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import Any, Dict, List

from gpu_check_agent import Agent, outputs, request

from edge_agent.cli.bench_connection import Connection, ConnectionLost
from edge_agent.serving.healing.comparison import Verdict, compare

_CLIENTS = 8
_KINDS = 4  #: of inputs
_BEFORE = 40  #: answers before the kill
_AFTER = 40  #: right answers after it that are enough
_PATIENCE_S = 60.0


class _Watch:
    """What the clients saw."""

    def __init__(self) -> None:
        self.right = self.wrong = self.refused = self.lost = 0
        self.right_after = 0
        self.killed_at = 0.0
        self.first_after_s = 0.0
        self.over = False
        self.what = ""

    def note(self, begun: float, verdict: Verdict) -> None:
        """An answer; one whose question came after the kill counts apart."""
        if verdict.wrong:
            self.wrong += 1
            self.what = self.what or verdict.wrong
            return
        self.right += 1
        if self.killed_at and begun > self.killed_at:
            self.first_after_s = self.first_after_s or time.monotonic() - self.killed_at
            self.right_after += 1


def check(agent: Agent, job: Any, faults: List[str]) -> Dict[str, Any]:
    """What happened, for the report."""
    watch = _Watch()
    before = agent.host_pid()
    asyncio.run(_load(agent, job, watch, before))
    pid, version = agent.host_pid(), agent.versions()[job.name]
    if not before or pid == before:
        faults.append("the engine host was not killed, or not started again")
    if watch.wrong:
        faults.append("%d wrong answers around the death of the host: %s" % (watch.wrong, watch.what))
    if watch.right_after < _AFTER:
        faults.append("only %d right answers after the death of the host within %g s" % (watch.right_after, _PATIENCE_S))
    if version["engine"] != "tensorrt":
        faults.append("after the death of the host %s is served by %s" % (job.name, version["engine"]))
    return {
        "right": watch.right,
        "wrong": watch.wrong,
        "refused": watch.refused,
        "lost": watch.lost,
        "right_after": watch.right_after,
        "first_after_s": round(watch.first_after_s, 3),
    }


async def _load(agent: Agent, job: Any, watch: _Watch, pid: int) -> None:
    """Clients that never pause: whenever it happens, a batch is at work."""
    kinds = [job.inputs(1, seed) for seed in range(_KINDS)]
    pairs = [(request(agent.address, job.name, inputs), job.expected(inputs)) for inputs in kinds]
    clients = [asyncio.ensure_future(_client(agent, job, watch, pairs, number)) for number in range(_CLIENTS)]
    try:
        await _until(lambda: watch.right >= _BEFORE)
        if pid:
            os.kill(pid, signal.SIGKILL)
            watch.killed_at = time.monotonic()
        await _until(lambda: watch.right_after >= _AFTER)
    finally:
        watch.over = True
        await asyncio.gather(*clients)


async def _until(condition: Any) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not condition() and time.monotonic() < end:  # noqa: ASYNC110 - what the clients count
        await asyncio.sleep(0.005)


async def _client(agent: Agent, job: Any, watch: _Watch, pairs: List[Any], number: int) -> None:
    connection = await Connection.open(agent.address)
    while not watch.over:
        asked, expected = pairs[number % len(pairs)]
        number += 1
        begun = time.monotonic()
        try:
            answer = await asyncio.wait_for(connection.ask(asked), _PATIENCE_S)
        except (ConnectionLost, asyncio.TimeoutError):
            watch.lost += 1
            connection.close()
            with contextlib.suppress(OSError):
                connection = await Connection.open(agent.address)
            continue
        if answer.status != 200:
            watch.refused += 1
            await asyncio.sleep(0.02)
            continue
        verdict = Verdict()
        compare(verdict, outputs(answer.body), expected, job.precision, None, "an answer")
        watch.note(begun, verdict)
    connection.close()
