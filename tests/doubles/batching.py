"""A batcher with instances that are not hosts, and how to ask it."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.batching.policy import BatchPolicy
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from tests.doubles.instance import FakeInstance


def make(policy: Optional[BatchPolicy] = None, *instances: FakeInstance, **options: Any) -> DynamicBatcher:
    batcher = DynamicBatcher("m", "1", policy or BatchPolicy(8), Clock(), **options)
    batcher.use(instances or [FakeInstance(0.01)])
    return batcher


def ask(
    batcher: DynamicBatcher, name: str, rows: int = 1, key: str = "k", deadline: Optional[float] = None, **fields: Any
) -> asyncio.Future[Any]:
    return asyncio.ensure_future(batcher.submit(InferRequest("m", (), id=name, **fields), rows, key, deadline))


def said(response: Any) -> str:
    return str(response.detections[0].label)
