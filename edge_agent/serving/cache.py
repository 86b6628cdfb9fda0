"""The response cache: equal requests to a model that asks for it are answered without running it again."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import AsyncIterator, Dict, Iterable, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.config.response_cache import ResponseCacheSection
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.domain.tensors import Lease
from edge_agent.processes.arena import Arena
from edge_agent.serving.cache_answer import Answer
from edge_agent.serving.cache_key import Lookup, Tags, digest_beside, key_of
from edge_agent.serving.cache_memory import AnswerMemory
from edge_agent.serving.cache_shelf import AnswerShelf, Shelf
from edge_agent.serving.servable import Servable
from edge_agent.telemetry.metrics import Metrics

#: larger answers are not kept: they are copied on the loop, and 4 MB take a small board about 1 ms
ANSWER_MAX_BYTES = 4 * 1024 * 1024


class ResponseCache:
    """Memory in front, the database behind."""

    def __init__(
        self,
        section: ResponseCacheSection,
        shelf: Optional[Shelf],
        arena: Arena,
        clock: Clock,
        metrics: Metrics,
        lookup: Lookup,
    ) -> None:
        self._enabled = section.memory_max_bytes > 0 or (shelf is not None and shelf.max_bytes > 0)
        self._memory = AnswerMemory(section.memory_max_bytes)
        self._shelf = AnswerShelf(shelf, clock) if shelf is not None else None
        self._arena = arena
        self._clock = clock
        self._metrics = metrics
        self._tags = Tags(lookup)
        self._current: Dict[Tuple[str, str], str] = {}  #: by model and version: the tag that answers now

    async def start(self) -> None:
        """Learns what an earlier run has left."""
        if self._shelf is not None:
            await self._shelf.start()

    def stop(self) -> None:
        """Notes what was used."""
        if self._shelf is not None:
            self._shelf.stop()

    # -- versions ---------------------------------------------------------------------------------------------------

    def offered(self, model: str, versions: Sequence[str]) -> None:
        """These are the model's versions now: answers of others, left by an earlier run, are of no use."""
        for version in self._shelf.versions(model) if self._shelf is not None else ():
            if version not in versions:
                self._forget(model, version)

    @contextlib.asynccontextmanager
    async def loading(self, served: Servable, path: Path) -> AsyncIterator[None]:
        """While a version is loaded from `path`; answers of other files under its name are deleted then.

        Nothing is kept of a version whose files change meanwhile: nobody knows which of them it was made of.
        """
        before = await self._files(path)
        yield
        if not served.ready or before is None or await self._files(path) != before:
            return
        self._tags.loaded(served, before[0])
        tag = self._tags.of(served)
        if tag is not None:
            self._retag(served, tag)

    @staticmethod
    async def _files(path: Path) -> Optional[Tuple[str, int, int]]:
        """The files beside by what is in them, the model's by size and time; None where they go while they are read."""

        def look() -> Tuple[str, int, int]:
            stat = path.stat()
            return digest_beside(path), stat.st_size, stat.st_mtime_ns

        try:
            return await asyncio.get_running_loop().run_in_executor(None, look)
        except OSError:
            return None

    def retired(self, live: Iterable[Servable]) -> None:
        """Versions were taken down, these are left: answers of the others are deleted."""
        left = {(served.name, served.version) for served in live}
        for model, version in [whose for whose in self._current if whose not in left]:
            self._forget(model, version)

    def _retag(self, served: Servable, tag: str) -> None:
        whose = (served.name, served.version)
        if self._current.get(whose) != tag:
            self._forget(*whose, tag)
            self._current[whose] = tag

    def _forget(self, model: str, version: str, but: str = "") -> None:
        gone = self._shelf.only(model, version, but) if self._shelf is not None else set()
        for tag in gone | {self._current.pop((model, version), but)}:
            if tag != but:
                self._memory.forget(tag)

    # -- requests ---------------------------------------------------------------------------------------------------

    def serves(self, served: Servable, request: InferRequest) -> bool:
        """Whether the answer may be kept. A camera's frames never come again; a sequence's answer depends on those before."""
        config = served.config
        if not (config.cached and self._enabled) or request.source.startswith("camera/"):
            return False
        policy = config.model_transaction_policy
        return config.sequence_batching is None and not (policy is not None and policy.decoupled)

    async def infer(self, served: Servable, request: InferRequest) -> InferResponse:
        """The kept answer (`cached` then), or the model's, which is kept if it is one. Raises what the model raises."""
        started = self._clock.monotonic()
        tag = self._tag(served)
        if tag is None:
            return await served.infer(request)
        key = await key_of(tag, request)
        response = await self._again(served, request, key, started)
        if response is not None:
            return response
        looked_us = self._since_us(started)
        response = await served.infer(request)
        kept_from = self._clock.monotonic()
        if self._tags.of(served) == tag:  # else a model that an ensemble calls was swapped meanwhile
            self._keep(served, key, response)
        miss_us = looked_us + self._since_us(kept_from)
        served.statistics.cache_miss.add(miss_us)
        self._metrics.cache_missed(served.name, served.version, miss_us)
        return replace(response, timing=replace(response.timing, total_us=response.timing.total_us + miss_us))

    def _tag(self, served: Servable) -> Optional[str]:
        try:
            tag = self._tags.of(served)
        except errors.EdgeAgentError:
            return None  # a model that the ensemble calls is not there: it says so itself
        if tag is not None:
            self._retag(served, tag)
        return tag

    async def _again(self, served: Servable, request: InferRequest, key: str, started: float) -> Optional[InferResponse]:
        """A kept answer in slots of its own or the request's; None when there is none, or no slot for it."""
        answer = self._memory.get(key)
        if answer is None and self._shelf is not None:
            answer = await self._shelf.find(key)
            if answer is not None:
                self._memory.put(key, answer)
        if answer is None:
            return None
        room, kept = request.room, ()  # type: Optional[Lease], Tuple[Lease, ...]
        if answer.tensors and (room is None or room.nbytes < max(1, answer.room_bytes)):
            room = self._room(served, room, answer)
            if room is None:
                return None
            kept = (room,)
        tensors = answer.into(room) if room is not None and answer.tensors else ()
        if self._shelf is not None:
            self._shelf.hit(key)
        timing = Timing(total_us=self._since_us(started))
        return InferResponse(
            request.model, served.version, request.id, tensors, answer.detections, timing, 0, kept, cached=True
        )

    def _room(self, served: Servable, room: Optional[Lease], answer: Answer) -> Optional[Lease]:
        """A slot where whoever asked can read: beside the one that is too small, else in the model's own segment."""
        try:
            segment = served.segment if room is None or not room.segment else self._arena.find(room.segment)
            leases = self._arena.try_acquire([(segment, max(1, answer.room_bytes))])
        except errors.EdgeAgentError:
            return None
        return leases[0] if leases else None

    def _keep(self, served: Servable, key: str, response: InferResponse) -> None:
        if sum(tensor.nbytes for tensor in response.outputs) > ANSWER_MAX_BYTES:
            return
        answer = Answer.of(response)
        self._memory.put(key, answer)
        if self._shelf is not None:
            self._shelf.keep(key, served.name, served.version, answer)

    def _since_us(self, started: float) -> int:
        return int((self._clock.monotonic() - started) * 1e6)
