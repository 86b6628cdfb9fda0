"""The body child's side of the main process: large JSON and compressed bodies, converted where nothing waits for it.

What comes in and goes out is private memory: who holds slots of the arena must not wait for more of them.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

from edge_agent.cameras.copying import Buffer, copy
from edge_agent.cameras.on_call import ChildOnCall, Job, Subject
from edge_agent.cameras.vision_child import Reply
from edge_agent.domain.clock import Clock
from edge_agent.domain.tensors import Lease
from edge_agent.errors import ChildRefused, EdgeAgentError, InvalidRequest, PayloadTooLarge
from edge_agent.processes.arena import Arena
from edge_agent.processes.child import ChildSpec

#: what a job may wait and take in all
TIMEOUT_S = 30.0
_BUDGET_S = 20.0  # the largest body by far, on the slowest board
_SUBJECT = Subject("body", "converter", "request.invalid")
_LEAST_TARGET = 65_536
_USUAL_RATIO = 8  # of plain bytes to compressed ones; more takes a second try

Hold = Callable[[int], None]


def _not_counted(nbytes: int) -> None:
    """For results whose memory nobody bounds."""


class BodyChild(ChildOnCall):
    """The converter. Starts with its first use; a body that ends it ends nothing else."""

    def __init__(self, arena: Arena, clock: Clock, python: str = "") -> None:
        spec = ChildSpec(
            "body",
            "edge_agent.vision_host.body",
            python=python,
            backoff_first_s=0.05,
            backoff_cap_s=0.5,
            silence_s=_BUDGET_S,  # reading a large JSON holds the interpreter: no ping is answered meanwhile
        )
        super().__init__(spec, arena, clock, _SUBJECT)

    async def start(self) -> None:
        """Nothing yet: the child starts with the first body."""

    async def inflate(self, data: Buffer, coding: str, limit: int, hold: Hold = _not_counted) -> bytearray:
        """A gzip or deflate body as plain bytes, at most `limit`. `hold` is told their number before they take memory.

        InvalidRequest, PayloadTooLarge, UnavailableError.
        """
        guess = min(max(_LEAST_TARGET, _USUAL_RATIO * len(data)), limit)
        plain, _ = await self._convert("inflate", [data], guess, {"coding": coding, "limit": limit}, hold)
        return plain

    async def deflate(self, data: Buffer, coding: str) -> bytearray:
        """Plain bytes as gzip or deflate."""
        enough = len(data) + len(data) // 1000 + 64
        packed, _ = await self._convert("deflate", [data], enough, {"coding": coding}, _not_counted)
        return packed

    async def json_to_binary(
        self, data: Buffer, header_length: Optional[int], limit: int, hint: str = "", hold: Hold = _not_counted
    ) -> Tuple[bytearray, int]:
        """An inference request in the binary form, and how much of it is JSON.

        With `header_length` the body has binary tensors already, behind so much JSON. `hint` ends the texts about what is
        no JSON at all. InvalidRequest (args_by_name["request_id"] has the request's own), PayloadTooLarge, UnavailableError.
        """
        fields = {"header_length": header_length, "limit": limit, "hint": hint}
        body, reply = await self._convert("json_to_binary", [data], len(data) + _LEAST_TARGET, fields, hold)
        return body, int(reply["header_length"])

    async def binary_to_json(self, parts: Sequence[Buffer], header_length: int, binary: Sequence[int]) -> Tuple[bytearray, int]:
        """An inference answer with outputs as JSON but for those at the positions `binary`, and how much of it is JSON."""
        fields = {"header_length": header_length, "binary": list(binary)}
        nbytes = sum(len(part) for part in parts)
        body, reply = await self._convert("binary_to_json", parts, 5 * nbytes + _LEAST_TARGET, fields, _not_counted)
        return body, int(reply["header_length"])

    async def _convert(
        self, op: str, source: Sequence[Buffer], guess: int, fields: Mapping[str, Any], hold: Hold
    ) -> Tuple[bytearray, Reply]:
        # a guess may be too low, and must not be what makes the job impossible
        guess = min(guess, self._arena.max_bytes // 2)
        try:
            lease, reply = await self._run(Job(op, source, guess, _BUDGET_S, fields))
        except ChildRefused as error:
            raise _error(error) from None
        try:
            return await _taken(lease, int(reply["nbytes"]), hold), reply
        finally:
            lease.release()

    async def _run(self, job: Job) -> Tuple[Lease, Reply]:
        try:
            return await self.run(job, TIMEOUT_S)
        except ChildRefused as error:
            if error.refusal != "body.no_room":
                raise
            need = int(error.detail["need"])
        return await self.run(Job(job.op, job.source, need, job.budget_s, job.fields), TIMEOUT_S)


async def _taken(lease: Lease, nbytes: int, hold: Hold) -> bytearray:
    """The result in private memory."""
    hold(nbytes)
    taken = bytearray(nbytes)
    await copy(lease.view()[:nbytes], memoryview(taken))
    return taken


def _error(error: ChildRefused) -> EdgeAgentError:
    if error.refusal == "request.too_large":
        return PayloadTooLarge(str(error))
    if error.refusal == "request.invalid":
        return InvalidRequest(str(error), request_id=str(error.detail.get("id", "")))
    return error
