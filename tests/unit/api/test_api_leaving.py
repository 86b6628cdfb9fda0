"""Clients that leave at any moment.

Servers changed over the years what becomes of a handler whose client left (aio-libs/aiohttp#2492, #6719, #7135): it ran on,
or it was ended at whatever it waited for. Here it is ended, by a setting; what changes state goes on to its end all the same.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any, List

import pytest

from edge_agent.domain.requests import InferRequest, InferResponse
from tests.doubles.serving import FakeServing
from tests.unit.api.conftest import Api, running_api, until

ROUNDS = 300
STEPS = 12  #: moments of leaving, a millisecond apart
WORK_S = 0.004

INFER = json.dumps({"inputs": [{"name": "X", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}).encode()
REQUESTS = [("/v2/models/demo/infer", INFER), ("/v2/repository/models/demo/load", b"{}"), ("/api/models/demo/unload", b"")]


class SlowServing(FakeServing):
    """Takes a moment for everything, and tells what it began from what it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: List[Any] = []
        self.cancelled = 0

    async def infer(self, request: InferRequest) -> InferResponse:
        try:
            await asyncio.sleep(WORK_S)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().infer(request)

    async def _controlled(self, *asked: Any) -> None:
        self.begun.append(asked)
        await asyncio.sleep(WORK_S)
        await super()._controlled(*asked)


async def _leave(api: Api, number: int) -> None:
    """One request whose client leaves after some milliseconds; every fifth one within its body."""
    path, body = REQUESTS[number % len(REQUESTS)]
    sent = body[: len(body) // 2] if number % 5 == 0 else body
    head = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path, len(body))
    _, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(head.encode() + sent)
    await asyncio.sleep(number // len(REQUESTS) % STEPS / 1000)
    if number % 2:
        writer.transport.abort()  # a reset
    writer.close()


async def test_clients_that_leave_at_any_moment_leave_nothing_half_done_and_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "edge_agent")
    serving = SlowServing()
    async with running_api(tmp_path, serving=serving) as api:
        assert (await api.post(REQUESTS[0][0], data=INFER)).status == 200
        descriptors, served = _descriptors(), len(serving.requests)
        for number in range(ROUNDS):
            await _leave(api, number)
        await until(lambda: not api.server.in_flight and not serving.slots)
        await until(lambda: serving.control == serving.begun)  # what was begun was ended, in its order
        await until(lambda: _descriptors() <= descriptors)
        assert serving.cancelled > ROUNDS // 20  # inference for nobody is ended: the setting
        assert len(serving.requests) - served > ROUNDS // 20  # and some clients stayed long enough
        assert len(serving.begun) > ROUNDS // 3
        assert (await api.post(REQUESTS[0][0], data=INFER)).status == 200
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []
    assert len([record for record in caplog.records if record.name.startswith("edge_agent")]) <= ROUNDS


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
