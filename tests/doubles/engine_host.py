"""An engine instance whose host is the test: it holds the other end of the channel."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.tensors import DataType, Tensor, TensorSpec
from edge_agent.engine_host import wire
from edge_agent.engines.batch import Batch, Ran
from edge_agent.engines.instance import EngineInstance
from edge_agent.engines.load import LoadReport
from edge_agent.engines.traffic import Traffic
from edge_agent.processes.arena import Arena

REPORT = LoadReport(
    (TensorSpec("x", DataType.FP32, (-1, 4)),),
    (TensorSpec("y", DataType.FP32, (-1, 4)), TensorSpec("z", DataType.INT64, (-1, -1))),
    8,
    1,
)


@dataclass
class Item:
    """A request in a batch."""

    request: InferRequest
    rows: int = 1


class Owner:
    """Whom the instance tells."""

    def __init__(self) -> None:
        self.finished_batches: List[Tuple[Batch[Any], Ran]] = []
        self.lost_batches: List[Tuple[Batch[Any], str, bool]] = []

    def finished(self, batch: Batch[Any], ran: Ran) -> None:
        self.finished_batches.append((batch, ran))

    def lost(self, batch: Batch[Any], reason: str, suspect: bool = True) -> None:
        self.lost_batches.append((batch, reason, suspect))


class StandIn:
    """The instance, and what its host gets and says."""

    def __init__(self, arena_bytes: int = 1 << 20) -> None:
        self.arena = Arena(arena_bytes)
        self.segment = self.arena.segment("host:test")
        self.traffic = Traffic()
        self.hangs: List[str] = []
        self.busy: List[Tuple[int, float]] = []
        self.owner = Owner()
        self.instance = self.another(1)
        self.host = self.connect(self.instance)
        self.instance.open()

    def another(self, number: int) -> EngineInstance:
        on_busy = lambda instance, until: self.busy.append((instance, until))  # noqa: E731
        return EngineInstance(
            number, "m/1", self.arena, self.segment, self.traffic, Clock(), 0.2, 0.5, self.hangs.append, on_busy
        )

    @staticmethod
    def connect(instance: EngineInstance, report: LoadReport = REPORT) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        instance.connect(ours, report)
        theirs.settimeout(5)
        return theirs

    def item(self, room: Optional[int] = 64, decode: bool = False, shape: Tuple[int, ...] = (1, 4), **fields: Any) -> Item:
        """A request with slots of its own, which `release` gives back."""
        wants = [(self.segment, 16)] + ([(self.segment, room)] if room else [])
        leases = self.arena.try_acquire(wants)
        assert leases is not None
        tensor = Tensor("x", DataType.FP32, shape, leases[0], 0, 16)
        return Item(InferRequest("m", (tensor,), room=leases[1] if room else None, decode=decode, **fields))

    @staticmethod
    def release(*items: Item) -> None:
        for item in items:
            item.request.inputs[0].lease.release()
            if item.request.room is not None:
                item.request.room.release()

    def send(self, *items: Item, reason: str = "idle") -> Batch[Any]:
        batch: Batch[Any] = Batch(items, reason, 0.0)
        self.instance.send(batch, self.owner)
        return batch

    def got(self) -> Tuple[int, int, Any]:
        """(kind, batch, requests or room) of the next message to the host."""
        data = self.host.recv(wire.MAX_MESSAGE)
        kind, count, batch = wire.message_kind(data)
        return kind, batch, wire.unpack_execute(data, count) if kind == wire.EXECUTE else wire.unpack_room(data)

    def says(self, batch: int, *answers: wire.AnswerRef, last: bool = True) -> None:
        for message in wire.pack_answers(batch, answers, wire.Times(last, 1, 1_000_000, 2_000_000, 3_000_000)):
            self.host.send(message)

    @property
    def slots(self) -> int:
        return int(self.arena.status()["slots"])


def answer(place: int, request: wire.RequestRef, nbytes: int = 16) -> wire.AnswerRef:
    """An output y where the request wants it."""
    ref = wire.TensorRef(0, wire.DATATYPE_CODES["FP32"], (1, 4), request.segment, request.offset, nbytes)
    return wire.AnswerRef(place, wire.OK, [ref])


def failure(place: int, code: str = "engine.execution_failed", text: str = "no") -> wire.AnswerRef:
    return wire.AnswerRef(place, wire.FAILED, (), json.dumps({"code": code, "text": text}).encode())


async def until(condition: Callable[[], Any], within_s: float = 5.0) -> None:
    """Polls with a deadline."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not condition():
        assert loop.time() < end, "it did not come true"
        await asyncio.sleep(0.002)
